use super::*;
use crate::op::responder::{Command, PUT};
use crate::peer::liveness::ProcessId;

const NODE: u64 = 77;

fn server() -> MailboxServer {
    MailboxServer::new(2, 1 << 20, Arc::default()).unwrap()
}

/// A process that has ended.
fn dead() -> Holder {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let process = ProcessId {
        pid: child.id(),
        started: 1,
    };
    Holder {
        node: NODE,
        process,
    }
}

fn owner(server: &MailboxServer) -> &AtomicU64 {
    server.word(server.plan.owner(0))
}

/// Writes a request as a requester puts it.
fn ask(server: &MailboxServer, holder: Holder, number: u64) {
    let mut words = [0; REQUEST];
    let request = Request {
        number,
        holder,
        command: Command {
            what: PUT,
            count: 0,
            address: 0,
            key: 0,
            cookie: 9,
            compare: 0,
        },
        inline: 0,
    };
    request.seal(&mut words);
    let at = server.plan.request(0, number as usize % SLOTS);
    for (index, word) in words.iter().enumerate() {
        server.word(at + index * 8).store(*word, Ordering::Relaxed);
    }
}

#[test]
fn a_lane_of_a_dead_holder_is_freed() {
    let server = server();
    let holder = dead();
    owner(&server).store(holder.taken(0), Ordering::Relaxed);
    ask(&server, holder, 1);
    assert_eq!(server.serve(), 1);
    // Freed at the second idle check at which the holder is gone.
    let check = || server.release_lost(NODE, |_| false);
    assert_eq!((check(), check(), check(), check()), (0, 0, 1, 0));
    let free = owner(&server).load(Ordering::Relaxed);
    assert_eq!(free, 1 + SLOTS as u64);
    // Requests of the dead holder are skipped; the next holder's request is served.
    ask(&server, holder, 2);
    assert_eq!(server.serve(), 0);
    ask(&server, holder, free + 1);
    assert_eq!(server.serve(), 1);
}

#[test]
fn a_holder_without_request_is_identified_by_its_cookie() {
    let server = server();
    let holder = dead();
    owner(&server).store(holder.taken(0), Ordering::Relaxed);
    let check = |gone: bool| server.release_lost(NODE, |has| gone && has(holder));
    assert_eq!((check(false), check(false), check(false)), (0, 0, 0));
    assert_eq!((check(true), check(true)), (0, 1));
}

#[test]
fn lanes_of_living_and_remote_holders_stay() {
    let living = Holder {
        node: NODE,
        process: ProcessId::own(),
    };
    let elsewhere = Holder { node: 78, ..dead() };
    for holder in [living, elsewhere] {
        let server = server();
        let taken = holder.taken(0);
        owner(&server).store(taken, Ordering::Relaxed);
        ask(&server, holder, 1);
        assert_eq!(server.serve(), 1);
        for _ in 0..4 {
            assert_eq!(server.release_lost(NODE, |_| false), 0);
        }
        assert_eq!(owner(&server).load(Ordering::Relaxed), taken);
    }
}

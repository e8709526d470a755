use super::*;
use crate::hmem::mailbox::Holder;
use crate::op::responder::{Command, PUT};
use crate::peer::liveness::ProcessId;

const HOLDER: Holder = Holder {
    node: 77,
    process: ProcessId { pid: 5, started: 1 },
};

fn server() -> MailboxServer {
    MailboxServer::new(2, 1 << 20, Arc::default()).unwrap()
}

fn owner(server: &MailboxServer) -> &AtomicU64 {
    server.word(server.plan.owner(0))
}

/// Writes a request in the way a requester puts it.
fn ask(server: &MailboxServer, number: u64) {
    let mut words = [0; REQUEST];
    let request = Request {
        number,
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

/// Makes a check at which the process `gone` is dead.
fn check(server: &MailboxServer, gone: Option<Holder>) -> usize {
    server.release_lost(|word| gone.is_some_and(|h| h.has(word)))
}

#[test]
fn a_lane_of_a_dead_holder_is_freed() {
    let server = server();
    owner(&server).store(HOLDER.taken(0), Ordering::Relaxed);
    ask(&server, 1);
    assert_eq!(server.serve(), 1);
    // The lane is freed at the second idle check at which the holder is dead.
    let check = || check(&server, Some(HOLDER));
    assert_eq!((check(), check(), check(), check()), (0, 0, 1, 0));
    let free = owner(&server).load(Ordering::Relaxed);
    assert_eq!(free, 1 + SLOTS as u64);
    // Requests of the dead holder are skipped; the next holder's request is served.
    ask(&server, 2);
    assert_eq!(server.serve(), 0);
    ask(&server, free + 1);
    assert_eq!(server.serve(), 1);
}

/// A holder may die before its first request.
#[test]
fn a_holder_without_request_is_identified_by_its_cookie() {
    let server = server();
    owner(&server).store(HOLDER.taken(0), Ordering::Relaxed);
    let process = ProcessId { pid: 6, started: 6 };
    let other = Holder { process, ..HOLDER };
    for gone in [None, Some(other)] {
        assert_eq!([(); 3].map(|()| check(&server, gone)), [0; 3]);
    }
    assert_eq!([(); 2].map(|()| check(&server, Some(HOLDER))), [0, 1]);
}

/// A clone of this machine has this node's number, and a process id that is unused here or belongs to any process. So the
/// numbers prove nothing.
#[test]
fn a_lane_of_an_unknown_holder_stays() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let process = ProcessId {
        pid: child.id(),
        started: 1,
    };
    let node = crate::peer::liveness::node();
    let server = server();
    let holder = Holder { node, process };
    owner(&server).store(holder.taken(0), Ordering::Relaxed);
    ask(&server, 1);
    assert_eq!(server.serve(), 1);
    assert_eq!([(); 4].map(|()| check(&server, None)), [0; 4]);
    assert!(holder.has(owner(&server).load(Ordering::Relaxed)));
}

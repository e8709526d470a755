use super::*;
use crate::peer::liveness::ProcessId;

const NODE: u64 = 77;

fn agent() -> Agent {
    Agent::new(2, 1 << 20, Arc::default()).unwrap()
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

fn owner(agent: &Agent) -> &AtomicU64 {
    agent.word(agent.plan.owner(0))
}

/// Writes a request as a requester puts it.
fn ask(agent: &Agent, holder: Holder, number: u64) {
    let mut words = [0; REQUEST];
    let request = Request {
        number,
        holder,
        task: Task::Put,
        region: 9,
        address: 0,
        size: 0,
        compare: 0,
        inline: true,
    };
    request.seal(&mut words);
    let at = agent.plan.request(0, number as usize % SLOTS);
    for (index, word) in words.iter().enumerate() {
        agent.word(at + index * 8).store(*word, Ordering::Relaxed);
    }
}

#[test]
fn a_lane_of_a_dead_holder_is_freed() {
    let agent = agent();
    let holder = dead();
    owner(&agent).store(holder.taken(0), Ordering::Relaxed);
    ask(&agent, holder, 1);
    assert_eq!(agent.serve(), 1);
    // Freed at the second idle check at which the holder is gone.
    let check = || agent.release_lost(NODE, |_| false);
    assert_eq!((check(), check(), check(), check()), (0, 0, 1, 0));
    let free = owner(&agent).load(Ordering::Relaxed);
    assert_eq!(free, 1 + SLOTS as u64);
    // Requests of the dead holder are skipped; the next holder's request is served.
    ask(&agent, holder, 2);
    assert_eq!(agent.serve(), 0);
    ask(&agent, holder, free + 1);
    assert_eq!(agent.serve(), 1);
}

#[test]
fn a_holder_without_request_is_identified_by_its_cookie() {
    let agent = agent();
    let holder = dead();
    owner(&agent).store(holder.taken(0), Ordering::Relaxed);
    let check = |gone: bool| agent.release_lost(NODE, |has| gone && has(holder));
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
        let agent = agent();
        let taken = holder.taken(0);
        owner(&agent).store(taken, Ordering::Relaxed);
        ask(&agent, holder, 1);
        assert_eq!(agent.serve(), 1);
        for _ in 0..4 {
            assert_eq!(agent.release_lost(NODE, |_| false), 0);
        }
        assert_eq!(owner(&agent).load(Ordering::Relaxed), taken);
    }
}

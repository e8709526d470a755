use super::*;

#[test]
fn this_process_lives() {
    let own = ProcessId::own();
    assert_ne!(own.started, 0);
    assert_eq!(own.state(), State::Runs);
    assert_ne!(node(), 0);
    assert_eq!(node(), node());
}

#[test]
fn a_reused_id_is_another_process() {
    let own = ProcessId::own();
    let other = ProcessId {
        started: own.started.wrapping_add(1),
        ..own
    };
    assert_eq!(other.state(), State::Gone);
}

#[test]
fn a_dead_child_is_gone() {
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let pid = child.id();
    let id = ProcessId {
        pid,
        started: stat(pid).unwrap().started,
    };
    let eventually = |state| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while id.state() != state {
            assert!(
                std::time::Instant::now() < deadline,
                "{:?}, not {state:?}",
                id.state()
            );
            std::thread::yield_now();
        }
    };
    eventually(State::Runs);
    for (signal, state) in [
        (libc::SIGSTOP, State::Stopped),
        (libc::SIGCONT, State::Runs),
    ] {
        // SAFETY: the process is a child of this test and not yet waited for, so its id is not reused.
        unsafe { libc::kill(pid as libc::pid_t, signal) };
        eventually(state);
    }
    child.kill().unwrap();
    // The child is a zombie until `wait`, and does not exist after it.
    eventually(State::Gone);
    child.wait().unwrap();
    assert_eq!(id.state(), State::Gone);
}

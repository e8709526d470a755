use super::*;
use crate::base::sys::script::Script;

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
        started: thread(pid).unwrap().started,
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
        // SAFETY: the process is a child of this test and was not waited for, so its id is not reused.
        unsafe { libc::kill(pid as libc::pid_t, signal) };
        eventually(state);
    }
    child.kill().unwrap();
    // The child is a zombie until `wait`, and does not exist afterwards.
    eventually(State::Gone);
    child.wait().unwrap();
    assert_eq!(id.state(), State::Gone);
}

/// The text of `/proc/<pid>/stat` for a process in this state that started at tick 99.
fn text(pid: u32, state: char) -> Vec<u8> {
    let zeros = "0 ".repeat(18);
    format!("{pid} (a) b) Z) {state} {zeros}99 0 0\n").into_bytes()
}

/// An id that no process has.
const NOBODY: ProcessId = ProcessId {
    pid: i32::MAX as u32,
    started: 99,
};

fn path(pid: u32) -> String {
    format!("/proc/{pid}/task/{pid}/stat")
}

#[test]
fn only_esrch_means_that_there_is_no_process() {
    for (errno, state) in [(libc::EPERM, State::Runs), (libc::ESRCH, State::Gone)] {
        let _script = Script::new().fails("kill", errno);
        assert_eq!(ProcessId::own().state(), state, "{errno}");
    }
    assert_eq!(NOBODY.state(), State::Gone);
}

/// A process of another user counts as running if `/proc` is mounted with hidepid.
#[test]
fn a_process_that_is_hidden_counts_as_running() {
    let _script = Script::new()
        .fails("kill", libc::EPERM)
        .fails(&path(NOBODY.pid), libc::ENOENT);
    assert_eq!(NOBODY.state(), State::Runs);
    drop(_script);
    let own = std::process::id();
    let _script = Script::new()
        .fails(&format!("/proc/self/task/{own}/stat"), libc::EACCES)
        .fails("/proc/self/stat", libc::EACCES);
    assert_eq!(
        ProcessId::own(),
        ProcessId {
            pid: own,
            started: 0
        }
    );
}

#[test]
fn states_are_read_behind_any_name() {
    for (letter, state) in [
        ('R', State::Runs),
        ('D', State::Runs),
        ('T', State::Stopped),
        ('t', State::Stopped),
    ] {
        let stat = path(NOBODY.pid);
        let _script = Script::new()
            .answers("kill", ())
            .answers(&stat, text(NOBODY.pid, letter));
        assert_eq!(NOBODY.state(), state, "{letter}");
    }
    for broken in [
        &b""[..],
        b"7 (a",
        b"7 (a) ",
        b"7 (a) R 1 2",
        b"7 (a) Z \xff",
    ] {
        let stat = path(NOBODY.pid);
        let _script = Script::new()
            .answers("kill", ())
            .answers(&stat, broken.to_vec());
        assert_eq!(NOBODY.state(), State::Runs, "{broken:?}");
    }
}

/// The main thread has ended. So the process has the state of its first living thread.
#[test]
fn a_zombie_lives_while_a_thread_does() {
    for (threads, state) in [
        (&[(1, 'X'), (2, 'S')][..], State::Runs),
        (&[(1, 'Z'), (2, 't')], State::Stopped),
        (&[(1, 'Z'), (2, 'X')], State::Gone),
        (&[], State::Gone),
    ] {
        let stat = path(NOBODY.pid);
        let mut script = Script::new()
            .answers("kill", ())
            .answers(&stat, text(NOBODY.pid, 'Z'));
        let ids = threads.iter().map(|(id, _)| Some(*id)).chain([None]);
        script = script.answers("getdents", ids.collect::<Vec<Option<u32>>>());
        for (id, state) in threads {
            script = script.answers(&path(*id), text(*id, *state));
        }
        assert_eq!(NOBODY.state(), state, "{threads:?}");
        drop(script);
    }
    let _script = Script::new()
        .answers("kill", ())
        .answers(&path(NOBODY.pid), text(NOBODY.pid, 'Z'))
        .fails("getdents", libc::ENOENT);
    assert_eq!(NOBODY.state(), State::Gone, "it ended meanwhile");
}

const BOOT: &str = "/proc/sys/kernel/random/boot_id";

#[test]
fn a_node_that_cannot_be_known_is_none() {
    let script = Script::new().fails(BOOT, libc::EACCES);
    assert_eq!(node(), 0);
    drop(script);
    let _script = Script::new()
        .answers(BOOT, b"of another boot\n".to_vec())
        .fails("/proc/self/ns/pid", libc::EACCES);
    assert_eq!(node(), 0);
    drop(_script);
    let _script = Script::new().answers(BOOT, b"of another boot\n".to_vec());
    let other = node();
    assert_ne!(other, node());
    assert_ne!(other, 0);
}

/// In a container that sees the outer `/proc`, the files of a process id belong to another process.
#[test]
fn strangers_are_not_read() {
    let outer = || b"Name:\ttest\nNSpid:\t4711\t7\n".to_vec();
    let _script = Script::new()
        .answers("kill", ())
        .answers("/proc/self/status", outer())
        .answers("kill", ())
        .answers("/proc/self/status", b"Name:\ttest\nNSpid:\t7\n".to_vec())
        .answers(&path(NOBODY.pid), text(NOBODY.pid, 'Z'))
        .answers("/proc/self/status", b"NSpid:\t7\n".to_vec())
        .answers("/proc/self/status", outer());
    assert_eq!(NOBODY.state(), State::Runs, "nothing is known of it");
    assert_eq!(NOBODY.state(), State::Gone);
    assert!(ProcessId::own().threads().is_none());
}

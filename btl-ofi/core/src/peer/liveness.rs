//! Whether the process of a local peer still runs.
//!
//! Some providers (shm among them) never report the death of a peer: operations to it stay outstanding for ever. A
//! peer's address blob names its process, so the process id of a local peer can be polled.

use std::fs;

/// A process on this node: its id, and its start time, since ids are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) pid: u32,
    /// Low 32 bits of field 22 of `/proc/<pid>/stat`, clock ticks since boot.
    pub(crate) started: u32,
}

impl ProcessId {
    /// This process. `started` is 0 where `/proc` cannot be read.
    pub(crate) fn own() -> ProcessId {
        let pid = std::process::id();
        ProcessId {
            pid,
            started: stat(pid).map_or(0, |s| s.started),
        }
    }

    /// The state of the process. If `/proc` cannot be read, the process counts as running.
    pub(crate) fn state(self) -> State {
        // SAFETY: signal 0 only asks whether the process exists.
        let missing = unsafe { libc::kill(self.pid as libc::pid_t, 0) } != 0
            && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
        if missing {
            return State::Gone;
        }
        match stat(self.pid) {
            Some(s) if self.started != 0 && s.started != self.started => State::Gone,
            // The main thread has ended. The process lives while another thread runs.
            Some(Stat {
                state: b'Z' | b'X', ..
            }) => match self.threads().find_map(living) {
                Some(b'T' | b't') => State::Stopped,
                Some(_) => State::Runs,
                None => State::Gone,
            },
            // Stopped by a signal or by a debugger.
            Some(Stat {
                state: b'T' | b't', ..
            }) => State::Stopped,
            _ => State::Runs,
        }
    }
}

impl ProcessId {
    /// The ids of its threads.
    pub(crate) fn threads(self) -> impl Iterator<Item = u32> {
        let entries = fs::read_dir(format!("/proc/{}/task", self.pid));
        let names = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.file_name());
        names.filter_map(|name| name.to_str()?.parse().ok())
    }
}

/// The state of a thread; `None` if it has ended.
fn living(thread: u32) -> Option<u8> {
    let state = stat(thread)?.state;
    (!matches!(state, b'Z' | b'X')).then_some(state)
}

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It runs or waits.
    Runs,
    /// It is stopped, and may continue.
    Stopped,
    /// It no longer exists, or is a zombie.
    Gone,
}

/// A number that is equal for processes that share a kernel and a process-id namespace, and different for all others.
/// 0 if it cannot be known.
pub(crate) fn node() -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let Ok(boot) = fs::read_to_string("/proc/sys/kernel/random/boot_id") else {
        return 0;
    };
    let Ok(namespace) = fs::read_link("/proc/self/ns/pid") else {
        return 0;
    };
    // DefaultHasher::new() is unkeyed: every process of one build computes the same value.
    let mut hasher = DefaultHasher::new();
    (boot.trim(), namespace).hash(&mut hasher);
    hasher.finish()
}

struct Stat {
    state: u8,
    started: u32,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The command name in parentheses may contain any byte; the fields continue after the last parenthesis.
    let rest = &text[text.iter().rposition(|&b| b == b')')? + 1..];
    let rest = std::str::from_utf8(rest).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let started: u64 = fields.nth(18)?.parse().ok()?;
    Some(Stat {
        state,
        started: started as u32,
    })
}

#[cfg(test)]
mod tests {
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
}

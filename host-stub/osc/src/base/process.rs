//! The identity of a process, by which another process on the same machine can reach it and see
//! whether it still runs.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// A process: its id, its start time (ids are reused), and the space in which the id is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id, in its own namespace.
    pub pid: u32,
    /// Field 22 of `stat` in `/proc`, the lower 32 bits of the clock ticks since boot; 0 if it cannot be read.
    pub started: u64,
    /// A number that processes share if they have the same kernel and process-id namespace; 0 if it
    /// cannot be read. Containers on one machine have different numbers.
    pub space: u64,
}

impl Process {
    /// This process. The values are read once, and again after a fork.
    pub fn own() -> Process {
        static OWN: Mutex<Option<Process>> = Mutex::new(None);
        let pid = std::process::id();
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        match *own {
            Some(process) if process.pid == pid => process,
            _ => *own.insert(Process {
                pid,
                // If `/proc` shows other ids, this process has no thread of that id.
                started: stat(&format!("/proc/self/task/{pid}"))
                    .or_else(|| stat("/proc/self"))
                    .map_or(0, |(_, started)| started),
                space: space(),
            }),
        }
    }

    /// Whether the process ids of both processes are valid in the same space.
    pub fn is_beside(&self, other: &Process) -> bool {
        self.space != 0 && self.space == other.space
    }

    /// Whether the process has ended: it does not exist, is a zombie, or another process has its id. Only for a
    /// process [beside](Self::is_beside) this one. If `/proc` does not tell, or shows other ids than this process has
    /// (in a container that sees the outer `/proc`), the process is taken to live until it is reaped.
    pub fn is_gone(&self) -> bool {
        // SAFETY: signal 0 only asks whether the process exists.
        let missing = unsafe { libc::kill(self.pid as libc::pid_t, 0) } != 0
            && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
        missing
            || shows_own_ids()
                && main_thread(self.pid).is_some_and(|(state, started)| {
                    let differs = started as u32 != self.started as u32;
                    matches!(state, b'Z' | b'X') || (self.started != 0 && differs)
                })
    }
}

/// Signals that an instruction of the thread itself raises.
const FAULTS: [libc::c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Runs `spawn` with all signals blocked that are meant for the program's own threads: a thread that `spawn` starts
/// inherits the mask. Signals for faults of the thread itself stay unblocked.
pub fn with_signals_blocked<R>(spawn: impl FnOnce() -> R) -> R {
    // SAFETY: the sets are written before they are read; this thread's mask is put back.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        for fault in FAULTS {
            libc::sigdelset(&mut all, fault);
        }
        let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before) == 0;
        let result = spawn();
        if blocked {
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
        result
    }
}

fn space() -> u64 {
    let Ok(boot) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") else {
        return 0;
    };
    let Ok(namespace) = std::fs::read_link("/proc/self/ns/pid") else {
        return 0;
    };
    // An unkeyed hasher: every process of one build computes the same value.
    let mut hasher = DefaultHasher::new();
    (boot.trim(), namespace).hash(&mut hasher);
    hasher.finish()
}

/// Whether `/proc` shows the process ids of this process's namespace. The line `NSpid` has the process's id in each
/// namespace, from the namespace of `/proc` to its own; kernels before 4.1 have none.
fn shows_own_ids() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_none_or(|ids| ids.split_ascii_whitespace().count() == 1)
}

/// State and start time of a process, from its main thread. QEMU, which runs programs of other processors, invents
/// `/proc/<pid>/stat` for the program's own process, with another start time.
fn main_thread(pid: u32) -> Option<(u8, u64)> {
    stat(&format!("/proc/{pid}/task/{pid}"))
}

fn stat(folder: &str) -> Option<(u8, u64)> {
    let text = std::fs::read(format!("{folder}/stat")).ok()?;
    // The command's name in parentheses may contain any characters; the other fields follow the
    // last parenthesis.
    let after = text.iter().rposition(|&byte| byte == b')')? + 1;
    let mut fields = std::str::from_utf8(text.get(after..)?)
        .ok()?
        .split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn this_process_lives_beside_itself() {
        let own = Process::own();
        assert_ne!((own.started, own.space), (0, 0));
        assert!(own.is_beside(&Process::own()));
        assert!(!own.is_gone());
        let other = Process {
            started: own.started + 1,
            ..own
        };
        assert!(other.is_gone(), "another process under a reused id");
        let elsewhere = Process { space: 0, ..own };
        assert!(!elsewhere.is_beside(&elsewhere));
    }

    #[test]
    fn a_killed_child_is_gone_before_it_is_waited_for() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let process = Process {
            pid: child.id(),
            started: main_thread(child.id()).unwrap().1,
            space: 1,
        };
        assert!(!process.is_gone());
        child.kill().unwrap();
        let begun = Instant::now();
        while !process.is_gone() {
            assert!(begun.elapsed() < Duration::from_secs(10));
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(process.is_gone());
    }
}

//! Whether a local peer's process still runs, and still has the transport that was connected.
//!
//! Some providers (shm among them) never report the death of a peer: operations to it stay outstanding forever. A
//! peer's address blob names its process, so the process id of a local peer can be polled.

use crate::base::cma::Refused;
use crate::base::sys;
use crate::peer::reach::Probe;

/// A process of this node: its id and its start time, because ids are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) pid: u32,
    /// Low 32 bits of field 22 of `stat` in `/proc`, clock ticks since boot.
    pub(crate) started: u32,
}

impl ProcessId {
    /// This process. `started` is 0 if `/proc` cannot be read.
    pub(crate) fn own() -> ProcessId {
        let pid = std::process::id();
        // If `/proc` shows other process ids, this process has no thread with this id.
        let own = stat(&format!("/proc/self/task/{pid}")).or_else(|| stat("/proc/self"));
        ProcessId {
            pid,
            started: own.map_or(0, |s| s.started),
        }
    }

    /// The state of the process. If `/proc` cannot be read or shows other process ids than this process has, the process
    /// counts as running until it is reaped.
    pub(crate) fn state(self) -> State {
        if sys::find_process(self.pid).is_err_and(|e| e.code == libc::ESRCH) {
            return State::Gone;
        }
        if !shows_own_ids() {
            return State::Runs;
        }
        match thread(self.pid) {
            Some(s) if self.started != 0 && s.started != self.started => State::Gone,
            // The main thread has ended. The process lives as long as another thread runs.
            Some(Stat {
                state: b'Z' | b'X', ..
            }) => match self.threads().into_iter().flatten().find_map(living) {
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

    /// The ids of the process's threads; `None` if `/proc` shows other process ids than this
    /// process has.
    pub(crate) fn threads(self) -> Option<impl Iterator<Item = u32>> {
        let shown = shows_own_ids().then(|| sys::threads(&self.pid.to_string()))?;
        Some(shown.into_iter().flatten().flatten())
    }
}

/// The state of a thread; `None` if it has ended.
fn living(id: u32) -> Option<u8> {
    let state = thread(id)?.state;
    (!matches!(state, b'Z' | b'X')).then_some(state)
}

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The process runs or waits, or its state is unknown.
    Runs,
    /// The process is stopped and may continue.
    Stopped,
    /// The process no longer exists, or is a zombie.
    Gone,
}

/// The result of a check of a peer's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The process has this state, and the connected transport still exists as far as this can be seen.
    Is(State),
    /// The process has this state, and the kernel refuses CMA to its memory.
    Closed(State, Refused),
    /// The process runs without the connected transport: it executed another program, or closed the
    /// transport.
    Changed,
}

/// Checks a process. If its probe was readable before, also checks its memory.
pub(crate) fn standing(process: ProcessId, probe: Option<Probe>) -> Standing {
    let state = process.state();
    let (Some(probe), State::Runs | State::Stopped) = (probe, state) else {
        return Standing::Is(state);
    };
    match probe.is_in(process.pid) {
        Ok(true) => Standing::Is(state),
        Ok(false) | Err(Refused(libc::EFAULT)) => Standing::Changed,
        Err(Refused(libc::ESRCH)) => {
            // The main thread no longer has memory. The process lives if another thread has memory; otherwise it
            // will soon be a zombie. If its threads cannot be listed, the process counts as running until it is
            // reaped.
            let closed = Standing::Closed(state, Refused(libc::ESRCH));
            let Some(threads) = process.threads() else {
                return closed;
            };
            let mut others = threads.filter(|id| *id != process.pid);
            match others.find_map(|id| probe.is_in(id).ok()) {
                Some(true) => closed,
                Some(false) => Standing::Changed,
                None => Standing::Is(State::Gone),
            }
        }
        Err(refused) => Standing::Closed(state, refused),
    }
}

impl Standing {
    /// The reason why the peer is dead; `None` if it is not.
    pub(crate) fn end(self, process: ProcessId) -> Option<String> {
        let pid = process.pid;
        match self {
            Standing::Is(State::Gone) => {
                Some(format!("process id {pid} on this node no longer runs"))
            }
            Standing::Changed => Some(format!(
                "process id {pid} on this node no longer holds its transport: it executed another program, \
                 or closed the transport"
            )),
            Standing::Is(_) | Standing::Closed(..) => None,
        }
    }

    /// The state of the peer's process. A process without the transport counts as dead.
    pub(crate) fn state(self) -> State {
        match self {
            Standing::Is(state) | Standing::Closed(state, _) => state,
            Standing::Changed => State::Gone,
        }
    }
}

/// A number that is equal for processes that share a kernel and a process-id namespace. Clones of a virtual machine may
/// have equal numbers. An unknown number is 0.
pub(crate) fn node() -> u64 {
    namespace("/proc/self/ns/pid")
}

/// A number that is equal for processes that share a kernel and a network namespace. Clones of a virtual machine may have
/// equal numbers.
pub(crate) fn network() -> u64 {
    namespace("/proc/self/ns/net")
}

fn namespace(link: &str) -> u64 {
    match (boot(), sys::read_link(link)) {
        (Some(boot), Ok(namespace)) => number(&(boot, namespace)),
        _ => 0,
    }
}

/// The boot id, which the kernel chooses at its start.
fn boot() -> Option<String> {
    let boot = sys::read("/proc/sys/kernel/random/boot_id").ok()?;
    Some(String::from_utf8_lossy(&boot).trim().to_owned())
}

/// A hash of identifying data. Every process of one build computes the same hash.
fn number(of: &impl std::hash::Hash) -> u64 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(of)
}

struct Stat {
    state: u8,
    started: u32,
}

/// Whether `/proc` shows the process ids of this process's namespace. In a container that sees the outer `/proc`, this
/// process's ids name unrelated processes there. The line `NSpid` lists a process's ids, from the namespace of `/proc` down
/// to the process's own.
fn shows_own_ids() -> bool {
    let status = sys::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let mut lines = status.lines();
    let ids = lines.find_map(|line| line.strip_prefix("NSpid:"));
    // Kernels before 4.1 have no such line.
    ids.is_none_or(|ids| ids.split_ascii_whitespace().count() == 1)
}

/// The state of a process's main thread, or of another thread. Does not read `/proc/<pid>/stat`: QEMU, when it runs
/// programs for other processors, emulates this file for the program's own process with another start time.
fn thread(id: u32) -> Option<Stat> {
    stat(&format!("/proc/{id}/task/{id}"))
}

fn stat(folder: &str) -> Option<Stat> {
    let text = sys::read(&format!("{folder}/stat")).ok()?;
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
mod tests;

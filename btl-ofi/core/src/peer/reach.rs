//! Whether the kernel lets this process access a local peer's memory by cross-memory attach (`base/cma.rs`), and how this
//! process verifies that the memory belongs to the peer.
//!
//! **Identity.** A process id and a start time identify a process, but not its program: `exec` keeps the id and the start
//! time. So each process announces a *probe*: the address of a word and the word's value. This process reads the probe
//! when it connects the peer, in each check of the failure detector, and before it revokes a ring transfer and makes the
//! transfer by CMA. If the word has another value or is not mapped, the peer's transport is gone. Checks are at least
//! `btl_ofi_peer_check_interval` apart. For a host that never polls, every 256th copy tests whether a check is due.
//! Between checks a copy may still access memory that is no longer the peer's, if the new program has memory mapped at
//! the same addresses and runs as the same user.
//!
//! **Permission** may be lost later: by `PR_SET_DUMPABLE`, by a seccomp filter, or because the main thread ends (the
//! kernel then finds no memory under the process id). From then on puts and gets to that peer go through its ring,
//! which needs no permission but waits for the target. If there is no ring, puts and gets go through the provider.
//! The operation that met the error is made again that way, since no part of it was complete.
//!
//! **Yama** (`/proc/sys/kernel/yama/ptrace_scope`): at 1, a process may attach only to its descendants, unless the
//! target allows it by `PR_SET_PTRACER`. Each transport allows peers to attach when it opens.

use std::fs::File;

use crate::base::cma::{self, Refused};
use crate::base::sys;

/// After this many CMA copies, the failure detector reads the clock, for a host that never polls.
pub(crate) const COPIES_PER_CHECK: u64 = 256;

const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// A word in a process's memory that identifies the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) address: u64,
    pub(crate) value: u64,
}

impl Probe {
    /// Whether the memory of the process or thread `task` holds the probe.
    pub(crate) fn is_in(self, task: u32) -> Result<bool, Refused> {
        let mut seen = 0u64;
        // SAFETY: the local side is a local variable of 8 bytes.
        unsafe { cma::read(task, (&raw mut seen).cast(), self.address, 8) }?;
        Ok(seen == self.value)
    }

    /// Whether this process's own filters of system calls allow CMA in both directions. Tries both on its own probe.
    /// The test does not write to another process, because that process's transport may close at any time and free the
    /// word. The kernel requires the same permission for both directions (`mm_access` in mm/process_vm_access.c).
    fn reach_own(self) -> Result<bool, Refused> {
        let own = std::process::id();
        if !self.is_in(own)? {
            return Ok(false);
        }
        let mut same = self.value;
        // SAFETY: the local side is a local variable of 8 bytes. The remote side is the probe of this process, which holds
        // the same value.
        unsafe { cma::write(own, (&raw mut same).cast(), self.address, 8) }?;
        Ok(true)
    }
}

/// The data for access to a local peer's memory.
pub(crate) struct Reach {
    pub(crate) probe: Probe,
    /// The peer's segment. The segment is opened at the connect, because the peer's process may not permit this later.
    pub(crate) segment: Option<File>,
}

/// Permits CMA to this process if Yama requires a permission. Returns the reason if this process cannot access
/// any other process. `probe` belongs to this process.
pub(crate) fn prepare(probe: Probe) -> Option<String> {
    let scope = scope(SCOPE);
    if asks_for_consent(scope)
        && let Err(error) = sys::permit_tracing()
    {
        tracing::warn!(
            "PR_SET_PTRACER failed, so peers may not be permitted to copy to this process: {error}"
        );
    }
    obstacle(scope, may_trace(), probe.reach_own())
}

/// Yama's scope; `None` without Yama.
fn scope(path: &str) -> Option<u32> {
    let text = sys::read(path).ok()?;
    str::from_utf8(&text).ok()?.trim().parse().ok()
}

/// Whether another process needs the consent of this process before CMA, unless it is an ancestor.
fn asks_for_consent(scope: Option<u32>) -> bool {
    scope == Some(1)
}

/// Whether this process has CAP_SYS_PTRACE.
fn may_trace() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    let status = sys::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let mut lines = status.lines();
    let effective = lines.find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> CAP_SYS_PTRACE & 1 != 0)
}

/// The reason why this process can access no other process; `None` if it can. `own` is the result of CMA to
/// this process itself, which reveals filters of system calls.
fn obstacle(scope: Option<u32>, may_trace: bool, own: Result<bool, Refused>) -> Option<String> {
    match (scope, own) {
        (Some(2), _) if !may_trace => Some(format!(
            "{SCOPE} is 2, which allows it only with CAP_SYS_PTRACE; set it to 1 or 0"
        )),
        (Some(scope @ 3..), _) => Some(format!(
            "{SCOPE} is {scope}, which forbids it until the next boot"
        )),
        (_, Err(Refused(errno))) => Some(format!(
            "process_vm_readv or process_vm_writev of this process's own memory: {}; a seccomp filter, \
             as in containers, or a kernel without CONFIG_CROSS_MEMORY_ATTACH",
            error(errno)
        )),
        (_, Ok(_)) => None,
    }
}

fn error(errno: i32) -> std::io::Error {
    std::io::Error::from_raw_os_error(errno)
}

/// The reason why a peer cannot be accessed, as text for the user.
pub(crate) fn reason(found: Result<bool, Refused>) -> String {
    match found {
        Ok(_) => String::from("its memory does not hold what it announced"),
        Err(Refused(libc::ESRCH)) => String::from(
            "the kernel finds no memory under its process id: its main thread has ended",
        ),
        Err(Refused(errno @ (libc::EPERM | libc::EACCES))) => {
            let yama = match scope(SCOPE) {
                Some(scope) => format!(", {SCOPE} is {scope}"),
                None => String::new(),
            };
            format!(
                "{} (another user or user namespace, PR_SET_DUMPABLE, a seccomp filter{yama})",
                error(errno)
            )
        }
        Err(Refused(errno)) => error(errno).to_string(),
    }
}

/// A random value that other memory is unlikely to contain. The value is not a secret. The endpoint's name
/// distinguishes processes of cloned virtual machines, which may be equal in everything else, including random numbers.
pub(crate) fn probe_value(endpoint: &[u8]) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one((std::process::id(), endpoint))
}

#[cfg(test)]
mod tests;

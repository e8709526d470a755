//! What this process inherited and a launcher cannot work with.

/// Has the system tell how children end where SIGCHLD is ignored, as some parents leave it. Children inherit the default.
pub(super) fn await_children() {
    // SAFETY: an all-zero sigaction is valid: the default action, without flags.
    let default: libc::sigaction = unsafe { std::mem::zeroed() };
    let mut action = default;
    // SAFETY: both structures are initialised and writable; the signal exists.
    unsafe {
        libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut action);
        if action.sa_sigaction == libc::SIG_IGN {
            libc::sigaction(libc::SIGCHLD, &default, std::ptr::null_mut());
        }
    }
}

/// Raises the limit of open descriptors as far as this user may: each rank has a connection here. Gives the limits as they
/// were, for the ranks, if they were changed.
pub(super) fn raise_descriptors() -> Option<libc::rlimit> {
    let mut before = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is writable.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut before) } != 0 {
        return None;
    }
    let raised = libc::rlimit {
        rlim_cur: before.rlim_max,
        ..before
    };
    // SAFETY: the structure is initialised.
    (unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0).then_some(before)
}

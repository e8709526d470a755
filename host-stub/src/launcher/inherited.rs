//! What this process inherited and a launcher cannot work with.

use std::io;

/// Has the system tell how children end where SIGCHLD is ignored, as some parents leave it. Children inherit the default.
pub(super) fn await_children() -> io::Result<()> {
    // SAFETY: an all-zero sigaction is valid: the default action, without flags.
    let (default, mut action): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: both structures are initialised and writable.
    let changed = unsafe {
        libc::sigaction(libc::SIGCHLD, std::ptr::null(), &mut action) == 0
            && (action.sa_sigaction != libc::SIG_IGN
                || libc::sigaction(libc::SIGCHLD, &default, std::ptr::null_mut()) == 0)
    };
    if changed {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

//! System calls that a signal may interrupt.

use std::io;

/// Makes a call again as long as a signal interrupts it (EINTR): on tmpfs, fallocate ends so whenever a signal is
/// pending. A negative result is an error.
pub(crate) fn uninterrupted(mut call: impl FnMut() -> libc::c_int) -> io::Result<()> {
    while call() < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(errno: libc::c_int) -> libc::c_int {
        // SAFETY: the location of this thread's errno is always valid.
        unsafe { *libc::__errno_location() = errno };
        -1
    }

    #[test]
    fn interruptions_are_no_errors() {
        let mut left = 3;
        let done = uninterrupted(|| {
            left -= 1;
            if left > 0 { fail(libc::EINTR) } else { 0 }
        });
        assert!(done.is_ok() && left == 0);
        let failed = uninterrupted(|| fail(libc::ENOSPC)).unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(libc::ENOSPC));
    }
}

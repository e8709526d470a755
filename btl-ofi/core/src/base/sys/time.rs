//! Calls about clocks and the calling thread, for waits and helper threads.

use std::mem::MaybeUninit;
use std::ptr;

use crate::base::error::CallError;

/// `CLOCK_MONOTONIC`, in nanoseconds.
#[inline]
pub(crate) fn monotonic() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a local that the call may write. The call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Blocks every signal in this thread. So no handler runs here, and a write beyond RLIMIT_FSIZE fails with EFBIG
/// instead of ending the process.
pub(crate) fn block_signals() -> Result<(), CallError> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset writes the whole set before it is read; the previous set is not requested.
    let rc = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut())
    };
    // The call returns its error instead of setting `errno`.
    match rc {
        0 => Ok(()),
        code => Err(CallError {
            call: "pthread_sigmask",
            code,
        }),
    }
}

/// Runs `spawn` while the signals for the host's threads are blocked, so that a thread that `spawn` starts begins with
/// these signals blocked. Signals for faults of the thread itself stay unblocked.
pub(crate) fn with_signals_blocked<R>(spawn: impl FnOnce() -> R) -> R {
    let (mut all, mut before) = (
        MaybeUninit::<libc::sigset_t>::uninit(),
        MaybeUninit::<libc::sigset_t>::uninit(),
    );
    // SAFETY: sigfillset writes the whole set before it is changed and read; the call writes the previous mask if it
    // succeeds.
    let blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for fault in FAULTS {
            libc::sigdelset(all.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let result = spawn();
    if blocked {
        // SAFETY: `before` was written by the call above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    }
    result
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The signals that the calling thread blocks; the lowest bit is signal 1.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        u64::from_str_radix(mask.unwrap().trim(), 16).unwrap()
    }

    #[test]
    fn a_helper_thread_takes_no_signal_of_the_host() {
        let before = blocked();
        let thread = with_signals_blocked(|| std::thread::spawn(blocked));
        let theirs = thread.join().unwrap();
        let has = |signal: libc::c_int| theirs & 1 << (signal - 1) != 0;
        for signal in [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGUSR1,
            libc::SIGALRM,
            libc::SIGCHLD,
        ] {
            assert!(has(signal), "{signal} is not blocked");
        }
        for signal in FAULTS {
            assert!(!has(signal), "{signal} is blocked");
        }
        assert_eq!(blocked(), before);
    }
}

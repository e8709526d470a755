//! Calls about clocks and the calling thread, for traces.

use std::cell::Cell;
use std::ptr;

use crate::base::error::CallError;

/// `CLOCK_MONOTONIC`, in nanoseconds.
#[inline]
pub(crate) fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME`, in nanoseconds.
pub(crate) fn realtime() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

#[inline]
fn clock(id: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a local that the call may write. It cannot fail for these clocks.
    unsafe { libc::clock_gettime(id, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The kernel's number of this thread.
pub(crate) fn thread() -> u32 {
    // SAFETY: gettid takes no argument and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// The kernel's number of this thread, for a caller that knows the id of this process: kept from the first call on. A fork
/// copies what is kept to the child, whose thread has another number.
pub(crate) fn thread_of(process: u32) -> u32 {
    thread_local! {
        static OWN: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    }
    match OWN.get() {
        (of, own) if of == process => own,
        _ => {
            let own = thread();
            OWN.set((process, own));
            own
        }
    }
}

/// Blocks every signal in this thread: none is handled here, and a write beyond RLIMIT_FSIZE fails with EFBIG in place
/// of ending the process.
pub(crate) fn block_signals() -> Result<(), CallError> {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset writes the whole set, which is then read; the former set is not asked for.
    let rc = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut())
    };
    // It returns its error.
    match rc {
        0 => Ok(()),
        code => Err(CallError {
            call: "pthread_sigmask",
            code,
        }),
    }
}

//! The primitives under conditions and the hand-over of progress. The model checker's tests build
//! the same files with loom's versions of these primitives.

pub(super) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence,
};
pub(super) use std::sync::{Mutex, MutexGuard, PoisonError};
pub(super) use std::thread::yield_now;

use std::time::Duration;

/// Sleeps while `word` holds `value`, at most for `limit`. The call may return early.
pub(super) fn futex_wait(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref::<libc::timespec>);
    // SAFETY: the word is live and aligned, and the time is NULL or a valid relative time; the call
    // writes nothing. The result (woken, changed, interrupted, timed out) does not matter, because
    // the caller reads the word again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            limit,
        );
    }
}

/// Wakes the thread that sleeps on the word at an address. The call does not read the word, so the
/// word need not exist any longer.
pub(super) fn futex_wake(word: *const u32) {
    // SAFETY: the kernel uses the address only as a name. The call fails for an unmapped address,
    // on which no thread sleeps.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        );
    }
}

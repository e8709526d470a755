//! Synchronisation calls of windows with assertions, of groups, and of completion here.

use std::ffi::c_int;

use host::win::{Assertion, LockKind};

use crate::base::codes::{rank, ranks};
use crate::base::error::{Error, Result};
use crate::base::handles::place;
use crate::win::handler::guarded_on;
use crate::win::sync::{HOST_LOCK_EXCLUSIVE, HOST_LOCK_SHARED};
use crate::win::window::{host_win_t, window};

/// No conflicting lock is held, or the matching post or start is known to have been called.
pub const HOST_MODE_NOCHECK: u32 = 1;
/// The window's memory was not stored to here since the last synchronisation.
pub const HOST_MODE_NOSTORE: u32 = 2;
/// The window's memory here is not updated by others until the next synchronisation.
pub const HOST_MODE_NOPUT: u32 = 4;
/// This fence ends no communication; on every rank alike.
pub const HOST_MODE_NOPRECEDE: u32 = 8;
/// This fence begins no communication; on every rank alike.
pub const HOST_MODE_NOSUCCEED: u32 = 16;

const _: () = assert!(
    HOST_MODE_NOCHECK == Assertion::NOCHECK.bits()
        && HOST_MODE_NOSTORE == Assertion::NOSTORE.bits()
        && HOST_MODE_NOPUT == Assertion::NOPUT.bits()
        && HOST_MODE_NOPRECEDE == Assertion::NOPRECEDE.bits()
        && HOST_MODE_NOSUCCEED == Assertion::NOSUCCEED.bits()
);

fn assertion(call: &str, bits: u32) -> Result<Assertion> {
    Assertion::from_bits(bits)
        .ok_or_else(|| Error::argument(call, &format!("no assertion has the bits {bits:#x}")))
}

/// As host_win_fence, with HOST_MODE_*.
///
/// # Safety
/// No other thread frees the window meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_fence_with(assertion: u32, win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        let call = "host_win_fence_with";
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        let assertion = self::assertion(call, assertion)?;
        Ok(win.fence(assertion)?)
    })
}

/// As host_win_lock, with 0 or HOST_MODE_NOCHECK.
///
/// # Safety
/// No other thread frees the window meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_lock_with(
    kind: c_int,
    target: c_int,
    assertion: u32,
    win: *mut host_win_t,
) -> c_int {
    guarded_on(win, || {
        let call = "host_win_lock_with";
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        let assertion = self::assertion(call, assertion)?;
        let kind = match kind {
            HOST_LOCK_SHARED => LockKind::Shared,
            HOST_LOCK_EXCLUSIVE => LockKind::Exclusive,
            other => return Err(Error::argument(call, &format!("no kind of lock {other}"))),
        };
        Ok(win.lock(kind, rank(call, target)?, assertion)?)
    })
}

/// As host_win_lock_all, with 0 or HOST_MODE_NOCHECK.
///
/// # Safety
/// No other thread frees the window meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_lock_all_with(assertion: u32, win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        let call = "host_win_lock_all_with";
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        let assertion = self::assertion(call, assertion)?;
        Ok(win.lock_all(assertion)?)
    })
}

/// Completes this rank's operations to a rank here: their buffers may be used again.
///
/// # Safety
/// No other thread frees the window meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_flush_local(target: c_int, win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        let call = "host_win_flush_local";
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        Ok(win.flush_local(rank(call, target)?)?)
    })
}

/// Completes this rank's operations to all ranks here.
///
/// # Safety
/// No other thread frees the window meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_flush_local_all(win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        let call = "host_win_flush_local_all";
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        Ok(win.flush_local_all()?)
    })
}

/// Opens an access epoch to a group of ranks of the window; with 0 or HOST_MODE_NOCHECK.
///
/// # Safety
/// No other thread frees the window meanwhile.
/// `group` is NULL or `count` ranks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_start(
    group: *const c_int,
    count: usize,
    assertion: u32,
    win: *mut host_win_t,
) -> c_int {
    guarded_on(win, || {
        let call = "host_win_start";
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        let assertion = self::assertion(call, assertion)?;
        // SAFETY: the caller guarantees the ranks.
        let group = unsafe { ranks(call, group, count) }?;
        Ok(win.start(&group, assertion)?)
    })
}

/// Completes operations to the group of host_win_start, tells it so, and closes the epoch.
///
/// # Safety
/// No other thread frees the window meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_complete(win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        let call = "host_win_complete";
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        Ok(win.complete()?)
    })
}

/// Opens this rank's memory to a group of ranks; with 0, HOST_MODE_NOCHECK, NOSTORE or NOPUT. Opens nothing where it fails.
///
/// # Safety
/// No other thread frees the window meanwhile.
/// `group` is NULL or `count` ranks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_post(
    group: *const c_int,
    count: usize,
    assertion: u32,
    win: *mut host_win_t,
) -> c_int {
    guarded_on(win, || {
        let call = "host_win_post";
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        let assertion = self::assertion(call, assertion)?;
        // SAFETY: the caller guarantees the ranks.
        let group = unsafe { ranks(call, group, count) }?;
        Ok(win.post(&group, assertion)?)
    })
}

/// Waits until the group of host_win_post has completed, and closes the exposure, also where the wait fails.
///
/// # Safety
/// No other thread frees the window meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_wait(win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        let call = "host_win_wait";
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        Ok(win.wait()?)
    })
}

/// Sets `done` to whether the group of host_win_post has completed; if so, or if that fails, closes the exposure.
///
/// # Safety
/// No other thread frees the window meanwhile.
/// `done` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_test(done: *mut c_int, win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        let call = "host_win_test";
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        // SAFETY: passed on.
        let done = unsafe { place(call, done) }?;
        *done = c_int::from(win.test()?);
        Ok(())
    })
}

//! Synchronisation calls of windows, by the number of the call and its arguments. `host_calls.h` has a
//! function for each.

use std::ffi::c_int;

use host::win::{Assertion, LockKind};

use crate::base::codes::{rank, ranks};
use crate::base::error::{Error, Result, guarded};
use crate::base::handles::place;
use crate::win::table::{
    HOST_RMA_COMPLETE, HOST_RMA_FENCE, HOST_RMA_FLUSH, HOST_RMA_FLUSH_ALL, HOST_RMA_FLUSH_LOCAL,
    HOST_RMA_FLUSH_LOCAL_ALL, HOST_RMA_LOCK, HOST_RMA_LOCK_ALL, HOST_RMA_SYNC, HOST_RMA_UNLOCK,
    HOST_RMA_UNLOCK_ALL, HOST_RMA_WAIT,
};
use crate::win::window::{host_win_t, window};

/// A lock that several ranks hold at once.
pub const HOST_LOCK_SHARED: c_int = 0;
/// A lock that one rank holds alone.
pub const HOST_LOCK_EXCLUSIVE: c_int = 1;

/// No rank holds a conflicting lock, or the matching post or start was called before.
pub const HOST_MODE_NOCHECK: u32 = 1;
/// This process has not stored to the window's memory since the last synchronisation.
pub const HOST_MODE_NOSTORE: u32 = 2;
/// Other processes do not update this process's memory until the next synchronisation.
pub const HOST_MODE_NOPUT: u32 = 4;
/// This fence ends no communication; the same on every rank.
pub const HOST_MODE_NOPRECEDE: u32 = 8;
/// This fence begins no communication; the same on every rank.
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

/// The name of the call in errors: the function of host_calls.h.
fn name(entry: usize) -> Option<&'static str> {
    Some(match entry {
        HOST_RMA_FENCE => "host_win_fence",
        HOST_RMA_LOCK => "host_win_lock",
        HOST_RMA_UNLOCK => "host_win_unlock",
        HOST_RMA_LOCK_ALL => "host_win_lock_all",
        HOST_RMA_UNLOCK_ALL => "host_win_unlock_all",
        HOST_RMA_FLUSH => "host_win_flush",
        HOST_RMA_FLUSH_ALL => "host_win_flush_all",
        HOST_RMA_FLUSH_LOCAL => "host_win_flush_local",
        HOST_RMA_FLUSH_LOCAL_ALL => "host_win_flush_local_all",
        HOST_RMA_COMPLETE => "host_win_complete",
        HOST_RMA_WAIT => "host_win_wait",
        HOST_RMA_SYNC => "host_win_sync",
        _ => return None,
    })
}

/// Synchronises a window: HOST_RMA_FENCE to HOST_RMA_FLUSH_LOCAL_ALL, HOST_RMA_COMPLETE, HOST_RMA_WAIT or HOST_RMA_SYNC.
/// host_calls.h has a documented function for each. A lock uses `lock` (HOST_LOCK_*); lock, unlock and flush of one rank use
/// `target`; fence, lock and lock_all use `assertion`. Other arguments are ignored.
///
/// # Safety
/// No other thread frees the window meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_synchronize(
    entry: usize,
    lock: c_int,
    target: c_int,
    assertion: u32,
    win: *mut host_win_t,
) -> c_int {
    guarded(|| {
        let call = name(entry).ok_or_else(|| {
            Error::argument(
                "host_win_synchronize",
                &format!("no synchronisation {entry}"),
            )
        })?;
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        let target = || rank(call, target);
        let assertion = || self::assertion(call, assertion);
        match entry {
            HOST_RMA_FENCE => win.fence(assertion()?),
            HOST_RMA_LOCK => win.lock(kind(call, lock)?, target()?, assertion()?),
            HOST_RMA_UNLOCK => win.unlock(target()?),
            HOST_RMA_LOCK_ALL => win.lock_all(assertion()?),
            HOST_RMA_UNLOCK_ALL => win.unlock_all(),
            HOST_RMA_FLUSH => win.flush(target()?),
            HOST_RMA_FLUSH_ALL => win.flush_all(),
            HOST_RMA_FLUSH_LOCAL => win.flush_local(target()?),
            HOST_RMA_FLUSH_LOCAL_ALL => win.flush_local_all(),
            HOST_RMA_COMPLETE => win.complete(),
            HOST_RMA_WAIT => win.wait(),
            _ => win.sync(),
        }?;
        Ok(())
    })
}

fn kind(call: &str, lock: c_int) -> Result<LockKind> {
    match lock {
        HOST_LOCK_SHARED => Ok(LockKind::Shared),
        HOST_LOCK_EXCLUSIVE => Ok(LockKind::Exclusive),
        other => Err(Error::argument(call, &format!("no kind of lock {other}"))),
    }
}

/// Opens an access epoch to a group of ranks of the window. The assertion is 0 or
/// HOST_MODE_NOCHECK.
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
    guarded(|| {
        let call = "host_win_start";
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        let assertion = self::assertion(call, assertion)?;
        // SAFETY: the caller guarantees the ranks.
        let group = unsafe { ranks(call, group, count) }?;
        Ok(win.start(&group, assertion)?)
    })
}

/// Opens this rank's memory to a group of ranks. The assertion is 0, HOST_MODE_NOCHECK, NOSTORE or NOPUT. If the call
/// fails, nothing is opened.
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
    guarded(|| {
        let call = "host_win_post";
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        let assertion = self::assertion(call, assertion)?;
        // SAFETY: the caller guarantees the ranks.
        let group = unsafe { ranks(call, group, count) }?;
        Ok(win.post(&group, assertion)?)
    })
}

/// Sets `done` to whether the group of host_win_post has completed. If the group has completed, or if the call
/// fails, closes the exposure.
///
/// # Safety
/// No other thread frees the window meanwhile.
/// `done` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_test(done: *mut c_int, win: *mut host_win_t) -> c_int {
    guarded(|| {
        let call = "host_win_test";
        // SAFETY: passed on.
        let win = &unsafe { window(call, win) }?.window;
        // SAFETY: passed on.
        let done = unsafe { place(call, done) }?;
        *done = c_int::from(win.test()?);
        Ok(())
    })
}

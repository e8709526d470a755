//! Synchronisation calls of windows.

use std::ffi::c_int;

use host::win::{Assertion, LockKind};

use crate::base::codes::rank;
use crate::base::error::Error;
use crate::win::handler::guarded_on;
use crate::win::window::{host_win_t, window};

/// A lock that several ranks hold at once.
pub const HOST_LOCK_SHARED: c_int = 0;
/// A lock that one rank holds alone.
pub const HOST_LOCK_EXCLUSIVE: c_int = 1;

/// Ends the open fence epoch and begins the next; collective.
///
/// # Safety
/// `win` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_fence(win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        // SAFETY: the caller guarantees the window.
        let win = unsafe { window("host_win_fence", win) }?;
        Ok(win.window.fence(Assertion::empty())?)
    })
}

/// Ends the open fence epoch, with none after it; collective.
///
/// # Safety
/// `win` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_fence_end(win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        // SAFETY: the caller guarantees the window.
        let win = unsafe { window("host_win_fence_end", win) }?;
        Ok(win.window.fence(Assertion::NOSUCCEED)?)
    })
}

/// Opens an access epoch to one rank: HOST_LOCK_SHARED or HOST_LOCK_EXCLUSIVE.
///
/// # Safety
/// `win` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_lock(kind: c_int, target: c_int, win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        let call = "host_win_lock";
        // SAFETY: the caller guarantees the window.
        let win = unsafe { window(call, win) }?;
        let kind = match kind {
            HOST_LOCK_SHARED => LockKind::Shared,
            HOST_LOCK_EXCLUSIVE => LockKind::Exclusive,
            other => return Err(Error::argument(call, &format!("no kind of lock {other}"))),
        };
        Ok(win
            .window
            .lock(kind, rank(call, target)?, Assertion::empty())?)
    })
}

/// Completes operations to a rank, and closes the epoch of host_win_lock.
///
/// # Safety
/// `win` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_unlock(target: c_int, win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        let call = "host_win_unlock";
        // SAFETY: the caller guarantees the window.
        let win = unsafe { window(call, win) }?;
        Ok(win.window.unlock(rank(call, target)?)?)
    })
}

/// Opens an access epoch to every rank.
///
/// # Safety
/// `win` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_lock_all(win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        // SAFETY: the caller guarantees the window.
        let win = unsafe { window("host_win_lock_all", win) }?;
        Ok(win.window.lock_all(Assertion::empty())?)
    })
}

/// Completes all operations, and closes the epoch of host_win_lock_all.
///
/// # Safety
/// `win` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_unlock_all(win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        // SAFETY: the caller guarantees the window.
        let win = unsafe { window("host_win_unlock_all", win) }?;
        Ok(win.window.unlock_all()?)
    })
}

/// Completes this rank's operations to a rank, there and here. In lock and lock_all epochs.
///
/// # Safety
/// `win` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_flush(target: c_int, win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        let call = "host_win_flush";
        // SAFETY: the caller guarantees the window.
        let win = unsafe { window(call, win) }?;
        Ok(win.window.flush(rank(call, target)?)?)
    })
}

/// Completes this rank's operations to all ranks, there and here. In lock and lock_all epochs.
///
/// # Safety
/// `win` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_flush_all(win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        // SAFETY: the caller guarantees the window.
        let win = unsafe { window("host_win_flush_all", win) }?;
        Ok(win.window.flush_all()?)
    })
}

/// Orders this rank's local accesses of its memory with those of others, and makes progress.
///
/// # Safety
/// `win` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_sync(win: *mut host_win_t) -> c_int {
    guarded_on(win, || {
        // SAFETY: the caller guarantees the window.
        Ok(unsafe { window("host_win_sync", win) }?.window.sync()?)
    })
}

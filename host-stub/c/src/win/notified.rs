//! Counters of puts with notification.

use std::ffi::c_int;

use crate::base::error::{Error, Result, guarded};
use crate::win::window::{host_win_t, window};

/// Counters that each process of a window has for puts with notification.
pub const HOST_WIN_COUNTERS: c_int = 8;

const _: () = assert!(HOST_WIN_COUNTERS as usize == host::win::COUNTERS);

/// The counter of a number from C.
pub(crate) fn number(call: &str, counter: c_int) -> Result<usize> {
    usize::try_from(counter).map_err(|_| Error::argument(call, &format!("no counter {counter}")))
}

/// Returns the number of puts with notification that have arrived at a counter of this process. The
/// program may read the bytes of these puts.
///
/// # Safety
/// `win` is live. `arrived` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_notifications(
    counter: c_int,
    arrived: *mut u64,
    win: *mut host_win_t,
) -> c_int {
    let name = "host_win_notifications";
    guarded(|| {
        // SAFETY: the caller guarantees both pointers.
        let (win, arrived) = unsafe { (window(name, win)?, arrived.as_mut()) };
        let arrived = arrived.ok_or_else(|| Error::argument(name, "the place is NULL"))?;
        *arrived = win.window.notifications(number(name, counter)?)?;
        Ok(())
    })
}

/// Waits until at least `at_least` puts with notification in total have arrived at a counter of this process. An error if a
/// process of the window is lost during the wait.
///
/// # Safety
/// `win` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_wait_notified(
    counter: c_int,
    at_least: u64,
    win: *mut host_win_t,
) -> c_int {
    let name = "host_win_wait_notified";
    guarded(|| {
        // SAFETY: the caller guarantees the window.
        let win = unsafe { window(name, win) }?;
        win.window.wait_notified(number(name, counter)?, at_least)?;
        Ok(())
    })
}

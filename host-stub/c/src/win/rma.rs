//! Communication calls. Transfers are of bytes that lie together.

use std::ffi::{c_int, c_void};

use host::win::{Datatype, Layout, Request, Target, WinResult, Window};

use crate::base::codes::{HOST_PROC_NULL, rank};
use crate::base::error::{Error, Result};
use crate::win::handler::guarded_on;
use crate::win::request::{give, give_complete, host_request_t};
use crate::win::window::{host_win_t, window};

/// Counters that each process of a window has for puts with notification.
pub const HOST_WIN_COUNTERS: c_int = 8;

const _: () = assert!(HOST_WIN_COUNTERS as usize == host::win::COUNTERS);

fn number(call: &str, counter: c_int) -> Result<usize> {
    usize::try_from(counter).map_err(|_| Error::argument(call, &format!("no counter {counter}")))
}

fn buffer(call: &str, buffer: *const c_void, bytes: usize) -> Result {
    if buffer.is_null() && bytes > 0 {
        return Err(Error::argument(call, "the buffer is NULL"));
    }
    Ok(())
}

/// One transfer's arguments.
struct Call {
    name: &'static str,
    origin: *mut u8,
    bytes: usize,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
}

impl Call {
    /// None for the target HOST_PROC_NULL: the call has nothing to do.
    ///
    /// # Safety
    /// The window is NULL or live.
    unsafe fn run<T>(
        &self,
        transfer: impl FnOnce(&'static Window, *mut u8, &Layout, Target<'_>) -> WinResult<T>,
    ) -> Result<Option<(T, &'static host_win_t)>> {
        // SAFETY: the caller guarantees it.
        let win = unsafe { window(self.name, self.win) }?;
        if self.target == HOST_PROC_NULL {
            return Ok(None);
        }
        buffer(self.name, self.origin.cast(), self.bytes)?;
        let layout = Layout::contiguous(Datatype::Uint8, self.bytes);
        let target = Target {
            rank: rank(self.name, self.target)?,
            displacement: self.displacement,
            layout: &layout,
        };
        let done = transfer(&win.window, self.origin, &layout, target)?;
        Ok(Some((done, win)))
    }

    /// # Safety
    /// As for [`run`](Self::run); `request` is NULL or writable.
    unsafe fn request(
        &self,
        request: *mut *mut host_request_t,
        transfer: impl FnOnce(
            &'static Window,
            *mut u8,
            &Layout,
            Target<'_>,
        ) -> WinResult<Request<'static>>,
    ) -> Result {
        if request.is_null() {
            return Err(Error::argument(
                self.name,
                "the place for the request is NULL",
            ));
        }
        // SAFETY: passed on to the caller.
        unsafe {
            match self.run(transfer)? {
                Some((made, win)) => give(request, made, win),
                None => give_complete(self.name, request, self.win)?,
            }
        }
        Ok(())
    }
}

/// Writes `bytes` bytes to a target's window, at a displacement in its units.
///
/// # Safety
/// `win` is live. `origin` is unchanged until the operation is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_put(
    origin: *const c_void,
    bytes: usize,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
) -> c_int {
    let call = Call {
        name: "host_put",
        origin: origin.cast_mut().cast(),
        bytes,
        target,
        displacement,
        win,
    };
    guarded_on(win, || {
        // SAFETY: the caller guarantees window and buffer.
        unsafe { call.run(|win, origin, row, to| win.put(origin, row, to)) }.map(drop)
    })
}

/// As host_put, and adds one to a counter of the target, 0 to HOST_WIN_COUNTERS - 1, once the bytes are visible there. The
/// counter says how many puts have arrived whole, and tells nothing of their order.
///
/// # Safety
/// As for host_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_put_notify(
    origin: *const c_void,
    bytes: usize,
    target: c_int,
    displacement: u64,
    counter: c_int,
    win: *mut host_win_t,
) -> c_int {
    let name = "host_put_notify";
    let call = Call {
        name,
        origin: origin.cast_mut().cast(),
        bytes,
        target,
        displacement,
        win,
    };
    guarded_on(win, || {
        let counter = number(name, counter)?;
        // SAFETY: the caller guarantees window and buffer.
        unsafe { call.run(|win, origin, row, to| win.put_notify(origin, row, to, counter)) }
            .map(drop)
    })
}

/// How many puts with notification have arrived at a counter of this process. Their bytes may be read.
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
    guarded_on(win, || {
        // SAFETY: the caller guarantees both pointers.
        let (win, arrived) = unsafe { (window(name, win)?, arrived.as_mut()) };
        let arrived = arrived.ok_or_else(|| Error::argument(name, "the place is NULL"))?;
        *arrived = win.window.notifications(number(name, counter)?)?;
        Ok(())
    })
}

/// Waits until so many puts with notification have arrived at a counter of this process, all told. An error when a process of
/// the window is lost meanwhile.
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
    guarded_on(win, || {
        // SAFETY: the caller guarantees the window.
        let win = unsafe { window(name, win) }?;
        win.window.wait_notified(number(name, counter)?, at_least)?;
        Ok(())
    })
}

/// Reads `bytes` bytes of a target's window, at a displacement in its units.
///
/// # Safety
/// `win` is live. Nothing else uses `origin` until the operation is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_get(
    origin: *mut c_void,
    bytes: usize,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
) -> c_int {
    let call = Call {
        name: "host_get",
        origin: origin.cast(),
        bytes,
        target,
        displacement,
        win,
    };
    guarded_on(win, || {
        // SAFETY: the caller guarantees window and buffer.
        unsafe { call.run(|win, origin, row, to| win.get(origin, row, to)) }.map(drop)
    })
}

/// As host_put, with a request. In lock and lock_all epochs only.
///
/// # Safety
/// As for host_put; `request` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_rput(
    origin: *const c_void,
    bytes: usize,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
    request: *mut *mut host_request_t,
) -> c_int {
    let call = Call {
        name: "host_rput",
        origin: origin.cast_mut().cast(),
        bytes,
        target,
        displacement,
        win,
    };
    // SAFETY: the caller guarantees window, buffer and place.
    guarded_on(win, || unsafe {
        call.request(request, |win, origin, row, to| win.rput(origin, row, to))
    })
}

/// As host_get, with a request. In lock and lock_all epochs only.
///
/// # Safety
/// As for host_get; `request` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_rget(
    origin: *mut c_void,
    bytes: usize,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
    request: *mut *mut host_request_t,
) -> c_int {
    let call = Call {
        name: "host_rget",
        origin: origin.cast(),
        bytes,
        target,
        displacement,
        win,
    };
    // SAFETY: the caller guarantees window, buffer and place.
    guarded_on(win, || unsafe {
        call.request(request, |win, origin, row, to| win.rget(origin, row, to))
    })
}

//! Communication calls. Transfers are of bytes that lie together.

use std::ffi::{c_int, c_void};

use host::win::{Datatype, Layout, Request, Target, WinResult, Window};

use crate::error::{Error, Result, guarded};
use crate::request::{give, host_request_t};
use crate::win::{host_win_t, window};

fn rank(call: &str, target: c_int) -> Result<usize> {
    usize::try_from(target).map_err(|_| Error::argument(call, &format!("no rank {target}")))
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
    /// # Safety
    /// The window is NULL or live.
    unsafe fn run<T>(
        &self,
        transfer: impl FnOnce(&'static Window, *mut u8, &Layout, Target<'_>) -> WinResult<T>,
    ) -> Result<(T, &'static host_win_t)> {
        // SAFETY: the caller vouches for it.
        let win = unsafe { window(self.name, self.win) }?;
        buffer(self.name, self.origin.cast(), self.bytes)?;
        let layout = Layout::contiguous(Datatype::Uint8, self.bytes);
        let target = Target {
            rank: rank(self.name, self.target)?,
            displacement: self.displacement,
            layout: &layout,
        };
        Ok((transfer(&win.window, self.origin, &layout, target)?, win))
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
        let (made, win) = unsafe { self.run(transfer) }?;
        give(request, made, win);
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
    // SAFETY: the caller vouches for window and buffer.
    guarded(|| unsafe { call.run(|win, origin, row, to| win.put(origin, row, to)) }.map(drop))
}

/// Reads `bytes` bytes of a target's window, at a displacement in its units.
///
/// # Safety
/// `win` is live. `origin` is touched by nobody until the operation is complete.
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
    // SAFETY: the caller vouches for window and buffer.
    guarded(|| unsafe { call.run(|win, origin, row, to| win.get(origin, row, to)) }.map(drop))
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
    // SAFETY: the caller vouches for window, buffer and place.
    guarded(|| unsafe { call.request(request, |win, origin, row, to| win.rput(origin, row, to)) })
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
    // SAFETY: the caller vouches for window, buffer and place.
    guarded(|| unsafe { call.request(request, |win, origin, row, to| win.rget(origin, row, to)) })
}

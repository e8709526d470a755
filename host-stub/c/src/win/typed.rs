//! Puts and gets of `count` elements of a type that lie together. The type may say that the buffer is on a device.

use std::ffi::{c_int, c_void};

use host::win::{Layout, Request, Target, WinResult, Window};

use crate::base::codes::HOST_REPLACE;
use crate::base::error::Result;
use crate::base::handles::place;
use crate::win::elements::Given;
use crate::win::handler::guarded_on;
use crate::win::request::{give, give_complete, host_request_t};
use crate::win::window::host_win_t;

/// A transfer's arguments.
struct Typed {
    name: &'static str,
    origin: *const c_void,
    count: usize,
    datatype: c_int,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
}

impl Typed {
    /// None for the target HOST_PROC_NULL.
    ///
    /// # Safety
    /// The window is NULL or live.
    unsafe fn run<T>(
        &self,
        transfer: impl FnOnce(&'static Window, &Layout, Target<'_>) -> WinResult<T>,
    ) -> Result<Option<(T, &'static host_win_t)>> {
        let given = Given {
            call: self.name,
            buffers: &[(self.origin, false)],
            count: self.count,
            datatype: self.datatype,
            op: HOST_REPLACE,
            target: self.target,
            displacement: self.displacement,
            win: self.win,
        };
        // SAFETY: the caller guarantees the window.
        let Some(elements) = unsafe { given.check() }? else {
            return Ok(None);
        };
        let win = elements.win;
        let done = transfer(&win.window, &elements.layout, elements.target())?;
        Ok(Some((done, win)))
    }

    /// # Safety
    /// As for [`run`](Self::run); `request` is NULL or writable.
    unsafe fn request(
        &self,
        request: *mut *mut host_request_t,
        transfer: impl FnOnce(&'static Window, &Layout, Target<'_>) -> WinResult<Request<'static>>,
    ) -> Result {
        // SAFETY: the caller guarantees the place and the window.
        unsafe {
            let request = place(self.name, request)?;
            match self.run(transfer)? {
                Some((made, win)) => give(request, made, win),
                None => give_complete(self.name, request, self.win)?,
            }
        }
        Ok(())
    }
}

/// As host_put, of `count` elements of a type. With HOST_ON_DEVICE added to the type, host memory is refused.
///
/// # Safety
/// `win` is live. `origin` is unchanged until the operation is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_put_typed(
    origin: *const c_void,
    count: usize,
    datatype: c_int,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
) -> c_int {
    let name = "host_put_typed";
    let call = Typed {
        name,
        origin,
        count,
        datatype,
        target,
        displacement,
        win,
    };
    guarded_on(win, || {
        // SAFETY: the caller guarantees window and buffer.
        unsafe { call.run(|win, row, to| win.put(origin.cast(), row, to)) }.map(drop)
    })
}

/// As host_get, of `count` elements of a type. With HOST_ON_DEVICE added to the type, host memory is refused.
///
/// # Safety
/// `win` is live. Nothing else uses `origin` until the operation is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_get_typed(
    origin: *mut c_void,
    count: usize,
    datatype: c_int,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
) -> c_int {
    let name = "host_get_typed";
    let call = Typed {
        name,
        origin,
        count,
        datatype,
        target,
        displacement,
        win,
    };
    guarded_on(win, || {
        // SAFETY: the caller guarantees window and buffer.
        unsafe { call.run(|win, row, to| win.get(origin.cast(), row, to)) }.map(drop)
    })
}

/// As host_put_typed, with a request. In lock and lock_all epochs only.
///
/// # Safety
/// As for host_put_typed; `request` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_rput_typed(
    origin: *const c_void,
    count: usize,
    datatype: c_int,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
    request: *mut *mut host_request_t,
) -> c_int {
    let name = "host_rput_typed";
    let call = Typed {
        name,
        origin,
        count,
        datatype,
        target,
        displacement,
        win,
    };
    guarded_on(win, || {
        // SAFETY: the caller guarantees window, buffer and place.
        unsafe { call.request(request, |win, row, to| win.rput(origin.cast(), row, to)) }
    })
}

/// As host_get_typed, with a request. In lock and lock_all epochs only.
///
/// # Safety
/// As for host_get_typed; `request` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_rget_typed(
    origin: *mut c_void,
    count: usize,
    datatype: c_int,
    target: c_int,
    displacement: u64,
    win: *mut host_win_t,
    request: *mut *mut host_request_t,
) -> c_int {
    let name = "host_rget_typed";
    let call = Typed {
        name,
        origin,
        count,
        datatype,
        target,
        displacement,
        win,
    };
    guarded_on(win, || {
        // SAFETY: the caller guarantees window, buffer and place.
        unsafe { call.request(request, |win, row, to| win.rget(origin.cast(), row, to)) }
    })
}

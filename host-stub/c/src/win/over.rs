//! Creation of windows, and memory that is attached later.

use std::ffi::{c_int, c_void};

use host::win::{Members, Window};

use crate::base::error::{Error, guarded};
use crate::base::handles::place;
use crate::comm::communicator::{comm, host_comm_t};
use crate::job::job;
use crate::win::info::{given, host_info_t};
use crate::win::query::{
    HOST_WIN_ALLOCATE, HOST_WIN_ALLOCATE_SHARED, HOST_WIN_CREATE, HOST_WIN_DYNAMIC,
};
use crate::win::window::{give, host_win_t, window};

/// Makes a window of a kind, HOST_WIN_CREATE and so on, over a communicator or, if that is NULL, over all ranks of the job;
/// with hints or NULL. Collective. host_calls.h has a function for each kind. Only HOST_WIN_CREATE uses `base`, and all
/// kinds except HOST_WIN_DYNAMIC use `size` and `unit`.
///
/// # Safety
/// `win` is NULL or writable. Memory at `base` stays valid until the window is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_make(
    kind: c_int,
    over: *mut host_comm_t,
    base: *mut c_void,
    size: usize,
    unit: u32,
    info: *mut host_info_t,
    win: *mut *mut host_win_t,
) -> c_int {
    guarded(|| {
        // The name of the call in errors: the function of host_calls.h.
        let call = match kind {
            HOST_WIN_CREATE => "host_win_create",
            HOST_WIN_ALLOCATE => "host_win_allocate",
            HOST_WIN_ALLOCATE_SHARED => "host_win_allocate_shared",
            HOST_WIN_DYNAMIC => "host_win_create_dynamic",
            other => {
                let text = format!("no kind of window {other}");
                return Err(Error::argument("host_win_make", &text));
            }
        };
        // SAFETY: passed on.
        *unsafe { place(call, win) }? = std::ptr::null_mut();
        let over: Members = match over.is_null() {
            true => (&job(call)?).into(),
            false => (&comm(call, over)?).into(),
        };
        let info = given(call, info)?;
        let made = match kind {
            // SAFETY: the caller guarantees the memory.
            HOST_WIN_CREATE => unsafe { Window::create_with(over, base.cast(), size, unit, &info) },
            HOST_WIN_ALLOCATE => Window::allocate_with(over, size, unit, &info),
            HOST_WIN_ALLOCATE_SHARED => Window::allocate_shared(over, size, unit, &info),
            _ => Window::dynamic_with(over, &info),
        }?;
        give(win, made);
        Ok(())
    })
}

/// Attaches this rank's memory to a dynamic window; local.
///
/// # Safety
/// The memory stays until it is detached or the window freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_attach(
    win: *mut host_win_t,
    base: *mut c_void,
    size: usize,
) -> c_int {
    // SAFETY: passed on.
    guarded(|| unsafe {
        let win = window("host_win_attach", win)?;
        Ok(win.window.attach(base.cast(), size)?)
    })
}

/// Detaches memory that was attached at this address; local.
///
/// # Safety
/// As for every call on a window: no other thread frees it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_detach(win: *mut host_win_t, base: *const c_void) -> c_int {
    // SAFETY: passed on.
    let window = || unsafe { window("host_win_detach", win) };
    guarded(|| Ok(window()?.window.detach(base.cast())?))
}

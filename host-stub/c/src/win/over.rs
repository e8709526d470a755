//! Windows over communicators, with hints, of shared memory, and of memory attached later.

use std::ffi::{c_int, c_void};

use host::win::{Info, Window};

use crate::base::error::{Result, guarded};
use crate::base::handles::place;
use crate::comm::communicator::{comm, host_comm_t};
use crate::win::handler::guarded_on;
use crate::win::info::{given, host_info_t};
use crate::win::window::{give, host_win_t, window};

/// Makes a window over a communicator with hints, which may be NULL.
///
/// # Safety
/// `win` is NULL or writable.
unsafe fn make(
    call: &str,
    over: *mut host_comm_t,
    info: *mut host_info_t,
    win: *mut *mut host_win_t,
    create: impl FnOnce(&host::Comm, &Info) -> host::win::WinResult<Window>,
) -> Result {
    // SAFETY: passed on.
    *unsafe { place(call, win) }? = std::ptr::null_mut();
    give(win, create(&comm(call, over)?, &given(call, info)?)?);
    Ok(())
}

/// As host_win_allocate, over a communicator, with hints or NULL.
///
/// # Safety
/// `win` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_allocate_over(
    comm: *mut host_comm_t,
    size: usize,
    unit: u32,
    info: *mut host_info_t,
    win: *mut *mut host_win_t,
) -> c_int {
    let call = "host_win_allocate_over";
    // SAFETY: passed on.
    guarded(|| unsafe {
        make(call, comm, info, win, |comm, info| {
            Window::allocate_with(comm, size, unit, info)
        })
    })
}

/// As host_win_create, over a communicator, with hints or NULL.
///
/// # Safety
/// `win` is writable. The memory stays until the window was freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_create_over(
    comm: *mut host_comm_t,
    base: *mut c_void,
    size: usize,
    unit: u32,
    info: *mut host_info_t,
    win: *mut *mut host_win_t,
) -> c_int {
    let call = "host_win_create_over";
    // SAFETY: passed on.
    guarded(|| unsafe {
        make(call, comm, info, win, |comm, info| {
            Window::create_with(comm, base.cast(), size, unit, info)
        })
    })
}

/// Makes a window of `size` zeroed bytes at this rank that every rank may address, see
/// host_win_shared_query; collective over a communicator whose ranks share a node.
///
/// # Safety
/// `win` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_allocate_shared(
    comm: *mut host_comm_t,
    size: usize,
    unit: u32,
    info: *mut host_info_t,
    win: *mut *mut host_win_t,
) -> c_int {
    let call = "host_win_allocate_shared";
    // SAFETY: passed on.
    guarded(|| unsafe {
        make(call, comm, info, win, |comm, info| {
            Window::allocate_shared(comm, size, unit, info)
        })
    })
}

/// Makes a window without memory, to which ranks attach some; collective. Displacements are addresses
/// in the target's process.
///
/// # Safety
/// `win` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_create_dynamic(
    comm: *mut host_comm_t,
    info: *mut host_info_t,
    win: *mut *mut host_win_t,
) -> c_int {
    let call = "host_win_create_dynamic";
    // SAFETY: passed on.
    guarded(|| unsafe {
        make(call, comm, info, win, |comm, info| {
            Window::dynamic_with(comm, info)
        })
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
    guarded_on(win, || unsafe {
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
    guarded_on(win, || Ok(window()?.window.detach(base.cast())?))
}

//! Windows over communicators, with hints, of shared memory, and of memory attached later.

use std::ffi::{c_char, c_int, c_void};

use host::win::{Info, Window};

use crate::base::codes::rank;
use crate::base::error::{Error, Result, guarded};
use crate::base::handles::{Handles, place, text};
use crate::comm::communicator::{comm, host_comm_t};
use crate::win::window::{give, host_win_t, window};

/// Hints for the creation of windows. Never read through.
pub struct host_info_t {
    _private: [u8; 0],
}

static INFOS: Handles<Info> = Handles::new("info");

/// Makes hints, none yet.
///
/// # Safety
/// `info` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_info_create(info: *mut *mut host_info_t) -> c_int {
    guarded(|| {
        // SAFETY: passed on.
        *unsafe { place("host_info_create", info) }? = INFOS.add(Info::new());
        Ok(())
    })
}

/// Adds a hint: alloc_shared_noncontig and host_win_huge_pages are true or false, host_win_table is
/// auto, shm, mixed, cma or btl, host_ranks_per_node is a number, and device_num that of the device of
/// this rank's memory, -1 for the host. Other keys are ignored.
///
/// # Safety
/// `key` and `value` are NULL or texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_info_set(
    info: *mut host_info_t,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    guarded(|| {
        let call = "host_info_set";
        // SAFETY: passed on.
        let (key, value) = unsafe { (text(call, "key", key)?, text(call, "value", value)?) };
        let set = INFOS.change(call, info, |info| info.set(key, value))?;
        // Nothing of a window is wrong.
        set.map_err(|error| Error::argument(call, &error.to_string()))
    })
}

/// Ends hints, and sets the handle to NULL. Windows made with them stay as they are.
///
/// # Safety
/// `info` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_info_free(info: *mut *mut host_info_t) -> c_int {
    guarded(|| {
        let call = "host_info_free";
        // SAFETY: passed on.
        let kept = unsafe { place(call, info) }?;
        INFOS.take(call, *kept)?;
        *kept = std::ptr::null_mut();
        Ok(())
    })
}

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
    let info = match info.is_null() {
        true => Info::new(),
        false => INFOS.with(call, info, Info::clone)?,
    };
    give(win, create(&comm(call, over)?, &info)?);
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
    if base.is_null() && size > 0 {
        return guarded(|| Err(Error::argument(call, "the memory is NULL")));
    }
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

/// Where the memory of a rank is in this process, its bytes, and its displacement unit; a negative
/// rank asks for the first that has any. Each of the answers may be NULL. HOST_ERR_WIN: it is not
/// mapped here.
///
/// # Safety
/// Answers that are not NULL are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_shared_query(
    win: *mut host_win_t,
    target: c_int,
    base: *mut *mut c_void,
    size: *mut usize,
    unit: *mut u32,
) -> c_int {
    guarded(|| {
        let call = "host_win_shared_query";
        // SAFETY: passed on.
        let win = unsafe { window(call, win) }?;
        let rank = match target < 0 {
            true => None,
            false => Some(rank(call, target)?),
        };
        let part = win.window.shared_query(rank)?;
        // SAFETY: the caller guarantees those that are there.
        unsafe {
            if let Some(base) = base.as_mut() {
                *base = part.base.cast();
            }
            if let Some(size) = size.as_mut() {
                *size = part.len;
            }
            if let Some(unit) = unit.as_mut() {
                *unit = part.unit;
            }
        }
        Ok(())
    })
}

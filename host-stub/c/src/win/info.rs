//! Hints: a program's requests for windows, and the hints in force.

use std::ffi::{c_char, c_int};

use host::win::Info;

use crate::base::error::{Error, Result, guarded};
use crate::base::handles::{Handles, place, text};
use crate::win::window::{host_win_t, window};

/// Hints for windows. The handle is never dereferenced.
pub struct host_info_t {
    _private: [u8; 0],
}

pub(crate) static INFOS: Handles<Info> = Handles::new("info");

/// Makes an empty set of hints.
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
/// auto, shm, mixed or btl, host_ranks_per_node is a number, and device_num is the number of the device of
/// this rank's memory, -1 for the host. MPI's no_locks, same_size and same_disp_unit are true or false,
/// accumulate_ordering is none or some of rar,raw,war,waw, accumulate_ops is same_op or same_op_no_op, and
/// mpi_accumulate_granularity is a number of bytes. Other keys are ignored.
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
        // The argument is wrong, not the window.
        set.map_err(|error| Error::argument(call, &error.to_string()))
    })
}

/// Ends hints, and sets the handle to NULL. Windows made with the hints stay unchanged.
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

/// The hints of a handle; empty for NULL.
pub(crate) fn given(call: &str, info: *mut host_info_t) -> Result<Info> {
    match info.is_null() {
        true => Ok(Info::new()),
        false => INFOS.with(call, info, Info::clone),
    }
}

/// Copies the value of a key to `value`, cut to `room` bytes with its zero byte. `length` gets the whole
/// length without the zero byte, or -1 if the hints do not have the key. `value` and `length` may be NULL.
///
/// # Safety
/// `key` is NULL or a text; `value` is NULL or has room for `room` bytes; `length` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_info_get(
    info: *mut host_info_t,
    key: *const c_char,
    room: usize,
    value: *mut c_char,
    length: *mut isize,
) -> c_int {
    guarded(|| {
        let call = "host_info_get";
        // SAFETY: the caller guarantees the text.
        let key = unsafe { text(call, "key", key) }?;
        let found = INFOS.with(call, info, |info| info.get(key))?;
        if let Some(found) = &found
            && !value.is_null()
            && room > 0
        {
            let bytes = found.len().min(room - 1);
            // SAFETY: the caller guarantees room for `room` bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(found.as_ptr(), value.cast::<u8>(), bytes);
                value.add(bytes).write(0);
            }
        }
        // SAFETY: the caller guarantees the place.
        if let Some(length) = unsafe { length.as_mut() } {
            *length = found.map_or(-1, |found| found.len() as isize);
        }
        Ok(())
    })
}

/// Changes hints of a window; collective, with the same hints on every process. Completes this process's
/// operations first. MPI's keys of host_info_set can change. HOST_ERR_WIN on every process, and nothing
/// changes: another key with a new value, hints that differ between processes, or no_locks while a lock is
/// held.
///
/// # Safety
/// As for every call on a window: no other thread frees it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_set_info(win: *mut host_win_t, info: *mut host_info_t) -> c_int {
    guarded(|| {
        let call = "host_win_set_info";
        // SAFETY: passed on.
        let win = unsafe { window(call, win) }?;
        Ok(win.window.set_info(&given(call, info)?)?)
    })
}

/// Makes a set of the hints in force for a window. The caller ends the set by host_info_free.
///
/// # Safety
/// `info` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_get_info(
    win: *mut host_win_t,
    info: *mut *mut host_info_t,
) -> c_int {
    guarded(|| {
        let call = "host_win_get_info";
        // SAFETY: passed on.
        let (win, info) = unsafe { (window(call, win)?, place(call, info)?) };
        *info = INFOS.add(win.window.get_info()?);
        Ok(())
    })
}

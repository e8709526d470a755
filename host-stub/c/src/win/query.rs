//! What can be asked of a window.

use std::ffi::{CStr, c_char, c_int, c_void};

use host::win::{Window, WindowKind};

use crate::base::codes::rank;
use crate::base::error::guarded;
use crate::base::handles::place;
use crate::win::handler::guarded_on;
use crate::win::window::{host_win_t, window};

/// Made of the caller's memory.
pub const HOST_WIN_CREATE: c_int = 0;
/// Of memory that the window owns.
pub const HOST_WIN_ALLOCATE: c_int = 1;
/// Of memory that the window owns and every rank may address.
pub const HOST_WIN_ALLOCATE_SHARED: c_int = 2;
/// Of memory attached and detached.
pub const HOST_WIN_DYNAMIC: c_int = 3;

pub(crate) fn kind(window: &Window) -> c_int {
    match window.kind() {
        WindowKind::Create => HOST_WIN_CREATE,
        WindowKind::Allocate => HOST_WIN_ALLOCATE,
        WindowKind::AllocateShared => HOST_WIN_ALLOCATE_SHARED,
        WindowKind::Dynamic => HOST_WIN_DYNAMIC,
    }
}

/// # Safety
/// As for every call on a window: no other thread frees it meanwhile.
unsafe fn number(call: &str, win: *mut host_win_t, of: impl FnOnce(&Window) -> c_int) -> c_int {
    let mut found = 0;
    // SAFETY: passed on.
    match guarded(|| unsafe { window(call, win) }.map(|win| found = of(&win.window))) {
        0 => found,
        code => code,
    }
}

/// This process's rank in a window, or a negative code.
///
/// # Safety
/// As for every call on a window: no other thread frees it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_rank(win: *mut host_win_t) -> c_int {
    // SAFETY: passed on.
    unsafe { number("host_win_rank", win, |win| win.rank() as c_int) }
}

/// Ranks of a window, or a negative code.
///
/// # Safety
/// As for every call on a window: no other thread frees it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_size(win: *mut host_win_t) -> c_int {
    // SAFETY: passed on.
    unsafe { number("host_win_size", win, |win| win.size() as c_int) }
}

/// How a window was made, HOST_WIN_CREATE and so on, or a negative code.
///
/// # Safety
/// As for every call on a window: no other thread frees it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_kind(win: *mut host_win_t) -> c_int {
    // SAFETY: passed on.
    unsafe { number("host_win_kind", win, kind) }
}

/// Bytes of this rank's memory of a window; 0 of a dynamic one.
///
/// # Safety
/// `bytes` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_length(win: *mut host_win_t, bytes: *mut usize) -> c_int {
    guarded_on(win, || {
        let call = "host_win_length";
        // SAFETY: passed on.
        *unsafe { place(call, bytes) }? = unsafe { window(call, win) }?.window.len();
        Ok(())
    })
}

/// A window's table by name, with its zero byte.
pub(crate) fn name(window: &Window) -> &'static CStr {
    match window.table_name() {
        "shm" => c"shm",
        "mixed" => c"mixed",
        "btl" => c"btl",
        _ => c"other",
    }
}

/// Which functions a window got when it was made: shm, mixed or btl; NULL for no window.
///
/// # Safety
/// As for every call on a window: no other thread frees it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_table_name(win: *mut host_win_t) -> *const c_char {
    let mut found = std::ptr::null();
    guarded(|| {
        // SAFETY: passed on.
        found = name(&unsafe { window("host_win_table_name", win) }?.window).as_ptr();
        Ok(())
    });
    found
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
    guarded_on(win, || {
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

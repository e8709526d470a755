//! Queries of a window.

use std::ffi::{CStr, c_int, c_void};

use host::win::{Window, WindowKind};

use crate::base::codes::rank;
use crate::base::error::guarded;
use crate::win::window::{host_win_t, window};

/// A window of the caller's memory.
pub const HOST_WIN_CREATE: c_int = 0;
/// A window that owns its memory.
pub const HOST_WIN_ALLOCATE: c_int = 1;
/// A window that owns memory which every rank may address.
pub const HOST_WIN_ALLOCATE_SHARED: c_int = 2;
/// A window of memory that ranks attach and detach.
pub const HOST_WIN_DYNAMIC: c_int = 3;

pub(crate) fn kind(window: &Window) -> c_int {
    match window.kind() {
        WindowKind::Create => HOST_WIN_CREATE,
        WindowKind::Allocate => HOST_WIN_ALLOCATE,
        WindowKind::AllocateShared => HOST_WIN_ALLOCATE_SHARED,
        WindowKind::Dynamic => HOST_WIN_DYNAMIC,
    }
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

/// Returns the address of a rank's memory in this process, its size in bytes, and its displacement
/// unit; a negative rank means the first rank that has memory. Each result may be NULL.
/// HOST_ERR_WIN: the memory is not mapped in this process.
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
        // SAFETY: the caller guarantees the places that are not NULL.
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

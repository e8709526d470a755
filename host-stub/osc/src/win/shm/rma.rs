//! Put and get as loads and stores. A transfer's address is valid in this process.

use crate::win::copy::{load, store};
use crate::win::error::WinResult;
use crate::win::transfer::Transfer;
use crate::win::window::Window;

pub(super) unsafe fn put(_window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: the caller vouches for the origin; the target range was checked to lie in the
    // target's part of the segment, which is mapped here.
    unsafe { store(transfer, transfer.address as *mut u8) };
    Ok(())
}

pub(super) unsafe fn get(_window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: as in `put`.
    unsafe { load(transfer, transfer.address as *const u8) };
    Ok(())
}

pub(super) unsafe fn rput(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: the caller vouches for the transfer. The transfer is complete now, so the request
    // counts nothing.
    unsafe { put(window, transfer) }?;
    window.now_and_then(transfer.call)
}

pub(super) unsafe fn rget(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: as in `rput`.
    unsafe { get(window, transfer) }?;
    window.now_and_then(transfer.call)
}

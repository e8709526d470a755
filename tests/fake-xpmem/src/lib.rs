//! A fake of `libxpmem.so.0`, for machines without XPMEM's kernel module. It is found in place of the library by
//! `LD_LIBRARY_PATH`.
//!
//! The module maps the pages of another process. The fake has that process share them first: a thread of the owner
//! (`owner`) copies each page that a peer attaches to a file in memory, and maps the file in the page's place; the peer maps
//! the same file. So both see one memory from then on, and everything but the page tables is real.
//!
//! It differs from the module in this: the owner must run, and leave the pages alone, while they are attached for the first
//! time; what the owner unmaps stays attached; and it is stricter about arguments.

mod owner;
mod peer;

use std::ffi::{c_int, c_void};
use std::ptr;

/// What the header promises.
const ALL: usize = usize::MAX;
const READ_AND_WRITE: c_int = 2;
const BY_MODE: c_int = 1;

/// The kernel's page of the machines that tests run on.
const PAGE: u64 = 4096;

/// A place in what a permit is for (`struct xpmem_addr`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Part {
    permit: i64,
    offset: libc::off_t,
}

/// Says why on the caller's thread, as the library does.
fn refuse(code: c_int) -> i64 {
    // SAFETY: the number of the last error is this thread's.
    unsafe { *libc::__errno_location() = code };
    -1
}

/// Offers the address space of the process. Only all of it, to processes of the same user.
#[unsafe(no_mangle)]
pub extern "C" fn xpmem_make(at: *mut c_void, size: usize, by: c_int, mode: *mut c_void) -> i64 {
    if !at.is_null() || size != ALL || by != BY_MODE || mode.addr() != 0o600 {
        return refuse(libc::EINVAL);
    }
    owner::offer().unwrap_or_else(|e| refuse(e.raw_os_error().unwrap_or(libc::EIO)))
}

/// Ends an offer.
#[unsafe(no_mangle)]
pub extern "C" fn xpmem_remove(segment: i64) -> c_int {
    match owner::withdraw(segment) {
        true => 0,
        false => refuse(libc::EINVAL) as c_int,
    }
}

/// Gives the permit to attach. The number of an offer says whose it is.
#[unsafe(no_mangle)]
pub extern "C" fn xpmem_get(segment: i64, rights: c_int, by: c_int, mode: *mut c_void) -> i64 {
    if rights != READ_AND_WRITE || by != BY_MODE || !mode.is_null() {
        return refuse(libc::EINVAL);
    }
    peer::permit(segment).unwrap_or_else(|| refuse(libc::ENOENT))
}

/// Gives a permit back, by which nothing is attached.
#[unsafe(no_mangle)]
pub extern "C" fn xpmem_release(permit: i64) -> c_int {
    match peer::give_back(permit) {
        true => 0,
        false => refuse(libc::EINVAL) as c_int,
    }
}

/// Attaches whole pages.
#[unsafe(no_mangle)]
pub extern "C" fn xpmem_attach(part: Part, size: usize, at: *mut c_void) -> *mut c_void {
    let whole = |bytes: u64| bytes.is_multiple_of(PAGE);
    if !at.is_null() || size == 0 || !whole(size as u64) || !whole(part.offset as u64) {
        refuse(libc::EINVAL);
        return ptr::without_provenance_mut(usize::MAX);
    }
    peer::attach(part.permit, part.offset as u64, size).unwrap_or_else(|e| {
        refuse(e.raw_os_error().unwrap_or(libc::EIO));
        ptr::without_provenance_mut(usize::MAX)
    })
}

/// Detaches what was attached at the address.
#[unsafe(no_mangle)]
pub extern "C" fn xpmem_detach(at: *mut c_void) -> c_int {
    match peer::detach(at.addr()) {
        true => 0,
        false => refuse(libc::EINVAL) as c_int,
    }
}

/// What this process has attached and not detached, and its permits. For tests.
#[unsafe(no_mangle)]
pub extern "C" fn fake_xpmem_in_use() -> usize {
    peer::in_use()
}

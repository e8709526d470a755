//! Memory that neighbours map.

use std::io;
use std::ptr;

/// Bytes in a shared mapping, which are never unmapped: of a file in memory.
///
/// # Errors
/// The kernel's refusal.
pub fn leak(size: usize) -> io::Result<*mut u8> {
    // SAFETY: the name is a C string.
    let file = unsafe { libc::memfd_create(c"bench-window".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: a number and a length; a descriptor that is none is refused.
    if unsafe { libc::ftruncate(file, size as libc::off_t) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (rights, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let base = unsafe { libc::mmap(ptr::null_mut(), size, rights, shared, file, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(base.cast())
}

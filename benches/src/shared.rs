//! Memory that local peers map.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

/// Bytes of a file in memory that cannot shrink, which are never unmapped, and the file.
///
/// # Errors
/// The kernel's refusal.
pub fn leak(size: usize) -> io::Result<(*mut u8, OwnedFd)> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string.
    let number = unsafe { libc::memfd_create(c"bench-window".as_ptr(), flags) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: the descriptor is open; the other arguments are plain numbers.
    let sealed = unsafe {
        libc::fallocate(number, 0, 0, size as libc::off_t) == 0
            && libc::fcntl(number, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) == 0
    };
    if !sealed {
        return Err(io::Error::last_os_error());
    }
    let (rights, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: the mapping is new, at an address that the kernel chooses.
    let base = unsafe { libc::mmap(ptr::null_mut(), size, rights, shared, number, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok((base.cast(), file))
}

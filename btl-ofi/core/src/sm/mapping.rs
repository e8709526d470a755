//! Mappings of shared files, and allocation of their pages.

use std::ffi::c_void;
use std::io;
use std::ops::Deref;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};

use crate::base::call::uninterrupted;

/// A mapping of shared memory; dropping it unmaps.
pub(super) struct Mapped<T>(NonNull<T>);

impl<T> Mapped<T> {
    /// Maps a `T` at `offset` bytes into a file. `T` consists of atomics and cells, for which any bytes are valid.
    pub(super) fn new(file: RawFd, offset: usize) -> io::Result<Mapped<T>> {
        let (rights, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the kernel chooses the address of the new mapping, so no existing mapping is replaced.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<T>(),
                rights,
                shared,
                file,
                offset as libc::off_t,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(at.cast())
            .map(Mapped)
            .ok_or_else(|| io::Error::other("mmap returned NULL"))
    }
}

impl<T> Deref for Mapped<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `self` keeps the memory mapped. The mapped types consist of atomics and cells: any bytes are valid,
        // and other processes may write at any time.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the memory with this size, and only this drop unmaps it.
        unsafe { libc::munmap(self.0.as_ptr().cast::<c_void>(), size_of::<T>()) };
    }
}

pub(super) fn checked(rc: i32) -> io::Result<i32> {
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(rc)
    }
}

/// Allocates pages, so that a later access cannot fail.
pub(super) fn allocate(file: RawFd, offset: usize, size: usize) -> io::Result<()> {
    let end = offset + size;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a local that getrlimit may write.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) })?;
    // Growth beyond the limit raises a signal (SIGXFSZ) instead of an error.
    if limit.rlim_cur < end as u64 {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let (offset, size) = (offset as libc::off_t, size as libc::off_t);
    uninterrupted(|| {
        // SAFETY: fallocate takes integers only and checks the descriptor.
        unsafe { libc::fallocate(file, 0, offset, size) }
    })
}

//! Mappings of shared files, and allocation of their pages.

use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use crate::base::sys;

/// A mapping of shared memory; dropping it unmaps.
pub(crate) struct Mapped<T>(NonNull<T>);

impl<T> Mapped<T> {
    /// Maps a `T` at `offset` bytes into a file. `T` consists of atomics and cells, for which any bytes are valid.
    pub(crate) fn new(file: impl AsFd, offset: usize) -> io::Result<Mapped<T>> {
        let at = sys::map_shared(file, offset as u64, size_of::<T>())?;
        Ok(Mapped(at.cast()))
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
        if let Err(e) = unsafe { sys::unmap(self.0.cast(), size_of::<T>()) } {
            tracing::warn!("{} bytes of shared memory stay mapped: {e}", size_of::<T>());
        }
    }
}

/// Allocates pages, so that a later access cannot fail.
pub(crate) fn allocate(file: impl AsFd, offset: usize, size: usize) -> io::Result<()> {
    // Growth beyond the limit raises a signal (SIGXFSZ) instead of an error.
    let limit = sys::file_size_limit()?;
    if limit < (offset + size) as u64 {
        return Err(io::Error::new(
            ErrorKind::FileTooLarge,
            format!("the limit of the size of files (RLIMIT_FSIZE, ulimit -f) is {limit} bytes"),
        ));
    }
    Ok(sys::allocate(file, offset as u64, size as u64)?)
}

#[cfg(test)]
mod tests;

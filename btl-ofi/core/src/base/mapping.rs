//! Mappings of shared files, and allocation of their pages.

use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use crate::base::sys;

/// A mapping of shared memory; dropping it unmaps.
pub(crate) struct Mapped<T> {
    at: NonNull<T>,
    /// Bytes of the mapping before `at`. A mapping begins at a page of this machine, and such a page may be larger
    /// than the pages in which files are laid out (64 KiB on some machines).
    before: usize,
}

// SAFETY: the mapping belongs to this value, like the value of a box, and is tied to no thread.
unsafe impl<T: Send> Send for Mapped<T> {}
// SAFETY: a shared mapping only gives access to the `T`.
unsafe impl<T: Sync> Sync for Mapped<T> {}

impl<T> Mapped<T> {
    /// Maps a `T` in a file at `offset` bytes. `offset` is a multiple of its alignment. `T` consists of atomics and
    /// cells, for which any bytes are valid.
    pub(crate) fn new(file: impl AsFd, offset: usize) -> io::Result<Mapped<T>> {
        let before = offset % sys::page_size()?;
        let from = (offset - before) as u64;
        let start = sys::map_shared(file, from, before + size_of::<T>())?;
        // SAFETY: the mapping has `before` bytes and a `T` behind them.
        let at = unsafe { start.byte_add(before) }.cast();
        Ok(Mapped { at, before })
    }
}

impl<T> Deref for Mapped<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `self` keeps the memory mapped. The mapped types consist of atomics and cells: any bytes are valid,
        // and other processes may write at any time.
        unsafe { self.at.as_ref() }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the memory with this start and size, and only this drop unmaps it.
        let unmapped = unsafe {
            let start = self.at.cast().byte_sub(self.before);
            sys::unmap(start, self.before + size_of::<T>())
        };
        if let Err(e) = unmapped {
            tracing::warn!("{} bytes of shared memory stay mapped: {e}", size_of::<T>());
        }
    }
}

/// Allocates pages, so that a later access cannot fail.
pub(crate) fn allocate(file: impl AsFd, offset: usize, size: usize) -> io::Result<()> {
    // Growth beyond the limit raises a signal (SIGXFSZ) instead of returning an error.
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

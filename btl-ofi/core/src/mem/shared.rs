//! The regions of this process that its peers on the node may map: those of files that cannot shrink, whose descriptors the
//! host named. Peers reach such memory without the owner (`sm::mapped`), so they cannot be refused by the owner's table of
//! regions. Instead peers read here, before each operation, whether the region is still registered.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::error::Error;
use crate::base::mapping::Mapped;
use crate::base::sys;
use crate::mem::handle::Handle;
use crate::mem::rights;

/// Maximum mappable regions at a time. Peers access further regions as if these could not be
/// mapped.
const PLACES: usize = 512;

/// The location of memory in a file that processes share.
#[derive(Clone, Copy, Debug)]
pub struct SharedMemory<'a> {
    /// The file. The memory is a shared mapping of this file.
    pub file: BorrowedFd<'a>,
    /// Offset in the file at which the memory begins.
    pub offset: u64,
}

impl SharedMemory<'_> {
    /// Checks the location of `length` bytes of memory at `base`, and returns the file and the offset. The file is open
    /// until the caller drops the returned file. Returns `None`, and logs a line, if this process cannot open another
    /// descriptor.
    ///
    /// # Errors
    /// The memory cannot be at this offset of the file.
    pub(crate) fn keep(self, base: u64, length: u64) -> Result<Option<(File, u64)>, Error> {
        let SharedMemory { file, offset } = self;
        let number = file.as_raw_fd();
        let place = format!("{length} bytes at {base:#x}, byte {offset} of descriptor {number}");
        let invalid = |reason: String| Error::Invalid {
            what: "shared memory to register",
            reason: format!("{place}: {reason}"),
        };
        if !is_aligned_alike(base, offset) {
            return Err(invalid(String::from(
                "the address and the place in the file lie differently in their pages; pass the place of the first byte",
            )));
        }
        let kept = file.try_clone_to_owned().map(File::from);
        let found = kept.and_then(|file| Ok((file.metadata()?.size(), file)));
        let (size, file) = match found {
            Ok(found) => found,
            Err(e) => {
                tracing::info!("{place}, are not mapped by peers: the descriptor is not kept: {e}");
                return Ok(None);
            }
        };
        let end = offset.checked_add(length);
        if end.is_none_or(|end| end > size) {
            return Err(invalid(format!(
                "the file has {size} bytes; pass memory that lies in the file"
            )));
        }
        Ok(Some((file, offset)))
    }
}

/// Whether a byte at `offset` of a file can be mapped at `base`, because files are mapped by whole
/// pages.
pub(crate) fn is_aligned_alike(base: u64, offset: u64) -> bool {
    // Without the page size, nothing could have been mapped.
    sys::page_size().is_ok_and(|page| (base ^ offset).is_multiple_of(page as u64))
}

/// Whether a file cannot become shorter. An access to its mapping then never faults.
pub(crate) fn is_lasting(file: impl AsFd) -> bool {
    // A file that permits no seals has none.
    sys::seals(file).is_ok_and(|seals| seals & libc::F_SEAL_SHRINK != 0)
}

/// A registered region that peers may map, or none.
#[repr(C)]
pub(crate) struct Backing {
    /// The cookie field of the region's handle; 0 without a region.
    cookie: AtomicU64,
    /// The owner's descriptor of the file, and the offset at which the region begins.
    descriptor: AtomicU64,
    offset: AtomicU64,
}

impl Backing {
    /// The word that holds the cookie while the region is registered.
    pub(crate) fn cookie(&self) -> &AtomicU64 {
        &self.cookie
    }

    /// The owner's descriptor of the file, and the offset at which the region begins. Both values are valid if the
    /// region is still registered after this call.
    pub(crate) fn file(&self) -> (u32, u64) {
        // Acquire pairs with the Release in `announce`: if the values are those of a later region, the cookie is, too.
        let descriptor = self.descriptor.load(Ordering::Acquire);
        (descriptor as u32, self.offset.load(Ordering::Acquire))
    }
}

/// Part of the owner's segment (`sm::segment`).
#[repr(C, align(4096))]
pub(crate) struct SharedRegions {
    /// The registered regions that may be mapped, by generation.
    places: [Backing; PLACES],
}

const _: () = assert!(size_of::<SharedRegions>() == 3 * 4096);

impl SharedRegions {
    /// The slot of a region, given the cookie field of its handle.
    pub(crate) fn place(&self, cookie: u64) -> &Backing {
        // Consecutive generations have different slots.
        &self.places[cookie as usize % PLACES]
    }

    /// Adds a region that begins at `offset` of the descriptor's file. Returns false if another
    /// region has its slot.
    pub(crate) fn announce(&self, cookie: u64, descriptor: u32, offset: u64) -> bool {
        let place = self.place(cookie);
        // Relaxed: peers learn of the region through its handle, which is published later.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        if place
            .cookie
            .compare_exchange(0, cookie, set, fetch)
            .is_err()
        {
            return false;
        }
        // Release pairs with the Acquire in `Backing::file`.
        let descriptor = u64::from(descriptor);
        place.descriptor.store(descriptor, Ordering::Release);
        place.offset.store(offset, Ordering::Release);
        true
    }

    /// Removes a region, if it is in its slot.
    pub(crate) fn withdraw(&self, cookie: u64) {
        // Peers that read 0 refuse their operations. No memory changes hands through this word.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let word = &self.place(cookie).cookie;
        let _ = word.compare_exchange(cookie, 0, set, fetch);
    }
}

/// The owner's side of the shared regions.
pub(crate) struct Announced(Mapped<SharedRegions>);

impl Announced {
    pub(crate) fn new(regions: Mapped<SharedRegions>) -> Announced {
        Announced(regions)
    }

    /// Announces a new region, and returns its handle for peers; `None` if peers may not map its memory. The region begins
    /// at `offset` of the file, which stays open until the region is [withdrawn](Self::withdraw).
    pub(crate) fn announce(&self, handle: Handle, file: &File, offset: u64) -> Option<Handle> {
        let (base, length) = (handle.base(), handle.length());
        if length == 0 || !handle.access().intersects(rights::REMOTE) {
            return None;
        }
        if !is_lasting(file) {
            tracing::info!(
                "{length} bytes at {base:#x} are not mapped by peers: their file may shrink (seal it with F_SEAL_SHRINK)"
            );
            return None;
        }
        let shared = handle.shared();
        let descriptor = file.as_raw_fd() as u32;
        let is_first = self.0.announce(shared.cookie(), descriptor, offset);
        is_first.then_some(shared)
    }

    /// Marks a region as no longer registered.
    pub(crate) fn withdraw(&self, handle: &Handle) {
        self.0.withdraw(handle.cookie());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_serves_one_region_at_a_time() {
        let none = || Backing {
            cookie: AtomicU64::new(0),
            descriptor: AtomicU64::new(0),
            offset: AtomicU64::new(0),
        };
        let regions = SharedRegions {
            places: std::array::from_fn(|_| none()),
        };
        let (first, second) = (7 << 32 | 3, 7 << 32 | (3 + PLACES as u64));
        let now = |cookie| {
            let place = regions.place(cookie);
            (place.cookie().load(Ordering::Relaxed), place.file())
        };
        assert!(regions.announce(first, 5, 4096));
        assert!(!regions.announce(second, 6, 8192));
        regions.withdraw(second);
        assert_eq!(now(first), (first, (5, 4096)));
        regions.withdraw(first);
        assert!(regions.announce(second, 6, 8192));
        assert_eq!(now(first), (second, (6, 8192)));
        assert!(regions.announce(first + 1, 5, 0), "the next registration");
    }
}

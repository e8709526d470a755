//! One mapped region of a peer: opens the file that the region's owner named, and maps the region.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::mapping::Mapped;
use crate::base::sys;
use crate::mem::handle::Handle;
use crate::mem::shared::{SharedRegions, is_aligned_alike, is_lasting};
use crate::peer::reach::Probe;
use crate::sm::segment::Place;

/// A mapped region, with the part of its owner's segment that shows whether the region is registered.
pub(crate) struct Mapping {
    pages: Pages,
    cookie: u64,
    regions: Mapped<SharedRegions>,
}

/// Pages of a file; dropping them unmaps.
struct Pages {
    start: NonNull<c_void>,
    size: usize,
    /// Bytes from `start` to the region.
    before: usize,
}

// SAFETY: the pages belong to this value and are tied to no thread.
unsafe impl Send for Pages {}

impl Mapping {
    /// Maps the region with this handle. `segment` and `probe` belong to its owner.
    ///
    /// # Errors
    /// The reason why the region cannot be mapped; `None` if it is no longer registered.
    pub(crate) fn new(
        segment: Place,
        probe: Probe,
        handle: &Handle,
    ) -> Result<Mapping, Option<String>> {
        let why = |e: &dyn ToString| Some(e.to_string());
        // The segment is opened by process id and then checked. So the process is the peer, and /proc shows the
        // peer's namespace of process ids.
        let regions = segment.shared_regions().map_err(|e| why(&e))?;
        let place = regions.place(handle.cookie());
        let (descriptor, offset) = place.file();
        // Relaxed: the region was announced before its handle came here.
        if place.cookie().load(Ordering::Relaxed) != handle.cookie() {
            return Err(None);
        }
        let file = Place {
            descriptor,
            ..segment
        };
        let pages = file
            .open_file()
            .and_then(|file| map(&file, offset, (handle.base(), handle.length())));
        let mapping = Mapping {
            pages: pages.map_err(|e| why(&e))?,
            cookie: handle.cookie(),
            regions,
        };
        // The file is the peer's if the peer's probe still exists and the region is still registered, because
        // its owner closes the file later.
        if probe.is_in(segment.pid) != Ok(true) {
            return Err(why(&"its process changes"));
        }
        if mapping.is_over() {
            return Err(None);
        }
        Ok(mapping)
    }

    /// Whether the region is no longer registered.
    pub(super) fn is_over(&self) -> bool {
        // Relaxed: only the word itself matters.
        self.registered().load(Ordering::Relaxed) != self.cookie
    }

    /// The word that holds the cookie while the region is registered.
    pub(super) fn registered(&self) -> &AtomicU64 {
        self.regions.place(self.cookie).cookie()
    }

    /// The address of the region in this process.
    pub(super) fn address(&self) -> usize {
        self.pages.address()
    }
}

impl Pages {
    /// The address of the region in this process.
    fn address(&self) -> usize {
        self.start.as_ptr().expose_provenance() + self.before
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `map` made the mapping with this start and size, and no code uses it now.
        if let Err(e) = unsafe { sys::unmap(self.start, self.size) } {
            tracing::warn!("{} bytes of a peer stay mapped: {e}", self.size);
        }
    }
}

/// Maps the part of a file at `offset` that the owner has at `base`. Fails unless the file contains `length` bytes
/// and is sealed against shrinking.
fn map(file: &File, offset: u64, (base, length): (u64, u64)) -> io::Result<Pages> {
    let other = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if !is_lasting(file) {
        return other("its file may shrink");
    }
    // The size is read after the check of the seal, so it can no longer shrink.
    let metadata = file.metadata()?;
    let end = offset.checked_add(length);
    if end.is_none_or(|end| end > metadata.size()) {
        return other("its file is shorter than the region");
    }
    // Atomics need elements with the same alignment as at the owner.
    if !is_aligned_alike(base, offset) {
        return other("its place in its file is not one of its address");
    }
    // A mapping of huge pages begins and ends at boundaries of huge pages.
    let page = sys::page_size()? as u64;
    let page = match metadata.blksize() {
        huge if huge.is_power_of_two() => huge.max(page),
        _ => page,
    };
    let before = offset % page;
    let size = (before + length).next_multiple_of(page) as usize;
    let start = sys::map_shared(file, offset - before, size)?;
    Ok(Pages {
        start,
        size,
        before: before as usize,
    })
}

#[cfg(test)]
mod tests;

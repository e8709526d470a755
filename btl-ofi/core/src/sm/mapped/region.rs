//! One mapped region of a peer: finding the object behind its memory and mapping it.

use std::ffi::c_void;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::mapping::Mapped;
use crate::base::maps::{self, Object};
use crate::base::sys;
use crate::mem::handle::Handle;
use crate::mem::shared::SharedRegions;
use crate::peer::reach::Probe;
use crate::sm::segment::Place;

/// A mapped region, with the part of its owner's segment that says whether it is registered.
pub(crate) struct Mapping {
    pages: Pages,
    cookie: u64,
    regions: Mapped<SharedRegions>,
}

/// Pages of an object; dropping them unmaps.
struct Pages {
    start: NonNull<c_void>,
    size: usize,
    /// Bytes from `start` to the region.
    before: usize,
}

// SAFETY: the pages belong to this value and are tied to no thread.
unsafe impl Send for Pages {}

impl Mapping {
    /// Maps the region with this handle. `segment` and `probe` are those of its owner.
    ///
    /// # Errors
    /// The reason why it cannot be mapped, or `None` if it is no longer registered.
    pub(crate) fn new(
        segment: Place,
        probe: Probe,
        handle: &Handle,
    ) -> Result<Mapping, Option<String>> {
        let pid = segment.pid;
        let why = |e: &dyn ToString| Some(e.to_string());
        // Opened by the process id, and checked: so this is the peer, and /proc that of its namespace of processes.
        let regions = segment.shared_regions().map_err(|e| why(&e))?;
        let registered = |regions: &SharedRegions| {
            let cookie = handle.cookie();
            // Relaxed: the region was announced before its handle came here.
            regions.place(cookie).load(Ordering::Relaxed) == cookie
        };
        if !registered(&regions) {
            return Err(None);
        }
        let (base, length) = (handle.base(), handle.length());
        let process = pid.to_string();
        let Some(object) = maps::shared_object(&process, base, length) else {
            return Err(why(&"it is not in one shared mapping that may be written"));
        };
        let mapping = Mapping {
            pages: of_object(pid, &object, length).map_err(|e| why(&e))?,
            cookie: handle.cookie(),
            regions,
        };
        // The mappings were the peer's if it is still there and the region is registered, and so stays mapped.
        if probe.is_in(pid) != Ok(true) {
            return Err(why(&"its process changes"));
        }
        if mapping.is_over() {
            return Err(None);
        }
        Ok(mapping)
    }

    /// Whether the region is no longer registered.
    pub(super) fn is_over(&self) -> bool {
        // Relaxed: the word alone matters.
        self.registered().load(Ordering::Relaxed) != self.cookie
    }

    /// The word that holds the cookie while the region is registered.
    pub(super) fn registered(&self) -> &AtomicU64 {
        self.regions.place(self.cookie)
    }

    /// Where the region is in this process.
    pub(super) fn address(&self) -> usize {
        self.pages.address()
    }
}

impl Pages {
    /// Where the region is in this process.
    fn address(&self) -> usize {
        self.start.as_ptr().expose_provenance() + self.before
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `map` or `map_own` made the mapping with this start and size, and nothing uses it any more.
        if let Err(e) = unsafe { sys::unmap(self.start, self.size) } {
            tracing::warn!("{} bytes of a peer stay mapped: {e}", self.size);
        }
    }
}

/// Maps an object of a process from its offset on.
fn of_object(pid: u32, object: &Object, length: u64) -> io::Result<Pages> {
    match open(pid, object) {
        Ok(file) => map(&file, object, length),
        // Processes of one job often map one file, whose name and descriptors they have given up.
        Err(e) => map_own(object, length).unwrap_or(Err(e)),
    }
}

/// Maps the bytes of an object from its offset on.
fn map(file: &File, object: &Object, length: u64) -> io::Result<Pages> {
    // Mappings of huge pages begin and end at such pages.
    let page = file.metadata()?.blksize().max(sys::page_size()? as u64);
    let page = if page.is_power_of_two() {
        page
    } else {
        sys::page_size()? as u64
    };
    let before = object.offset % page;
    let size = (before + length).next_multiple_of(page) as usize;
    let start = sys::map_shared(file, object.offset - before, size)?;
    Ok(Pages {
        start,
        size,
        before: before as usize,
    })
}

/// Maps an object once more that this process maps itself; `None` if it does not.
fn map_own(object: &Object, length: u64) -> Option<io::Result<Pages>> {
    let at = maps::own_mapping(object, length)?;
    let page = sys::page_size().ok()? as u64;
    let before = at % page;
    let size = (before + length).next_multiple_of(page) as usize;
    let start = match sys::map_again(at - before, size) {
        Ok(start) => start,
        Err(e) => return Some(Err(e.into())),
    };
    let pages = Pages {
        start,
        size,
        before: before as usize,
    };
    // Another thread may have mapped something else there meanwhile.
    let again = maps::shared_object("self", pages.address() as u64, length);
    let is_it = again.is_some_and(|again| again.is_same(object));
    is_it.then_some(Ok(pages))
}

/// Opens the object that a process maps: by the mapping, by its name, or by a descriptor.
fn open(pid: u32, object: &Object) -> io::Result<File> {
    let opened = open_by_mapping(pid, object)
        .or_else(|| open_by_name(pid, object))
        .or_else(|| open_by_descriptor(pid, object));
    opened.unwrap_or_else(|| {
        Err(io::Error::other(
            "no name, no descriptor and no mapping of this process leads to its memory",
        ))
    })
}

/// For processes with CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
fn open_by_mapping(pid: u32, object: &Object) -> Option<io::Result<File>> {
    let path = format!("/proc/{pid}/map_files/{}", object.range);
    // Without the privilege, the other ways remain.
    open_at(path.as_ref(), object)?.ok().map(Ok)
}

/// The name is that of the process's own file system.
fn open_by_name(pid: u32, object: &Object) -> Option<io::Result<File>> {
    open_at(format!("/proc/{pid}/root{}", object.name).as_ref(), object)
}

/// The name must be equal, because files of `memfd_create` and System V segments may have one number.
fn open_by_descriptor(pid: u32, object: &Object) -> Option<io::Result<File>> {
    let mut descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    descriptors.find_map(|descriptor| {
        let path = descriptor.path();
        let named = fs::read_link(&path).is_ok_and(|name| name == Path::new(&object.name));
        named.then(|| open_at(&path, object)).flatten()
    })
}

/// Opens a file if it is the object; `None` if it is another one.
fn open_at(path: &Path, object: &Object) -> Option<io::Result<File>> {
    // Looked at before it is opened, because opening a device may have effects.
    if !object.is(&fs::metadata(path).ok()?) {
        return None;
    }
    let mut options = File::options();
    options.read(true).write(true);
    options.custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY);
    let opened = options.open(path).and_then(|file| {
        let is_it = object.is(&file.metadata()?);
        Ok(is_it.then_some(file))
    });
    opened.transpose()
}

#[cfg(test)]
mod tests;

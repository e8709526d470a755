//! The search for a library that a process may have loaded. The search reads the names of the loaded libraries: dlopen with
//! RTLD_NOLOAD would search folders, which takes 100 us if the library is missing.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// A library that a process may load at any time.
pub(super) struct Library {
    /// The beginning of its file's name.
    name: &'static [u8],
    /// Number of libraries that the process had loaded since its start at the last search that did not find this one. While the
    /// number is unchanged, the library is still missing.
    without: AtomicU64,
}

/// One search.
struct Search<'a> {
    library: &'a Library,
    /// Number of libraries that the process has loaded since its start.
    loads: u64,
}

const ABSENT: c_int = 0;
const FOUND: c_int = 1;
const UNCHANGED: c_int = 2;

impl Library {
    pub(super) const fn named(name: &'static [u8]) -> Library {
        Library {
            name,
            without: AtomicU64::new(0),
        }
    }

    /// Whether the library is loaded now.
    pub(super) fn is_loaded(&self) -> bool {
        let mut search = Search {
            library: self,
            loads: 0,
        };
        // SAFETY: the function takes what the loader passes, and the search.
        let answer = unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        if answer == ABSENT {
            // Relaxed: no other data depends on the number, and an older number only makes the next search longer.
            self.without.store(search.loads, Ordering::Relaxed);
        }
        answer == FOUND
    }
}

unsafe extern "C" fn visit(found: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader passes a library and the search of `is_loaded`, which nobody else uses meanwhile.
    let (found, search) = unsafe { (&*found, &mut *search.cast::<Search<'_>>()) };
    search.loads = found.dlpi_adds;
    if search.loads == search.library.without.load(Ordering::Relaxed) {
        return UNCHANGED;
    }
    if found.dlpi_name.is_null() {
        return ABSENT;
    }
    // SAFETY: a name that is not NULL ends with a 0.
    let name = unsafe { CStr::from_ptr(found.dlpi_name) }.to_bytes();
    let file = name.rsplit(|byte| *byte == b'/').next();
    match file.is_some_and(|file| file.starts_with(search.library.name)) {
        true => FOUND,
        false => ABSENT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_once_it_is_loaded() {
        // Of the C library, and of no use to this program.
        let library = Library::named(b"libanl.so");
        assert!(!library.is_loaded());
        assert!(!library.is_loaded());
        // SAFETY: the name ends with a 0, and the library has no initialiser that could do harm.
        let handle = unsafe { libc::dlopen(c"libanl.so.1".as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        assert!(library.is_loaded());
        assert!(library.is_loaded());
    }
}

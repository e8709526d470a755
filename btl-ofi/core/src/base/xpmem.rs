//! XPMEM, a kernel module by which a process maps private memory of another one of the same user. Its library is loaded if this
//! machine has it; nothing of it is needed to build.
//!
//! A process offers its whole address space once ([`Offer`]). Peers attach parts of it ([`Attached`]). An attachment shows what
//! its owner has at these addresses. Where the owner has nothing, an access is a fault (SIGBUS), which `base::guard` reports.
//!
//! Functions and values are those of `xpmem.h`.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use libloading::os::unix::{Library as File, RTLD_LOCAL, RTLD_NOW};

use crate::base::sys;

/// The library by the name of its interface, as programs are linked to it.
const NAME: &str = "libxpmem.so.0";
/// All bytes of an address space (XPMEM_MAXADDR_SIZE).
const ALL: usize = usize::MAX;
/// The rights of an attachment (XPMEM_RDWR), and the kind of the permission (XPMEM_PERMIT_MODE), whose value is as for files.
const READ_AND_WRITE: c_int = 2;
const BY_MODE: c_int = 1;
const OWN_USER: usize = 0o600;

/// A place in what a permit is for (`struct xpmem_addr`).
#[repr(C)]
struct Part {
    permit: i64,
    offset: libc::off_t,
}

/// The functions of the library, which stays loaded.
struct Library {
    make: unsafe extern "C" fn(*mut c_void, usize, c_int, *mut c_void) -> i64,
    remove: unsafe extern "C" fn(i64) -> c_int,
    get: unsafe extern "C" fn(i64, c_int, c_int, *mut c_void) -> i64,
    release: unsafe extern "C" fn(i64) -> c_int,
    attach: unsafe extern "C" fn(Part, usize, *mut c_void) -> *mut c_void,
    detach: unsafe extern "C" fn(*mut c_void) -> c_int,
}

impl Library {
    /// The library of this machine, if it has one.
    fn get() -> Option<&'static Library> {
        static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
        LIBRARY.get_or_init(Library::load).as_ref()
    }

    fn load() -> Option<Library> {
        // SAFETY: the library's initialisation, if any, is made to be run by a program that loads it.
        let file = unsafe { File::open(Some(NAME), RTLD_NOW | RTLD_LOCAL) }.ok()?;
        // SAFETY: the types are those of `xpmem.h`.
        let library = unsafe {
            Library {
                make: symbol(&file, "xpmem_make")?,
                remove: symbol(&file, "xpmem_remove")?,
                get: symbol(&file, "xpmem_get")?,
                release: symbol(&file, "xpmem_release")?,
                attach: symbol(&file, "xpmem_attach")?,
                detach: symbol(&file, "xpmem_detach")?,
            }
        };
        std::mem::forget(file);
        Some(library)
    }
}

/// A function of a library. Logs a line if it is missing.
///
/// # Safety
/// `F` is the type of the function.
unsafe fn symbol<F: Copy>(file: &File, name: &str) -> Option<F> {
    // SAFETY: as the caller guarantees.
    match unsafe { file.get::<F>(name.as_bytes()) } {
        Ok(function) => Some(*function),
        Err(e) => {
            tracing::warn!("{NAME} is not used: {e}");
            None
        }
    }
}

/// This process's address space, attached by peers as long as the value lives.
pub(crate) struct Offer {
    library: &'static Library,
    segment: i64,
}

impl Offer {
    /// `None` if the machine has no XPMEM, or if it does not work, which is logged.
    pub(crate) fn make() -> Option<Offer> {
        let library = Library::get()?;
        let mode = ptr::without_provenance_mut(OWN_USER);
        // SAFETY: the call hands out nothing by itself: peers need the number, and the user's rights.
        let segment = unsafe { (library.make)(ptr::null_mut(), ALL, BY_MODE, mode) };
        if segment <= 0 {
            let e = io::Error::last_os_error();
            tracing::warn!("private memory is not offered to neighbours: xpmem_make: {e}");
            return None;
        }
        tracing::info!("private memory is offered to neighbours by XPMEM");
        Some(Offer { library, segment })
    }

    /// The number by which peers attach. Positive.
    pub(crate) fn number(&self) -> u64 {
        self.segment as u64
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        // SAFETY: the number is that of `make`.
        if unsafe { (self.library.remove)(self.segment) } != 0 {
            let e = io::Error::last_os_error();
            tracing::warn!("memory stays offered to neighbours: xpmem_remove: {e}");
        }
    }
}

/// Memory of a peer in this process's address space; dropping it detaches.
pub(crate) struct Attached {
    permit: Permit,
    start: NonNull<c_void>,
    /// Bytes from `start` to the memory.
    before: usize,
}

/// The right to attach; dropping it gives it back.
struct Permit {
    library: &'static Library,
    number: i64,
}

// SAFETY: an attachment belongs to the process and is tied to no thread.
unsafe impl Send for Attached {}

impl Attached {
    /// Attaches `length` bytes at `address` of the process that made the offer with this number. The memory need not be mapped
    /// there.
    pub(crate) fn new(offer: u64, address: u64, length: u64) -> io::Result<Attached> {
        let library =
            Library::get().ok_or_else(|| io::Error::other(format!("there is no {NAME}")))?;
        let none = ptr::null_mut();
        // SAFETY: plain numbers; the module checks them.
        let number = unsafe { (library.get)(offer as i64, READ_AND_WRITE, BY_MODE, none) };
        if number <= 0 {
            return Err(failed("xpmem_get"));
        }
        let permit = Permit { library, number };
        let page = sys::page_size()? as u64;
        let before = address % page;
        let size = (before + length).next_multiple_of(page) as usize;
        let part = Part {
            permit: number,
            offset: (address - before) as libc::off_t,
        };
        // SAFETY: the module chooses the place of the new mapping.
        let start = unsafe { (library.attach)(part, size, none) };
        match NonNull::new(start).filter(|start| start.addr().get() != usize::MAX) {
            Some(start) => Ok(Attached {
                permit,
                start,
                before: before as usize,
            }),
            None => Err(failed("xpmem_attach")),
        }
    }

    /// Where the memory is in this process.
    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr().expose_provenance() + self.before
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // SAFETY: `new` made the attachment, and its owner does not use the memory after the drop.
        if unsafe { (self.permit.library.detach)(self.start.as_ptr()) } != 0 {
            let e = io::Error::last_os_error();
            tracing::warn!("memory of a peer stays attached: xpmem_detach: {e}");
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // SAFETY: the number is that of `get`, and nothing is attached by it any more.
        if unsafe { (self.library.release)(self.number) } != 0 {
            let e = io::Error::last_os_error();
            tracing::warn!("a permit for memory of a peer is kept: xpmem_release: {e}");
        }
    }
}

/// The error of a call that failed just now on this thread.
fn failed(call: &str) -> io::Error {
    let e = io::Error::last_os_error();
    io::Error::new(e.kind(), format!("{call}: {e}"))
}

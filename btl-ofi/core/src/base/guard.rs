//! Accesses of this process to its own windows, for its peers and for itself, that survive a fault.
//!
//! A window may be registered for writing and mapped read-only. It may lie behind the end of a truncated file, or be
//! unmapped while it is registered. An ordinary instruction then ends the process because of a peer's mistake. Here
//! such an access is an error, [`Fault`], of one operation.
//!
//! There are two ways ([`Reach`]):
//! - **Guarded.** A few assembly routines (`words`) make all accesses. A handler of SIGSEGV and SIGBUS (`handler`)
//!   recognises a fault inside them and makes the routine return an error. An access costs one call more than the
//!   instruction.
//! - **Kernel.** Transfers are `process_vm_readv` and `process_vm_writev` of the process on itself. For atomics, and
//!   where those calls are forbidden, the kernel first checks the pages (`futex`), and then ordinary instructions
//!   access them; if another thread unmaps the memory in between, the process ends. This way is used when the user
//!   disables the handler (`btl_ofi_fault_guard`), on architectures without routines, and while a handler of another
//!   library stands before ours, since that handler may not pass signals on. The choice is made when a transport
//!   opens and at every registration.
//!
//! Limits of both ways:
//! - The kernel ends a thread that faults while it blocks SIGSEGV or SIGBUS. A thread that makes progress must not
//!   block them.
//! - A handler that another library installs between a registration and the fault receives the fault.
//! - Memory whose faults the program's own handler resolves (by mprotect, say) is refused. The kernel refuses it to
//!   peers too.
//! - A transfer or vector that faults in the middle leaves its first part done.

use plugin_api::Status;

use crate::base::cma::{self, Refused};
use crate::base::sys;

#[cfg_attr(target_arch = "x86_64", path = "guard/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "guard/aarch64.rs")]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod arch;
mod handler;
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    path = "guard/unguarded.rs"
)]
mod words;

pub(crate) use handler::Installed;
pub(crate) use words::Word;

/// The memory is not mapped with the rights that the access needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault;

impl From<Fault> for Status {
    /// The status of the kernel's EFAULT ([`Refused::status`]).
    #[cold]
    fn from(_: Fault) -> Status {
        Refused(libc::EFAULT).status()
    }
}

/// The way in which windows are accessed; see the module's documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    Guarded,
    #[default]
    Kernel,
}

/// The smallest page.
const PAGE: usize = 4096;
/// Ranges that overlap are copied in blocks of this size, in bytes.
const BLOCK: usize = 1024;

impl Reach {
    /// Copies `size` bytes from this process's own memory into a window. An aligned word of 4 or 8 bytes is written by one
    /// store, as a thread that polls it expects (not where the kernel copies).
    ///
    /// # Safety
    /// `from` is readable for `size` bytes. `window` names memory that may be written as far as it is mapped. The
    /// ranges do not overlap.
    #[inline]
    pub(crate) unsafe fn put(
        self,
        from: *const u8,
        window: *mut u8,
        size: usize,
    ) -> Result<(), Status> {
        if self == Reach::Kernel {
            // SAFETY: the caller guarantees that `from` is readable; the kernel checks the window.
            return unsafe { put_by_kernel(from, window, size) };
        }
        // SAFETY: the caller guarantees that `from` is readable; both addresses of a word are checked to be aligned.
        // The routines return a fault of the window. Other threads may access the bytes meanwhile: assembly and
        // volatile accesses allow such races.
        unsafe {
            match size {
                8 if (from as usize | window as usize).is_multiple_of(8) => {
                    u64::store(window.cast(), from.cast::<u64>().read_volatile())?;
                }
                4 if (from as usize | window as usize).is_multiple_of(4) => {
                    u32::store(window.cast(), from.cast::<u32>().read_volatile())?;
                }
                _ => words::copy(window, from, size)?,
            }
        }
        Ok(())
    }

    /// Copies `size` bytes of a window to this process's own memory. An aligned word of 4 or 8 bytes is read by one load (not
    /// where the kernel copies).
    ///
    /// # Safety
    /// `to` is writable for `size` bytes. `window` names memory that may be read as far as it is mapped. The ranges
    /// do not overlap.
    #[inline]
    pub(crate) unsafe fn get(
        self,
        window: *const u8,
        to: *mut u8,
        size: usize,
    ) -> Result<(), Status> {
        if self == Reach::Kernel {
            // SAFETY: the caller guarantees that `to` is writable; the kernel checks the window.
            return unsafe { get_by_kernel(window, to, size) };
        }
        // SAFETY: the caller guarantees that `to` is writable; both addresses of a word are checked to be aligned.
        // The routines return a fault of the window. Other threads may access the bytes meanwhile: assembly and
        // volatile accesses allow such races.
        unsafe {
            match size {
                8 if (to as usize | window as usize).is_multiple_of(8) => {
                    let word = u64::load(window.cast_mut().cast())?;
                    to.cast::<u64>().write_volatile(word);
                }
                4 if (to as usize | window as usize).is_multiple_of(4) => {
                    let word = u32::load(window.cast_mut().cast())?;
                    to.cast::<u32>().write_volatile(word);
                }
                _ => words::copy(to, window, size)?,
            }
        }
        Ok(())
    }

    /// Copies `size` bytes between two ranges that may overlap. Either range may be a window.
    ///
    /// # Safety
    /// `from` names memory that may be read, `to` memory that may be written, each as far as it is mapped.
    #[cold]
    pub(crate) unsafe fn copy(
        self,
        from: *const u8,
        to: *mut u8,
        size: usize,
    ) -> Result<(), Status> {
        let apart = (from as usize).abs_diff(to as usize) >= size;
        let aligned = |to_what| (from as usize | to as usize).is_multiple_of(to_what);
        if apart && self == Reach::Kernel {
            // SAFETY: the ranges do not overlap, and the kernel checks both.
            return unsafe { put_by_kernel(from, to, size) };
        }
        if apart {
            // SAFETY: the ranges do not overlap, words are checked to be aligned, and the routines return a fault of
            // either side.
            unsafe {
                match size {
                    8 if aligned(8) => u64::store(to.cast(), u64::load(from.cast_mut().cast())?)?,
                    4 if aligned(4) => u32::store(to.cast(), u32::load(from.cast_mut().cast())?)?,
                    _ => words::copy(to, from, size)?,
                }
            }
            return Ok(());
        }
        let upwards = (to as usize) < from as usize;
        let mut block = [0u8; BLOCK];
        let mut done = 0;
        while done < size {
            let n = BLOCK.min(size - done);
            let at = if upwards { done } else { size - done - n };
            // SAFETY: the buffer holds `n` bytes and overlaps neither range. No block is read after it is
            // overwritten.
            unsafe {
                self.get(from.wrapping_add(at), block.as_mut_ptr(), n)?;
                self.put(block.as_ptr(), to.wrapping_add(at), n)?;
            }
            done += n;
        }
        Ok(())
    }

    /// Checks that atomics on `size` bytes of a window find mapped memory, if this way needs the check.
    #[inline]
    pub(crate) fn expect(self, window: *mut u8, size: usize, writing: bool) -> Result<(), Fault> {
        match self {
            Reach::Guarded => Ok(()),
            Reach::Kernel => probe(window, size, writing),
        }
    }
}

/// Copies into a window through the kernel.
///
/// # Safety
/// `from` is readable for `size` bytes. `window` names memory that may be written as far as it is mapped. The ranges
/// do not overlap.
#[cold]
unsafe fn put_by_kernel(from: *const u8, window: *mut u8, size: usize) -> Result<(), Status> {
    // Not the process id, under which the kernel finds no memory once the main thread has ended. Asked for at each call: a
    // number that was kept would be the parent's after a fork, and name the parent's memory.
    let own = sys::thread();
    // SAFETY: the caller guarantees that `from` is readable and that the window may be written; `cma::write` only
    // reads `from`.
    match unsafe { cma::write(own, from.cast_mut().cast(), window as u64, size) } {
        Err(Refused(libc::EPERM | libc::ENOSYS)) => {
            probe(window, size, true)?;
            // `from` is a window too in a get of a process from itself.
            probe(from.cast_mut(), size, false)?;
            // SAFETY: `probe` found `from` readable and the window writable.
            Ok(unsafe { words::copy(window, from, size) }?)
        }
        done => done.map_err(Refused::status),
    }
}

/// Copies from a window through the kernel.
///
/// # Safety
/// `to` is writable for `size` bytes. `window` names memory that may be read as far as it is mapped. The ranges do
/// not overlap.
#[cold]
unsafe fn get_by_kernel(window: *const u8, to: *mut u8, size: usize) -> Result<(), Status> {
    // Not the process id, under which the kernel finds no memory once the main thread has ended. Asked for at each call: a
    // number that was kept would be the parent's after a fork, and name the parent's memory.
    let own = sys::thread();
    // SAFETY: the caller guarantees that `to` is writable for `size` bytes.
    match unsafe { cma::read(own, to.cast(), window as u64, size) } {
        Err(Refused(libc::EPERM | libc::ENOSYS)) => {
            probe(window.cast_mut(), size, false)?;
            // SAFETY: the caller guarantees that `to` is writable; `probe` found the window readable.
            Ok(unsafe { words::copy(to, window, size) }?)
        }
        done => done.map_err(Refused::status),
    }
}

/// Asks the kernel whether all pages of a range can be read, or written (`writing`), now. Changes no memory.
#[cold]
pub(crate) fn probe(at: *mut u8, size: usize, writing: bool) -> Result<(), Fault> {
    let (first, end) = (at as usize, (at as usize).saturating_add(size));
    let mut page = first;
    while page < end {
        // The aligned word around the address lies in the same page.
        let word = std::ptr::with_exposed_provenance_mut::<u32>(page & !3);
        let usable = if writing {
            sys::is_writable(word)
        } else {
            sys::is_readable(word)
        };
        if !usable {
            return Err(Fault);
        }
        page = (page & !(PAGE - 1)) + PAGE;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Access of this process to the memory of its own windows, on behalf of its peers and of itself.
//!
//! A window may be registered for writing and mapped read-only, lie behind the end of a file that was
//! truncated, or be unmapped while it is registered. An access by an ordinary instruction ends the process
//! then, for a mistake that its peer made. Here it is an error, [`Fault`], of one operation.
//!
//! Two ways do that ([`Reach`]):
//! - **Guarded.** All accesses are made by a few routines of assembly (`words`). A handler of SIGSEGV and
//!   SIGBUS (`handler`) recognises a fault inside them and has the routine return an error. An access costs a
//!   call more than the instruction alone.
//! - **Kernel.** Transfers are `process_vm_readv` and `process_vm_writev` of the process on itself. For
//!   atomics, and where those calls are forbidden, the kernel checks the pages (`futex`), then the processor's
//!   instructions follow; memory that another thread unmaps in between ends the process. This way is for
//!   those who opt out (`btl_ofi_fault_guard`),
//!   for architectures without routines, and for as long as a handler of others stands before ours: nobody
//!   knows whether it passes signals on. That is looked at when a transport opens and at every registration.
//!
//! What neither way does: a thread that has SIGSEGV or SIGBUS blocked is ended by the kernel at a fault, so a
//! thread that makes progress must not block them. A handler that another library installs between a
//! registration and the fault is called for the fault. Memory whose faults the program's own handler
//! resolves (by mprotect, say) is refused; the kernel refuses it to peers in the same way. A transfer or
//! vector that faults in the middle leaves what came before.

use plugin_api::Status;

use crate::base::cma::{self, Refused};

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

/// Memory that cannot be used so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault;

impl From<Fault> for Status {
    /// As the kernel's EFAULT ([`Refused::status`]).
    #[cold]
    fn from(_: Fault) -> Status {
        Refused(libc::EFAULT).status()
    }
}

/// How windows are accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    Guarded,
    #[default]
    Kernel,
}

/// The smallest page.
const PAGE: usize = 4096;
/// Bytes that overlap are copied by parts of this size.
const PART: usize = 1024;

impl Reach {
    /// Copies `size` bytes from this process's own memory into a window; an aligned word at once, as whoever
    /// waits for it expects.
    ///
    /// # Safety
    /// `from` is readable for `size` bytes, and `window` names memory that may be written as far as it is
    /// mapped. They do not overlap.
    #[inline]
    pub(crate) unsafe fn put(
        self,
        from: *const u8,
        window: *mut u8,
        size: usize,
    ) -> Result<(), Status> {
        if self == Reach::Kernel {
            // SAFETY: as the caller vouches; the kernel checks both.
            return unsafe { put_by_kernel(from, window, size) };
        }
        // SAFETY: as the caller vouches, for aligned words where that is asked for. Others may read and write
        // them meanwhile, which assembly allows for as the kernel's does.
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

    /// Copies `size` bytes of a window to this process's own memory, as [`put`](Self::put).
    ///
    /// # Safety
    /// `to` is writable for `size` bytes, and `window` names memory that may be read as far as it is mapped.
    /// They do not overlap.
    #[inline]
    pub(crate) unsafe fn get(
        self,
        window: *const u8,
        to: *mut u8,
        size: usize,
    ) -> Result<(), Status> {
        if self == Reach::Kernel {
            // SAFETY: as the caller vouches; the kernel checks both.
            return unsafe { get_by_kernel(window, to, size) };
        }
        // SAFETY: as in `put`.
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

    /// Copies `size` bytes of which either side is a window, and which may overlap.
    ///
    /// # Safety
    /// `from` and `to` name memory that may be read and written as far as it is mapped.
    #[cold]
    pub(crate) unsafe fn copy(
        self,
        from: *const u8,
        to: *mut u8,
        size: usize,
    ) -> Result<(), Status> {
        let apart = (from as usize).abs_diff(to as usize) >= size;
        if apart {
            // SAFETY: as the caller vouches; they do not overlap.
            return unsafe { self.put(from, to, size) };
        }
        let upwards = (to as usize) < from as usize;
        let mut part = [0u8; PART];
        let mut done = 0;
        while done < size {
            let n = PART.min(size - done);
            let at = if upwards { done } else { size - done - n };
            // SAFETY: the part holds as much; what it holds is not read here again once it is overwritten.
            unsafe {
                self.get(from.wrapping_add(at), part.as_mut_ptr(), n)?;
                self.put(part.as_ptr(), to.wrapping_add(at), n)?;
            }
            done += n;
        }
        Ok(())
    }

    /// Makes sure, as far as this way needs it, that atomics on `size` bytes of a window find memory there.
    #[inline]
    pub(crate) fn expect(self, window: *mut u8, size: usize, writing: bool) -> Result<(), Fault> {
        match self {
            Reach::Guarded => Ok(()),
            Reach::Kernel => probe(window, size, writing),
        }
    }
}

/// # Safety
/// As for [`Reach::put`].
#[cold]
unsafe fn put_by_kernel(from: *const u8, window: *mut u8, size: usize) -> Result<(), Status> {
    let pid = std::process::id();
    // SAFETY: as the caller vouches; the bytes at `from` are only read.
    match unsafe { cma::write(pid, from.cast_mut().cast(), window as u64, size) } {
        Err(Refused(libc::EPERM | libc::ENOSYS)) => {
            probe(window, size, true)?;
            // SAFETY: as the caller vouches; the window can be written.
            Ok(unsafe { words::copy(window, from, size) }?)
        }
        done => done.map_err(Refused::status),
    }
}

/// # Safety
/// As for [`Reach::get`].
#[cold]
unsafe fn get_by_kernel(window: *const u8, to: *mut u8, size: usize) -> Result<(), Status> {
    let pid = std::process::id();
    // SAFETY: as the caller vouches.
    match unsafe { cma::read(pid, to.cast(), window as u64, size) } {
        Err(Refused(libc::EPERM | libc::ENOSYS)) => {
            probe(window.cast_mut(), size, false)?;
            // SAFETY: as the caller vouches; the window can be read.
            Ok(unsafe { words::copy(to, window, size) }?)
        }
        done => done.map_err(Refused::status),
    }
}

/// Asks the kernel whether all pages of a range can be used so now. Changes nothing.
#[cold]
pub(crate) fn probe(at: *mut u8, size: usize, writing: bool) -> Result<(), Fault> {
    let (first, end) = (at as usize, (at as usize).saturating_add(size));
    let mut page = first;
    while page < end {
        // The word around it lies in the same page.
        let word = std::ptr::with_exposed_provenance_mut::<u32>(page & !3);
        let usable = if writing {
            is_writable(word)
        } else {
            is_readable(word)
        };
        if !usable {
            return Err(Fault);
        }
        page = (page & !(PAGE - 1)) + PAGE;
    }
    Ok(())
}

/// Has the kernel compare an aligned word, and wait no time if it is what nobody expects.
fn is_readable(word: *mut u32) -> bool {
    const UNLIKELY: u32 = 0x9e37_79b9;
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time is live through the call; the kernel checks the word.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            UNLIKELY,
            &raw const at_once,
        )
    };
    rc == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}

/// Has the kernel OR 0 to an aligned word, atomically: of what it does on request, this alone writes to
/// memory, changes nothing that others see there, and tells of a fault.
fn is_writable(word: *mut u32) -> bool {
    // FUTEX_OP_OR of 0, and a comparison for equality that seldom holds (linux/futex.h).
    const OR_NOTHING: u32 = 2 << 28 | 0x7ff;
    let nobody = 0u32;
    // SAFETY: the first word is ours and nobody waits at it; the kernel checks the second. Whoever waits
    // there may be woken for nothing, as the interface allows at any time.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_futex,
            &raw const nobody,
            libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG,
            0,
            0usize,
            word,
            OR_NOTHING,
        )
    };
    rc >= 0
}

#[cfg(test)]
mod tests;

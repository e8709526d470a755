//! Cross-memory attach (CMA): copies to and from the memory of another process of this node.
//!
//! The kernel copies between the two address spaces before the call returns. A transfer is therefore complete, and
//! visible at the target, when the call returns; the target takes no part. The kernel checks the pages of both sides:
//! a page that cannot be used is an error of the call, not a signal. The result distinguishes errors of the caller's
//! own buffer from errors of the target's memory.

use std::ffi::c_void;

use plugin_api::Status;

use crate::base::error::{CallError, status_of};
use crate::base::{sys, usable};

/// The reason of a failed copy: an `errno` (positive), or the status with which the target refused
/// (negative).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) i32);

impl Refused {
    /// The target refused the copy with `status`.
    pub(crate) fn by_target(status: Status) -> Refused {
        Refused(status.0)
    }

    /// Whether every later copy to this process would also fail, because the kernel forbids access or finds no
    /// memory under the process id. A status of the target is negative, so it is never lasting.
    pub(crate) fn is_lasting(self) -> bool {
        matches!(
            self.0,
            libc::EPERM | libc::EACCES | libc::ENOSYS | libc::ESRCH
        )
    }

    /// The status of the operation that needed the copy.
    pub(crate) fn status(self) -> Status {
        match self.0 {
            status if status < 0 => Status(status),
            libc::ESRCH => Status::UNREACH,
            // The target does not map the region's memory with the rights that the copy needs.
            libc::EFAULT => Status::PERM,
            errno => status_of(errno),
        }
    }
}

/// The caller's own buffer cannot be used. The error is the same as for a range that the kernel rejects at
/// once.
const OWN_BUFFER: i32 = libc::EINVAL;

/// Copies `size` bytes at `local` to `remote` in process `pid`.
///
/// # Safety
/// `local` is readable for `size` bytes. Process `pid` permits writes to its `size` bytes at `remote`.
#[inline]
pub(crate) unsafe fn write(
    pid: u32,
    local: *mut c_void,
    remote: u64,
    size: usize,
) -> Result<(), Refused> {
    // SAFETY: the caller guarantees that `local` is readable and that the process permits the write.
    unsafe { copy::<false>(pid, local, remote, size) }
}

/// Copies `size` bytes at `remote` in process `pid` to `local`.
///
/// # Safety
/// `local` is writable for `size` bytes.
#[inline]
pub(crate) unsafe fn read(
    pid: u32,
    local: *mut c_void,
    remote: u64,
    size: usize,
) -> Result<(), Refused> {
    // SAFETY: the caller guarantees that `local` is writable for `size` bytes.
    unsafe { copy::<true>(pid, local, remote, size) }
}

/// Copies `size` bytes in one or more calls: to `local` if `WRITES`, else from it.
///
/// # Safety
/// `local` is readable for `size` bytes, and writable too if `WRITES`. Without `WRITES`, process `pid` permits
/// writes to its `size` bytes at `remote`.
#[inline]
unsafe fn copy<const WRITES: bool>(
    pid: u32,
    local: *mut c_void,
    remote: u64,
    size: usize,
) -> Result<(), Refused> {
    let mut done = 0;
    while done < size {
        let at = local.wrapping_byte_add(done);
        let (there, left) = (remote.wrapping_add(done as u64), size - done);
        // SAFETY: the caller guarantees the bytes at `local`, and that the process permits a write.
        let copied = unsafe {
            if WRITES {
                sys::process_vm_readv(pid, at, there, left)
            } else {
                sys::process_vm_writev(pid, at, there, left)
            }
        };
        match copied {
            Ok(bytes) => done += bytes.get(),
            Err(error) => return Err(refusal(error, at, WRITES)),
        }
    }
    Ok(())
}

/// The refusal for a call that failed when the next byte to copy was at `local`.
#[cold]
fn refusal(error: CallError, local: *mut c_void, writes: bool) -> Refused {
    // The kernel copies as far as both sides are usable. A fault in our buffer is therefore at this byte.
    if error.code == libc::EFAULT && !usable::is_usable(local as u64, writes) {
        return Refused(OWN_BUFFER);
    }
    Refused(error.code)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::base::sys::script::Script;

    #[test]
    fn there_and_back_in_this_process() {
        let pid = std::process::id();
        let mut from = [1u8, 2, 3, 4, 5];
        let mut to = [0u8; 5];
        let there = to.as_mut_ptr();
        let target = there as u64;
        // SAFETY: both buffers are arrays of five bytes.
        unsafe { write(pid, from.as_mut_ptr().cast(), target, 5) }.unwrap();
        assert_eq!(to, from);
        // SAFETY: `there` is the first byte of `to`, and `from` is an array of five bytes.
        unsafe {
            there.write(9);
            read(pid, from.as_mut_ptr().cast(), target, 5).unwrap();
        }
        assert_eq!(from[0], 9);
    }

    #[test]
    fn unmapped_memory_and_absent_processes_are_errors() {
        let mut byte = 0u8;
        let local = (&raw mut byte).cast();
        // SAFETY: the local side is a byte of this test.
        let (unmapped, absent) = unsafe {
            (
                write(std::process::id(), local, 8, 1),
                read(u32::MAX >> 1, local, 8, 1),
            )
        };
        assert_eq!(unmapped, Err(Refused(libc::EFAULT)));
        assert_eq!(absent, Err(Refused(libc::ESRCH)));
        let pid = std::process::id();
        let nowhere = std::ptr::without_provenance_mut(8);
        // SAFETY: the kernel reports EFAULT for the local address; the remote side is a byte of this test.
        let (from_nowhere, to_nowhere) = unsafe {
            (
                write(pid, nowhere, local as u64, 1),
                read(pid, nowhere, local as u64, 1),
            )
        };
        assert_eq!(from_nowhere, Err(Refused(OWN_BUFFER)));
        assert_eq!(to_nowhere.unwrap_err().status(), Status::BAD_PARAM);
    }

    #[test]
    fn the_rest_of_a_partial_copy_follows() {
        let pid = std::process::id();
        let mut from = [1u8, 2, 3, 4, 5];
        let mut to = [0u8; 5];
        let target = to.as_mut_ptr() as u64;
        let some = NonZeroUsize::new(3).unwrap();
        let script = Script::new().answers("process_vm_writev", some);
        // SAFETY: both buffers are arrays of five bytes.
        unsafe { write(pid, from.as_mut_ptr().cast(), target, 5) }.unwrap();
        drop(script);
        // The script copied nothing, so the first three bytes show where the second call began.
        assert_eq!(to, [0, 0, 0, 4, 5]);
        let script = Script::new().answers("process_vm_readv", some);
        // SAFETY: both buffers are arrays of five bytes.
        unsafe { read(pid, from.as_mut_ptr().cast(), target, 5) }.unwrap();
        drop(script);
        assert_eq!(from, [1, 2, 3, 4, 5]);
        let script = Script::new()
            .answers("process_vm_writev", some)
            .fails("process_vm_writev", libc::EFAULT);
        // SAFETY: both buffers are arrays of five bytes.
        let stopped = unsafe { write(pid, from.as_mut_ptr().cast(), target, 5) };
        drop(script);
        assert_eq!(stopped, Err(Refused(libc::EFAULT)), "the target's page");
        assert_eq!(stopped.unwrap_err().status(), Status::PERM);
    }

    #[test]
    fn a_forbidden_copy_stays_forbidden() {
        let mut byte = 0u8;
        let local = (&raw mut byte).cast();
        for (errno, lasting, status) in [
            (libc::EPERM, true, Status::PERM),
            (libc::EACCES, true, Status::PERM),
            (libc::ENOSYS, true, Status::NOT_SUPPORTED),
            (libc::ESRCH, true, Status::UNREACH),
            (libc::ENOMEM, false, Status::OUT_OF_RESOURCE),
        ] {
            let _script = Script::new()
                .fails("process_vm_writev", errno)
                .fails("process_vm_readv", errno);
            // SAFETY: the local side is a byte of this test, and the script copies nothing.
            let (written, got) = unsafe { (write(1, local, 8, 1), read(1, local, 8, 1)) };
            assert_eq!((written, got), (Err(Refused(errno)), Err(Refused(errno))));
            let refused = Refused(errno);
            assert_eq!((refused.is_lasting(), refused.status()), (lasting, status));
        }
    }
}

//! Reaching the memory of a process on this node from outside: cross-memory attach.
//!
//! The kernel copies between the two address spaces and returns when it is done, so a transfer is
//! complete, and visible at the target, when the call returns; the target takes no part. A copy that
//! cannot be made is an error of the call: the target's pages are checked, not followed. So are those of
//! the caller's buffer, whose fault is told apart.

use std::ffi::c_void;

use libc::{iovec, pid_t};
use plugin_api::Status;

use crate::base::error::status_of;
use crate::base::guard;

/// Why a copy was not made: an `errno`, or a negative status with which the target refused its part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) i32);

impl Refused {
    /// The target's refusal, with an error.
    pub(crate) fn by_target(status: Status) -> Refused {
        Refused(status.0)
    }

    /// Whether the kernel does not let this process reach that one, or no longer finds its memory by its
    /// number: every copy would be refused likewise. A refusal by the target is negative, and none of these.
    pub(crate) fn is_lasting(self) -> bool {
        matches!(
            self.0,
            libc::EPERM | libc::EACCES | libc::ENOSYS | libc::ESRCH
        )
    }

    /// What it means to the caller of an operation.
    pub(crate) fn status(self) -> Status {
        match self.0 {
            status if status < 0 => Status(status),
            libc::ESRCH => Status::UNREACH,
            // The region's memory is not mapped so there.
            libc::EFAULT => Status::PERM,
            errno => status_of(errno),
        }
    }
}

/// The caller's own buffer cannot be used: as for a range that the call refuses at once.
const OURS: i32 = libc::EINVAL;

type Call = unsafe extern "C" fn(
    pid_t,
    *const iovec,
    libc::c_ulong,
    *const iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;

/// Copies `size` bytes at `local` to `remote` in process `pid`.
///
/// # Safety
/// `local` is readable for `size` bytes, and the process at `pid` lets its bytes at `remote` be
/// written.
#[inline]
pub(crate) unsafe fn write(
    pid: u32,
    local: *mut c_void,
    remote: u64,
    size: usize,
) -> Result<(), Refused> {
    // SAFETY: as the caller vouches.
    unsafe { copy(libc::process_vm_writev, false, pid, local, remote, size) }
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
    // SAFETY: as the caller vouches.
    unsafe { copy(libc::process_vm_readv, true, pid, local, remote, size) }
}

/// # Safety
/// As for [`write`] or [`read`], after `call`, which writes to `local` or not.
#[inline]
unsafe fn copy(
    call: Call,
    writes: bool,
    pid: u32,
    local: *mut c_void,
    remote: u64,
    size: usize,
) -> Result<(), Refused> {
    let mut done = 0;
    while done < size {
        // The kernel moves at most 2 GiB at a time, and says how much it moved.
        let ours = iovec {
            iov_base: local.wrapping_byte_add(done),
            iov_len: size - done,
        };
        let theirs = iovec {
            iov_base: std::ptr::without_provenance_mut((remote as usize).wrapping_add(done)),
            iov_len: size - done,
        };
        // SAFETY: one vector each, live through the call; the caller vouches for the local bytes, and
        // the kernel checks the remote ones.
        let n = unsafe { call(pid as pid_t, &ours, 1, &theirs, 1, 0) };
        if n <= 0 {
            return Err(refusal(n, ours.iov_base, writes));
        }
        done += n as usize;
    }
    Ok(())
}

/// Why a copy ended that answered `n`, at `local`.
#[cold]
fn refusal(n: isize, local: *mut c_void, writes: bool) -> Refused {
    let errno = std::io::Error::last_os_error().raw_os_error();
    let errno = match n {
        0 => libc::EFAULT,
        _ => errno.unwrap_or(libc::EIO),
    };
    // It came as far as both sides can be used, so if it is ours, it is this byte.
    if errno == libc::EFAULT && guard::probe(local.cast(), 1, writes).is_err() {
        return Refused(OURS);
    }
    Refused(errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_in_this_process() {
        let pid = std::process::id();
        let mut from = [1u8, 2, 3, 4, 5];
        let mut to = [0u8; 5];
        let there = to.as_mut_ptr();
        let target = there as u64;
        // SAFETY: both are arrays of five bytes.
        unsafe { write(pid, from.as_mut_ptr().cast(), target, 5) }.unwrap();
        assert_eq!(to, from);
        // SAFETY: as above; `there` is the first byte of `to`.
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
        // SAFETY: the local side is a byte of ours.
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
        // SAFETY: the kernel tells that the local side is not there; the other is a byte of ours.
        let (from_nowhere, to_nowhere) = unsafe {
            (
                write(pid, nowhere, local as u64, 1),
                read(pid, nowhere, local as u64, 1),
            )
        };
        assert_eq!(from_nowhere, Err(Refused(OURS)));
        assert_eq!(to_nowhere.unwrap_err().status(), Status::BAD_PARAM);
    }
}

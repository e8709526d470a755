//! Calls on memory: mappings, copies between processes, and checks of pages.

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};

use libc::{iovec, pid_t};

use super::{checked, failed};
use crate::base::error::CallError;

/// Maps `size` bytes of a file at `offset` for reading and writing, shared with other processes.
pub(crate) fn map_shared(
    file: impl AsFd,
    offset: u64,
    size: usize,
) -> Result<NonNull<c_void>, CallError> {
    map(size, libc::MAP_SHARED, file.as_fd().as_raw_fd(), offset)
}

/// Maps `size` bytes of zeros for this process alone.
pub(crate) fn map_zeros(size: usize) -> Result<NonNull<c_void>, CallError> {
    map(size, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
}

fn map(size: usize, flags: i32, file: i32, offset: u64) -> Result<NonNull<c_void>, CallError> {
    scripted!("mmap");
    let (rights, offset) = (libc::PROT_READ | libc::PROT_WRITE, offset as libc::off_t);
    // SAFETY: the kernel chooses the address of the new mapping, so no existing mapping is replaced.
    let at = unsafe { libc::mmap(ptr::null_mut(), size, rights, flags, file, offset) };
    if at == libc::MAP_FAILED {
        return Err(failed("mmap"));
    }
    // Linux never places a mapping at 0 unless it is asked to.
    NonNull::new(at).ok_or(CallError {
        call: "mmap",
        code: libc::ENOMEM,
    })
}

/// Removes a mapping.
///
/// # Safety
/// The `size` bytes at `at` are a mapping of the caller, and nothing uses the mapping afterwards.
pub(crate) unsafe fn unmap(at: NonNull<c_void>, size: usize) -> Result<(), CallError> {
    scripted!("munmap");
    // SAFETY: the caller guarantees that it owns the mapping and that nothing uses it afterwards.
    checked("munmap", unsafe { libc::munmap(at.as_ptr(), size) }).map(drop)
}

/// Replaces a mapping by private zeros. The call takes no descriptor and no lock.
///
/// # Safety
/// The `size` bytes at `at` are a mapping of the caller, and the caller accepts any bytes there.
pub(crate) unsafe fn replace_by_zeros(at: NonNull<c_void>, size: usize) -> Result<(), CallError> {
    scripted!("mmap");
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the caller guarantees that it owns the mapping, and that its bytes may change.
    let got = unsafe { libc::mmap(at.as_ptr(), size, rights, flags, -1, 0) };
    if got == libc::MAP_FAILED {
        return Err(failed("mmap"));
    }
    Ok(())
}

/// Copies up to `size` bytes at `local` to `remote` in process `pid`. Returns the number of copied bytes: the kernel
/// stops before an unusable page of either side, and after 2 GiB. Returns an error only if no byte was copied.
///
/// # Safety
/// Process `pid` permits writes to its `size` bytes at `remote`. The kernel checks the bytes at `local`.
#[inline(always)]
pub(crate) unsafe fn process_vm_writev(
    pid: u32,
    local: *mut c_void,
    remote: u64,
    size: usize,
) -> Result<NonZeroUsize, CallError> {
    scripted!("process_vm_writev");
    let (local, remote) = vectors(local, remote, size);
    // SAFETY: both vectors live through the call and have one element. The caller guarantees that the process permits
    // the write; the kernel checks the bytes of both sides.
    let n = unsafe { libc::process_vm_writev(pid as pid_t, &local, 1, &remote, 1, 0) };
    copied("process_vm_writev", n)
}

/// Copies up to `size` bytes at `remote` in process `pid` to `local`. Returns the number of copied bytes: the kernel
/// stops before an unusable page of either side, and after 2 GiB. Returns an error only if no byte was copied.
///
/// # Safety
/// The `size` bytes at `local` may be written, as far as they are mapped.
#[inline(always)]
pub(crate) unsafe fn process_vm_readv(
    pid: u32,
    local: *mut c_void,
    remote: u64,
    size: usize,
) -> Result<NonZeroUsize, CallError> {
    scripted!("process_vm_readv");
    let (local, remote) = vectors(local, remote, size);
    // SAFETY: both vectors live through the call and have one element. The caller guarantees that `local` may be
    // written; the kernel checks the bytes of both sides.
    let n = unsafe { libc::process_vm_readv(pid as pid_t, &local, 1, &remote, 1, 0) };
    copied("process_vm_readv", n)
}

#[inline(always)]
fn vectors(local: *mut c_void, remote: u64, size: usize) -> (iovec, iovec) {
    let run = |iov_base| iovec {
        iov_base,
        iov_len: size,
    };
    let remote = ptr::without_provenance_mut(remote as usize);
    (run(local), run(remote))
}

#[inline(always)]
fn copied(call: &'static str, n: isize) -> Result<NonZeroUsize, CallError> {
    // A positive number is not 0 and has the same value as usize, so that one comparison remains.
    match NonZeroUsize::new(n as usize) {
        Some(bytes) if n > 0 => Ok(bytes),
        _ => Err(nothing_copied(call, n)),
    }
}

/// The error of a copy that returned `n`. Without an error, zero bytes mean that no page could be used.
#[cold]
#[inline(never)]
pub(super) fn nothing_copied(call: &'static str, n: isize) -> CallError {
    match n {
        0 => CallError {
            call,
            code: libc::EFAULT,
        },
        _ => failed(call),
    }
}

/// Makes the kernel compare an aligned word (FUTEX_WAIT) with an unlikely value. The timeout is 0, so the call does
/// not wait if they are equal. Returns false if the word's page cannot be read.
pub(crate) fn is_readable(word: *mut u32) -> bool {
    const UNLIKELY: u32 = 0x9e37_79b9;
    let once = || {
        scripted!("futex");
        let at_once = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let request = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the time lives through the call; the kernel checks the address of the word.
        let rc =
            unsafe { libc::syscall(libc::SYS_futex, word, request, UNLIKELY, &raw const at_once) };
        if rc == 0 {
            Ok(())
        } else {
            Err(failed("futex"))
        }
    };
    // EAGAIN means that the word has another value.
    !once().is_err_and(|e| e.code == libc::EFAULT)
}

/// Makes the kernel OR 0 into an aligned word, atomically (FUTEX_WAKE_OP). Of all requests to the kernel, only this
/// one writes to memory, changes no visible value, and reports a fault. Returns false if the word's page cannot be
/// written.
pub(crate) fn is_writable(word: *mut u32) -> bool {
    // FUTEX_OP_OR with 0, and FUTEX_OP_CMP_EQ with a value that seldom matches (linux/futex.h).
    const OR_NOTHING: u32 = 2 << 28 | 0x7ff;
    let once = || {
        scripted!("futex");
        let local = 0u32;
        let request = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the first word is a local variable on which no thread waits; the kernel checks the second word. A
        // thread that waits on the second word may wake without cause, which the futex interface allows at any time.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_futex,
                &raw const local,
                request,
                0,
                0usize,
                word,
                OR_NOTHING,
            )
        };
        if rc >= 0 {
            Ok(())
        } else {
            Err(failed("futex"))
        }
    };
    // If the kernel lacks this request (ENOSYS), the word counts as writable.
    !once().is_err_and(|e| e.code == libc::EFAULT)
}

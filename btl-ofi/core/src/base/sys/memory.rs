//! Calls on memory: mappings, copies between processes, and checks of pages.

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};

use libc::{iovec, pid_t};

use super::{checked, device_number, failed};
use crate::base::error::CallError;

/// Maps `size` bytes of a file at `offset`, to be read and written and shared with other processes.
pub(crate) fn map_shared(
    file: impl AsFd,
    offset: u64,
    size: usize,
) -> Result<NonNull<c_void>, CallError> {
    scripted!("mmap");
    let (rights, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    let (file, offset) = (file.as_fd().as_raw_fd(), offset as libc::off_t);
    // SAFETY: the kernel chooses the address of the new mapping, so no existing mapping is replaced.
    let at = unsafe { libc::mmap(ptr::null_mut(), size, rights, shared, file, offset) };
    if at == libc::MAP_FAILED {
        return Err(failed("mmap"));
    }
    // Linux never places a mapping at 0 unless it is asked to.
    NonNull::new(at).ok_or(CallError {
        call: "mmap",
        code: libc::ENOMEM,
    })
}

/// Makes a second mapping of `size` bytes from `at` on, which must lie in a shared mapping: mremap of 0 bytes.
pub(crate) fn map_again(at: u64, size: usize) -> Result<NonNull<c_void>, CallError> {
    scripted!("mremap");
    let at = ptr::without_provenance_mut(at as usize);
    // SAFETY: of 0 bytes nothing moves, and the kernel chooses the address of the new mapping. It refuses private memory.
    let again = unsafe { libc::mremap(at, 0, size, libc::MREMAP_MAYMOVE) };
    if again == libc::MAP_FAILED {
        return Err(failed("mremap"));
    }
    NonNull::new(again).ok_or(CallError {
        call: "mremap",
        code: libc::ENOMEM,
    })
}

/// Removes a mapping.
///
/// # Safety
/// The `size` bytes at `at` are a mapping of the caller, which is not used again.
pub(crate) unsafe fn unmap(at: NonNull<c_void>, size: usize) -> Result<(), CallError> {
    scripted!("munmap");
    // SAFETY: the caller guarantees that the mapping is its own and not used again.
    checked("munmap", unsafe { libc::munmap(at.as_ptr(), size) }).map(drop)
}

/// The argument of the request PROCMAP_QUERY (linux/fs.h).
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// A mapping, as the kernel answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MappingAt {
    /// The first address, and the one after the last.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) is_shared: bool,
    /// It may be read and written.
    pub(crate) is_writable: bool,
    /// The place in the file, its device and its inode; 0 without a file.
    pub(crate) offset: u64,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Bytes of the name, which stand at the beginning of the caller's buffer.
    pub(crate) name: usize,
}

/// The mapping that holds an address, and its name if `name` has room for any byte. `maps` is `/proc/PID/maps`. Fails where
/// nothing is mapped (ENOENT), if the name and a 0 are longer than the buffer or than PATH_MAX (ENAMETOOLONG), once the
/// process has ended (ESRCH), and before Linux 6.11 (ENOTTY).
pub(crate) fn mapping_at(
    maps: impl AsFd,
    address: u64,
    name: &mut [u8],
) -> Result<MappingAt, CallError> {
    scripted!("ioctl");
    const SIZE: usize = size_of::<ProcmapQuery>();
    const _: () = assert!(SIZE == 104);
    // _IOWR('f', 17, struct procmap_query)
    const REQUEST: u64 = 3 << 30 | (SIZE as u64) << 16 | (b'f' as u64) << 8 | 17;
    const READABLE: u64 = 1;
    const WRITABLE: u64 = 2;
    const SHARED: u64 = 8;
    let mut query = ProcmapQuery {
        size: SIZE as u64,
        query_addr: address,
        ..ProcmapQuery::default()
    };
    // The kernel refuses an address without a size.
    if !name.is_empty() {
        query.vma_name_size = u32::try_from(name.len()).unwrap_or(u32::MAX);
        query.vma_name_addr = name.as_mut_ptr().expose_provenance() as u64;
    }
    let maps = maps.as_fd().as_raw_fd();
    // SAFETY: the request reads and writes `query`, whose size it is told, and writes at most `vma_name_size` bytes to
    // `name`, which has as many and is borrowed. It asks for no build id, so that address is not used.
    let rc = unsafe { libc::ioctl(maps, REQUEST as _, &raw mut query) };
    checked("ioctl", rc)?;
    let has = |flags| query.vma_flags & flags == flags;
    Ok(MappingAt {
        from: query.vma_start,
        to: query.vma_end,
        is_shared: has(SHARED),
        is_writable: has(READABLE | WRITABLE),
        offset: query.vma_offset,
        device: device_number(query.dev_major, query.dev_minor),
        inode: query.inode,
        // The kernel counts the 0 behind the name, and nothing if there is no name.
        name: (query.vma_name_size as usize).saturating_sub(1),
    })
}

/// Copies up to `size` bytes at `local` to `remote` in process `pid`. Returns how many were copied: the kernel stops
/// before a page that cannot be used, on either side, and after 2 GiB. An error: none were.
///
/// # Safety
/// Process `pid` permits writes to its `size` bytes at `remote`. The kernel checks `local`.
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

/// Copies up to `size` bytes at `remote` in process `pid` to `local`. Returns how many were copied: the kernel stops
/// before a page that cannot be used, on either side, and after 2 GiB. An error: none were.
///
/// # Safety
/// `local` may be written for `size` bytes, as far as it is mapped.
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
    // A positive number is not 0 and has the same value as usize: one comparison remains.
    match NonZeroUsize::new(n as usize) {
        Some(bytes) if n > 0 => Ok(bytes),
        _ => Err(nothing_copied(call, n)),
    }
}

/// The error of a copy that returned `n`. Nothing copied and no error means that no page could be used.
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
/// not wait if they are equal. False if the word's page cannot be read.
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
    // EAGAIN says that the word has another value.
    !once().is_err_and(|e| e.code == libc::EFAULT)
}

/// Makes the kernel OR 0 into an aligned word, atomically (FUTEX_WAKE_OP). This is the only request to the kernel
/// that writes to memory, changes nothing that others see, and reports a fault. False if the word's page cannot be
/// written.
pub(crate) fn is_writable(word: *mut u32) -> bool {
    // FUTEX_OP_OR with 0, and FUTEX_OP_CMP_EQ with a value that seldom matches (linux/futex.h).
    const OR_NOTHING: u32 = 2 << 28 | 0x7ff;
    let once = || {
        scripted!("futex");
        let local = 0u32;
        let request = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the first word is a local variable on which no thread waits; the kernel checks the second. A thread
        // that waits on the second word may wake without cause, which the futex interface allows at any time.
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
    once().is_ok()
}

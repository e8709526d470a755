//! A simulated device: memory of this process under addresses that only the copy functions here
//! understand.

use std::ffi::c_void;
use std::ptr;

use btl_ofi::{Region, Transport};
use plugin_api::{Access, IoVec, OverrideOps, hmem_iface};

/// The offset that is added to an address of this process; a processor cannot access the sum.
const SHIFT: u64 = 1 << 60;

/// The device address of this memory.
pub(crate) fn address(host: *mut c_void) -> *mut c_void {
    ptr::without_provenance_mut(host.expose_provenance() + SHIFT as usize)
}

/// The functions that reach the device.
pub(crate) fn copies() -> OverrideOps {
    OverrideOps::new(Some(copy_from), Some(copy_to))
}

/// Registers this memory as the device's. The caller keeps it until the region is closed.
pub(crate) fn register(t: &Transport, memory: &mut [u64], access: Access) -> Region {
    let base = address(memory.as_mut_ptr().cast());
    // SAFETY: the caller keeps the memory.
    unsafe { t.register_hmem(base, size_of_val(memory), access, hmem_iface::CUDA, 0) }.unwrap()
}

/// Passes each contiguous part of a transfer to `copy`: its address in this process, and its bytes.
///
/// # Safety
/// The vectors have `count` elements.
unsafe fn pieces(
    iov: *const IoVec,
    iface: *const u32,
    count: usize,
    mut offset: usize,
    mut size: usize,
    mut copy: impl FnMut(*mut u8, usize),
) -> isize {
    let mut done = 0;
    for i in 0..count {
        // SAFETY: the caller guarantees the length of the vectors.
        let (run, kind) = unsafe { (*iov.add(i), *iface.add(i)) };
        if offset >= run.len {
            offset -= run.len;
            continue;
        }
        let length = (run.len - offset).min(size);
        let at = run.base.addr() + offset;
        let host = match kind {
            hmem_iface::SYSTEM => at,
            hmem_iface::CUDA if at as u64 >= SHIFT => at - SHIFT as usize,
            _ => return -38,
        };
        copy(ptr::with_exposed_provenance_mut(host), length);
        (offset, size, done) = (0, size - length, done + length);
    }
    done as isize
}

/// Copies the device's memory to `dest`, as `CopyFromFn` requires.
pub(crate) unsafe extern "C" fn copy_from(
    dest: *mut c_void,
    size: usize,
    iov: *const IoVec,
    iface: *const u32,
    count: usize,
    offset: u64,
) -> isize {
    let mut to = dest.cast::<u8>();
    // SAFETY: the caller passes valid vectors, memory of the device, and room for `size` bytes.
    unsafe {
        pieces(iov, iface, count, offset as usize, size, |from, length| {
            ptr::copy_nonoverlapping(from, to, length);
            to = to.add(length);
        })
    }
}

/// Copies `src` to the device's memory, as `CopyToFn` requires.
pub(crate) unsafe extern "C" fn copy_to(
    iov: *const IoVec,
    iface: *const u32,
    count: usize,
    offset: u64,
    src: *const c_void,
    size: usize,
) -> isize {
    let mut from = src.cast::<u8>();
    // SAFETY: the caller passes valid vectors, memory of the device, and `size` bytes.
    unsafe {
        pieces(iov, iface, count, offset as usize, size, |to, length| {
            ptr::copy_nonoverlapping(from, to, length);
            from = from.add(length);
        })
    }
}

//! The copy functions of pretended devices, over the second mapping of their memory.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plugin_api::{IoVec, OverrideOps, hmem_iface};

/// The copy functions.
pub(super) fn overrides() -> OverrideOps {
    OverrideOps::new(Some(copy_from), Some(copy_to))
        .with_strided(Some(copy_from_strided), Some(copy_to_strided))
}

const NO_SYS: isize = -(libc::ENOSYS as isize);
const FAULT: isize = -(libc::EFAULT as isize);

/// A block of simulated memory, as the copy functions know it.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) device: u64,
    pub(super) len: usize,
    pub(super) shadow: u64,
}

static PLACES: Mutex<Vec<Place>> = Mutex::new(Vec::new());
/// The error that the copy functions add to their return value: see
/// [`PretendedMemory::misbehave`](super::PretendedMemory::misbehave).
pub(super) static LIE: AtomicI64 = AtomicI64::new(0);

pub(super) fn places() -> MutexGuard<'static, Vec<Place>> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The readable address of `len` bytes at a device address.
fn shadow(address: u64, len: usize) -> Option<u64> {
    let places = places();
    let place = places
        .iter()
        .find(|p| address.wrapping_sub(p.device) < p.len as u64)?;
    let offset = address - place.device;
    (offset + len as u64 <= place.len as u64).then_some(place.shadow + offset)
}

/// Runs `copy` on the bytes of each run. The arguments of `copy` are the readable address, the
/// number of bytes done before, and the number of bytes.
///
/// # Safety
/// The arrays have `count` elements.
unsafe fn walk(
    iov: *const IoVec,
    iface: *const u32,
    count: usize,
    offset: u64,
    size: usize,
    mut copy: impl FnMut(*mut u8, usize, usize),
) -> isize {
    // SAFETY: the caller guarantees the length of both arrays.
    let (runs, kinds) = unsafe {
        (
            std::slice::from_raw_parts(iov, count),
            std::slice::from_raw_parts(iface, count),
        )
    };
    let (mut skip, mut done) = (offset as usize, 0);
    for (run, kind) in runs.iter().zip(kinds) {
        if skip >= run.len {
            skip -= run.len;
            continue;
        }
        let at = run.base as u64 + skip as u64;
        let n = (run.len - skip).min(size - done);
        let here = match *kind {
            hmem_iface::SYSTEM => at,
            hmem_iface::CUDA => match shadow(at, n) {
                Some(here) => here,
                None => return FAULT,
            },
            _ => return NO_SYS,
        };
        copy(
            std::ptr::with_exposed_provenance_mut(here as usize),
            done,
            n,
        );
        (done, skip) = (done + n, 0);
        if done == size {
            break;
        }
    }
    said(done)
}

/// The return value of a function that copied `done` bytes.
fn said(done: usize) -> isize {
    match LIE.load(Ordering::Relaxed) {
        0 => done as isize,
        lie if lie < -1 => lie as isize,
        lie => done as isize + lie as isize,
    }
}

/// Runs `copy` on each block. The arguments of `copy` are the readable address and the number of
/// bytes done before.
///
/// # Safety
/// `stride` and `count` have two elements.
unsafe fn walk_blocks(
    base: u64,
    iface: u32,
    block: usize,
    (stride, count): (*const usize, *const usize),
    mut copy: impl FnMut(*mut u8, usize),
) -> isize {
    if iface != hmem_iface::CUDA {
        return NO_SYS;
    }
    // SAFETY: the caller guarantees the length of both arrays.
    let (stride, count) = unsafe { (*stride.cast::<[usize; 2]>(), *count.cast::<[usize; 2]>()) };
    let mut done = 0;
    for row in 0..count[1] {
        for column in 0..count[0] {
            let offset = row * stride[1] + column * stride[0];
            let Some(here) = shadow(base.wrapping_add(offset as u64), block) else {
                return FAULT;
            };
            copy(std::ptr::with_exposed_provenance_mut(here as usize), done);
            done += block;
        }
    }
    said(done)
}

unsafe extern "C" fn copy_from_strided(
    dest: *mut c_void,
    _size: usize,
    base: *const c_void,
    iface: u32,
    block: usize,
    stride: *const usize,
    count: *const usize,
) -> isize {
    let dest: *mut u8 = dest.cast();
    // SAFETY: by the contract of the function; `here` is mapped for the block.
    unsafe {
        walk_blocks(base as u64, iface, block, (stride, count), |here, done| {
            std::ptr::copy(here, dest.add(done), block);
        })
    }
}

unsafe extern "C" fn copy_to_strided(
    base: *mut c_void,
    iface: u32,
    block: usize,
    stride: *const usize,
    count: *const usize,
    src: *const c_void,
    _size: usize,
) -> isize {
    let src: *const u8 = src.cast();
    // SAFETY: by the contract of the function; `here` is mapped for the block.
    unsafe {
        walk_blocks(base as u64, iface, block, (stride, count), |here, done| {
            std::ptr::copy(src.add(done), here, block);
        })
    }
}

unsafe extern "C" fn copy_from(
    dest: *mut c_void,
    size: usize,
    iov: *const IoVec,
    iface: *const u32,
    count: usize,
    offset: u64,
) -> isize {
    let dest: *mut u8 = dest.cast();
    // SAFETY: by the contract of the function; `here` is mapped for the run.
    unsafe {
        walk(iov, iface, count, offset, size, |here, done, n| {
            std::ptr::copy(here, dest.add(done), n);
        })
    }
}

unsafe extern "C" fn copy_to(
    iov: *const IoVec,
    iface: *const u32,
    count: usize,
    offset: u64,
    src: *const c_void,
    size: usize,
) -> isize {
    let src: *const u8 = src.cast();
    // SAFETY: by the contract of the function; `here` is mapped for the run.
    unsafe {
        walk(iov, iface, count, offset, size, |here, done, n| {
            std::ptr::copy(src.add(done), here, n);
        })
    }
}

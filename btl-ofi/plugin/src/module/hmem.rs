//! The module's functions of device memory: overrides, registration, copies.

use std::ffi::c_void;
use std::ptr::NonNull;

use plugin_api::{Access, Endpoint, Handle, HmemInfo, IoVec, Module, OverrideOps, Status, magic};

use super::memory::store_region;
use super::{fill_record, module_ref};
use crate::guard::{called, guarded};

pub(super) unsafe extern "C" fn set_overrides(
    module: *mut Module,
    ops: *const OverrideOps,
) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("set_overrides", unsafe { module_ref(module) }, |module| {
        if ops.is_null() {
            module.transport.set_overrides(None);
            return Some(Status::SUCCESS);
        }
        // SAFETY: `ops` is not NULL; the host passes a table that starts with its header.
        let Ok(ops) = (unsafe { OverrideOps::check(ops) }) else {
            return Some(Status::TYPE_MISMATCH);
        };
        module.transport.set_overrides(Some(&ops));
        Some(Status::SUCCESS)
    })
}

pub(super) unsafe extern "C" fn register_hmem(
    module: *mut Module,
    _endpoint: *mut Endpoint,
    base: *mut c_void,
    size: usize,
    access: u32,
    iface: u32,
    device: u64,
    handle: *mut *mut Handle,
) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("register_hmem", unsafe { module_ref(module) }, |module| {
        if handle.is_null() || (base.is_null() && size > 0) {
            return None;
        }
        let access = Access::from_bits(access)?;
        // SAFETY: the host keeps the memory allocated until `deregister_mem`.
        let registered = unsafe {
            let transport = &module.transport;
            transport.register_hmem(base, size, access, iface, device)
        };
        // SAFETY: `handle` is not NULL; the host passes a writable pointer.
        Some(unsafe { store_region(module, registered, handle) })
    })
}

/// Runs a copy. Returns its result, or -EINVAL when an argument was refused or the copy panicked.
fn copy_result(name: &'static str, copy: impl FnOnce() -> Option<isize>) -> i64 {
    let mut answer = None;
    guarded(name, || {
        answer = copy();
        Status::SUCCESS
    });
    // -EINVAL
    answer.map_or(-22, |n| n as i64)
}

pub(super) unsafe extern "C" fn copy_from_hmem_iov(
    module: *mut Module,
    dest: *mut c_void,
    size: usize,
    hmem_iov: *const IoVec,
    hmem_iface: *const u32,
    hmem_iov_count: usize,
    hmem_iov_offset: u64,
) -> i64 {
    copy_result("copy_from_hmem_iov", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let module = unsafe { module_ref(module) }?;
        NonNull::new(dest)?;
        let count = hmem_iov_count;
        // SAFETY: the host passes arrays of `count` elements and device memory that they describe; `dest` has `size`
        // writable bytes.
        Some(unsafe {
            let transport = &module.transport;
            transport.copy_from_hmem(dest, size, hmem_iov, hmem_iface, count, hmem_iov_offset)
        })
    })
}

pub(super) unsafe extern "C" fn copy_to_hmem_iov(
    module: *mut Module,
    hmem_iov: *const IoVec,
    hmem_iface: *const u32,
    hmem_iov_count: usize,
    hmem_iov_offset: u64,
    src: *const c_void,
    size: usize,
) -> i64 {
    copy_result("copy_to_hmem_iov", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let module = unsafe { module_ref(module) }?;
        NonNull::new(src.cast_mut())?;
        let count = hmem_iov_count;
        // SAFETY: the host passes arrays of `count` elements and device memory that they describe; `src` has `size`
        // readable bytes.
        Some(unsafe {
            let transport = &module.transport;
            transport.copy_to_hmem(hmem_iov, hmem_iface, count, hmem_iov_offset, src, size)
        })
    })
}

pub(super) unsafe extern "C" fn copy_from_hmem_strided(
    module: *mut Module,
    dest: *mut c_void,
    size: usize,
    base: *const c_void,
    iface: u32,
    block: usize,
    stride: *const usize,
    count: *const usize,
) -> i64 {
    copy_result("copy_from_hmem_strided", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let module = unsafe { module_ref(module) }?;
        NonNull::new(dest)?;
        // SAFETY: the host passes NULL or two numbers each.
        let (stride, count) = unsafe { (two(stride)?, two(count)?) };
        let transport = &module.transport;
        // SAFETY: the host passes `size` writable bytes at `dest`, and blocks that are memory of that kind.
        Some(unsafe {
            transport.copy_from_hmem_strided(dest, size, base, iface, block, stride, count)
        })
    })
}

pub(super) unsafe extern "C" fn copy_to_hmem_strided(
    module: *mut Module,
    base: *mut c_void,
    iface: u32,
    block: usize,
    stride: *const usize,
    count: *const usize,
    src: *const c_void,
    size: usize,
) -> i64 {
    copy_result("copy_to_hmem_strided", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let module = unsafe { module_ref(module) }?;
        NonNull::new(src.cast_mut())?;
        // SAFETY: the host passes NULL or two numbers each.
        let (stride, count) = unsafe { (two(stride)?, two(count)?) };
        let transport = &module.transport;
        // SAFETY: the host passes `size` readable bytes at `src`, and blocks that are memory of that kind.
        Some(unsafe {
            transport.copy_to_hmem_strided(base, iface, block, stride, count, src, size)
        })
    })
}

/// The two numbers at a pointer; `None` for NULL.
///
/// # Safety
/// `numbers` is NULL or has two elements.
unsafe fn two(numbers: *const usize) -> Option<[usize; 2]> {
    // SAFETY: the caller guarantees two elements behind a pointer that is not NULL.
    NonNull::new(numbers.cast_mut()).map(|numbers| unsafe { numbers.cast::<[usize; 2]>().read() })
}

pub(super) unsafe extern "C" fn query_hmem(
    module: *mut Module,
    iface: u32,
    info: *mut HmemInfo,
) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("query_hmem", unsafe { module_ref(module) }, |module| {
        let (info, name) = (NonNull::new(info)?, ("hmem_info", magic::HMEM_INFO));
        // SAFETY: the host passes a record that begins with its header.
        Some(unsafe { fill_record(info, name, || module.transport.hmem_info(iface)) })
    })
}

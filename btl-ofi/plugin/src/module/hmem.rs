//! The module's functions of device memory: overrides, registration, copies.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use plugin_api::{
    Access, Endpoint, Handle, HmemInfo, IoVec, Module, OverrideOps, Status, TableHeader, magic,
};

use super::memory::store_region;
use super::module_ref;
use crate::guard::{guarded, need};

pub(super) unsafe extern "C" fn set_overrides(
    module: *mut Module,
    ops: *const OverrideOps,
) -> Status {
    guarded("set_overrides", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let Some(module) = (unsafe { module_ref(module) }) else {
            return Status::BAD_PARAM;
        };
        if ops.is_null() {
            module.transport.set_overrides(None);
            return Status::SUCCESS;
        }
        // SAFETY: `ops` is not NULL; the host passes a table that starts with its header.
        let Ok(ops) = (unsafe { OverrideOps::check(ops) }) else {
            return Status::TYPE_MISMATCH;
        };
        module.transport.set_overrides(Some(&ops));
        Status::SUCCESS
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
    guarded("register_hmem", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let Some(module) = (unsafe { module_ref(module) }) else {
            return Status::BAD_PARAM;
        };
        if handle.is_null() || (base.is_null() && size > 0) {
            return Status::BAD_PARAM;
        }
        let Some(access) = Access::from_bits(access) else {
            return Status::BAD_PARAM;
        };
        // SAFETY: the host keeps the memory allocated until `deregister_mem`.
        let registered = unsafe {
            let transport = &module.transport;
            transport.register_hmem(base, size, access, iface, device)
        };
        // SAFETY: `handle` is not NULL; the host passes a writable pointer.
        unsafe { store_region(module, registered, handle) }
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
    guarded("query_hmem", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let (module, out) = need!(unsafe { module_ref(module) }, NonNull::new(info));
        // SAFETY: the host's record begins with its header.
        let header = unsafe { *out.as_ptr().cast::<TableHeader>() };
        if header
            .check("hmem_info", magic::HMEM_INFO, size_of::<TableHeader>())
            .is_err()
        {
            return Status::TYPE_MISMATCH;
        }
        let mut found = module.transport.hmem_info(iface);
        let size = (header.size as usize).min(size_of::<HmemInfo>());
        found.header.size = size as u32;
        // SAFETY: the host's record has at least `size` bytes: `size` is at most the size in its header.
        unsafe {
            ptr::copy_nonoverlapping((&raw const found).cast::<u8>(), out.as_ptr().cast(), size);
        }
        Status::SUCCESS
    })
}

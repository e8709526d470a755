//! `fi_set_ops` of a domain: the user's functions for device memory.

use std::ffi::{CStr, c_char, c_int, c_void};

use libfabric_sys as ffi;

use crate::base::report::violation;
use crate::objects::domain::DomainObject;
use crate::objects::object::{Object, or_return};
use crate::reach::device::{self, CopyFrom, CopyTo, Overrides};

/// The part of `struct fi_hmem_override_ops` that every release has.
#[repr(C)]
struct OverrideOps {
    size: usize,
    copy_from_hmem_iov: Option<CopyFrom>,
    copy_to_hmem_iov: Option<CopyTo>,
}

/// `fi_set_ops` of a domain: overrides are the only operations that can be set.
pub(crate) unsafe extern "C" fn set_ops(
    fid: *mut ffi::fid,
    name: *const c_char,
    _flags: u64,
    ops: *mut c_void,
    _context: *mut c_void,
) -> c_int {
    // SAFETY: the table belongs to domains only.
    let domain: &DomainObject = or_return!(unsafe { Object::of(fid, "fi_set_ops") });
    // SAFETY: the caller passes a string.
    let name = unsafe { CStr::from_ptr(name) };
    if name != c"hmem_override_ops" || !domain.inner.config.hmem_override {
        return -(ffi::FI_ENOSYS as c_int);
    }
    // SAFETY: the caller passes NULL, or the structure that belongs to the name.
    let ops = unsafe { ops.cast::<OverrideOps>().as_ref() };
    // Both functions or none, as the man page of the domain requires.
    let overrides = match ops {
        Some(OverrideOps {
            size,
            copy_from_hmem_iov: Some(from),
            copy_to_hmem_iov: Some(to),
        }) if *size >= size_of::<OverrideOps>() => Overrides {
            from: *from,
            to: *to,
        },
        _ => {
            violation("fi_set_ops of overrides without both functions");
            return -(ffi::FI_EINVAL as c_int);
        }
    };
    device::set_overrides(domain.inner.number, Some(overrides));
    0
}

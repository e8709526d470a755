//! Atomics: updates, fetches and compare-and-swap.

use std::ffi::c_void;

use libfabric_sys as ffi;

use crate::base::arithmetic;
use crate::base::missing::Missing;
use crate::base::report::violation;
use crate::objects::endpoint::EndpointObject;
use crate::objects::object::Object;
use crate::objects::post::post;
use crate::objects::rma::local;
use crate::work::operation::{Operation, Work};

pub(crate) static OPS: ffi::fi_ops_atomic = ffi::fi_ops_atomic {
    writemsg: Some(writemsg),
    readwrite: Some(readwrite),
    compwrite: Some(compwrite),
    ..NONE
};

/// The table of an endpoint without atomics.
pub(crate) static MISSING: ffi::fi_ops_atomic = NONE;

const NONE: ffi::fi_ops_atomic = ffi::fi_ops_atomic {
    size: size_of::<ffi::fi_ops_atomic>(),
    write: Missing::MISSING,
    writev: Missing::MISSING,
    writemsg: Missing::MISSING,
    inject: Missing::MISSING,
    readwrite: Missing::MISSING,
    readwritev: Missing::MISSING,
    readwritemsg: Missing::MISSING,
    compwrite: Missing::MISSING,
    compwritev: Missing::MISSING,
    compwritemsg: Missing::MISSING,
    writevalid: Missing::MISSING,
    readwritevalid: Missing::MISSING,
    compwritevalid: Missing::MISSING,
};

/// The bytes of an atomic that `fi_query_atomic` grants.
///
/// # Safety
/// `ep` is an endpoint of this provider.
unsafe fn bytes(
    ep: *mut ffi::fid_ep,
    call: &str,
    kind: u32,
    datatype: u32,
    op: u32,
    count: usize,
) -> Result<usize, isize> {
    // SAFETY: the caller guarantees that the endpoint is valid.
    let ep: &EndpointObject = unsafe { Object::of(ep, call) }.map_err(|code| code as isize)?;
    let config = ep.inner.domain.inner.config;
    let granted = arithmetic::serves(datatype, op) && config.serves(kind, datatype, op);
    let size = arithmetic::size(datatype).filter(|_| granted);
    let most = size.map_or(0, |s| config.atomic_bytes / s);
    match size {
        Some(size) if (1..=most).contains(&count) => Ok(size * count),
        _ => {
            violation(&format!(
                "{call} of {count} elements of type {datatype}, operation {op}: {most} are served"
            ));
            Err(-(ffi::FI_EOPNOTSUPP as isize))
        }
    }
}

unsafe extern "C" fn writemsg(
    ep: *mut ffi::fid_ep,
    message: *const ffi::fi_msg_atomic,
    flags: u64,
) -> isize {
    // SAFETY: the caller passes a complete message.
    let m = unsafe { &*message };
    if m.iov_count != 1 || m.rma_iov_count != 1 {
        violation("fi_atomicmsg with other than one piece");
        return -(ffi::FI_EINVAL as isize);
    }
    // SAFETY: both vectors have one element.
    let (near, far) = unsafe { (&*m.msg_iov, &*m.rma_iov) };
    let (kind, datatype, op) = (0, m.datatype, m.op);
    // SAFETY: the table belongs to endpoints only.
    let length = match unsafe { bytes(ep, "fi_atomicmsg", kind, datatype, op, far.count) } {
        Ok(length) => length,
        Err(code) => return code,
    };
    let work = Work::Atomic { kind, datatype, op };
    // SAFETY: descriptors are NULL, or one for each buffer.
    let desc = unsafe { m.desc.as_ref() }.map_or(std::ptr::null_mut(), |d| *d);
    // SAFETY: the arguments are those of fi_atomicmsg.
    unsafe {
        post(ep, "fi_atomicmsg", m.addr, flags, |name| Operation {
            local: local(near.addr as u64, desc),
            context: m.context as u64,
            ..Operation::new(work, name, far.addr, far.key, length)
        })
    }
}

unsafe extern "C" fn readwrite(
    ep: *mut ffi::fid_ep,
    buffer: *const c_void,
    count: usize,
    desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    peer: ffi::fi_addr_t,
    address: u64,
    key: u64,
    datatype: ffi::fi_datatype,
    op: ffi::fi_op,
    context: *mut c_void,
) -> isize {
    let kind = 1;
    // SAFETY: the table belongs to endpoints only.
    let length = match unsafe { bytes(ep, "fi_fetch_atomic", kind, datatype, op, count) } {
        Ok(length) => length,
        Err(code) => return code,
    };
    let work = Work::Atomic { kind, datatype, op };
    // SAFETY: the arguments are those of fi_fetch_atomic.
    unsafe {
        post(ep, "fi_fetch_atomic", peer, 0, |name| Operation {
            local: local(buffer as u64, desc),
            result: local(result as u64, result_desc),
            context: context as u64,
            delivered: true,
            ..Operation::new(work, name, address, key, length)
        })
    }
}

unsafe extern "C" fn compwrite(
    ep: *mut ffi::fid_ep,
    buffer: *const c_void,
    count: usize,
    desc: *mut c_void,
    compare: *const c_void,
    compare_desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    peer: ffi::fi_addr_t,
    address: u64,
    key: u64,
    datatype: ffi::fi_datatype,
    op: ffi::fi_op,
    context: *mut c_void,
) -> isize {
    let kind = 2;
    // SAFETY: the table belongs to endpoints only.
    let length = match unsafe { bytes(ep, "fi_compare_atomic", kind, datatype, op, count) } {
        Ok(length) => length,
        Err(code) => return code,
    };
    let work = Work::Atomic { kind, datatype, op };
    // SAFETY: the arguments are those of fi_compare_atomic.
    unsafe {
        post(ep, "fi_compare_atomic", peer, 0, |name| Operation {
            local: local(buffer as u64, desc),
            compare: local(compare as u64, compare_desc),
            result: local(result as u64, result_desc),
            context: context as u64,
            delivered: true,
            ..Operation::new(work, name, address, key, length)
        })
    }
}

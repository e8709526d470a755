//! Writes and reads.

use std::ffi::c_void;

use libfabric_sys as ffi;

use crate::base::missing::Missing;
use crate::base::report::violation;
use crate::objects::bare;
use crate::objects::post::post;
use crate::work::operation::{Local, Operation, Work};

pub(crate) static OPS: ffi::fi_ops_rma = ffi::fi_ops_rma {
    size: size_of::<ffi::fi_ops_rma>(),
    read: Some(read),
    readv: Missing::MISSING,
    readmsg: Missing::MISSING,
    write: Some(write),
    writev: Missing::MISSING,
    writemsg: Some(writemsg),
    inject: Missing::MISSING,
    writedata: Missing::MISSING,
    injectdata: Missing::MISSING,
};

/// A local buffer with its descriptor.
pub(crate) fn local(address: u64, desc: *mut c_void) -> Local {
    Local {
        address,
        descriptor: desc.addr() as u64,
    }
}

unsafe extern "C" fn read(
    ep: *mut ffi::fid_ep,
    buffer: *mut c_void,
    length: usize,
    desc: *mut c_void,
    peer: ffi::fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the arguments are those of fi_read.
    unsafe {
        post(ep, "fi_read", peer, 0, |name| Operation {
            local: local(buffer as u64, desc),
            context: context as u64,
            // A read is complete when its data has arrived.
            delivered: true,
            ..Operation::new(Work::Read, name, address, key, length)
        })
    }
}

unsafe extern "C" fn write(
    ep: *mut ffi::fid_ep,
    buffer: *const c_void,
    length: usize,
    desc: *mut c_void,
    peer: ffi::fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: the arguments are those of fi_write.
    unsafe {
        post(ep, "fi_write", peer, 0, |name| Operation {
            local: local(buffer as u64, desc),
            context: context as u64,
            ..Operation::new(Work::Write, name, address, key, length)
        })
    }
}

unsafe extern "C" fn writemsg(
    ep: *mut ffi::fid_ep,
    message: *const ffi::fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: the caller passes a complete message.
    let message = unsafe { &*message };
    if message.iov_count != 1 || message.rma_iov_count != 1 {
        violation("fi_writemsg with other than one piece");
        return -(ffi::FI_EINVAL as isize);
    }
    // SAFETY: both vectors have one element.
    let (near, far) = unsafe { (&*message.msg_iov, &*message.rma_iov) };
    if near.iov_len != far.len {
        violation("fi_writemsg with pieces of different lengths");
        return -(ffi::FI_EINVAL as isize);
    }
    // SAFETY: the caller passes the arguments of fi_writemsg.
    if let Some(code) = unsafe { bare::write(ep, near, far, message.context) } {
        return code;
    }
    // SAFETY: descriptors are NULL, or one for each buffer.
    let desc = unsafe { message.desc.as_ref() }.map_or(std::ptr::null_mut(), |d| *d);
    // SAFETY: the arguments are those of fi_writemsg.
    unsafe {
        post(ep, "fi_writemsg", message.addr, flags, |name| Operation {
            local: local(near.iov_base as u64, desc),
            context: message.context as u64,
            ..Operation::new(Work::Write, name, far.addr, far.key, far.len)
        })
    }
}

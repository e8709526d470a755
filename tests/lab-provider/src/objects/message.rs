//! Messages: sends, and the receives that they meet.
//!
//! A send is complete when its message is in the peer's mailbox, for every completion level. Therefore a
//! send to a dead peer fails, and earlier writes may land after its message.

use std::ffi::c_void;

use libfabric_sys as ffi;

use crate::base::missing::Missing;
use crate::base::report::violation;
use crate::objects::post::{post, post_receive};
use crate::objects::rma::local;
use crate::work::operation::{Local, Operation, Work};

pub(crate) static OPS: ffi::fi_ops_msg = ffi::fi_ops_msg {
    recv: Some(recv),
    recvmsg: Some(recvmsg),
    send: Some(send),
    sendmsg: Some(sendmsg),
    inject: Missing::MISSING,
    ..NONE
};

/// The table of an endpoint without messages.
pub(crate) static MISSING: ffi::fi_ops_msg = NONE;

const NONE: ffi::fi_ops_msg = ffi::fi_ops_msg {
    size: size_of::<ffi::fi_ops_msg>(),
    recv: Missing::MISSING,
    recvv: Missing::MISSING,
    recvmsg: Missing::MISSING,
    send: Missing::MISSING,
    sendv: Missing::MISSING,
    sendmsg: Missing::MISSING,
    inject: Missing::MISSING,
    senddata: Missing::MISSING,
    injectdata: Missing::MISSING,
};

/// The one buffer of a message, or an empty one, with its length.
///
/// # Safety
/// The message is complete, as `fi_sendmsg` and `fi_recvmsg` require.
unsafe fn piece(message: &ffi::fi_msg, call: &str) -> Result<(Local, usize), isize> {
    match message.iov_count {
        0 => Ok((Local::default(), 0)),
        1 => {
            // SAFETY: the vector has one element; descriptors are NULL, or one for each element.
            let (iov, desc) = unsafe { (&*message.msg_iov, message.desc.as_ref()) };
            let desc = desc.map_or(std::ptr::null_mut(), |d| *d);
            Ok((local(iov.iov_base as u64, desc), iov.iov_len))
        }
        _ => {
            violation(&format!("{call} with more than one piece"));
            Err(-(ffi::FI_EINVAL as isize))
        }
    }
}

unsafe extern "C" fn send(
    ep: *mut ffi::fid_ep,
    buffer: *const c_void,
    length: usize,
    desc: *mut c_void,
    peer: ffi::fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: the arguments are those of fi_send.
    unsafe {
        post(ep, "fi_send", peer, 0, |name| Operation {
            local: local(buffer as u64, desc),
            context: context as u64,
            // The work is done before the send completes.
            delivered: true,
            ..Operation::new(Work::Send, name, 0, 0, length)
        })
    }
}

unsafe extern "C" fn sendmsg(
    ep: *mut ffi::fid_ep,
    message: *const ffi::fi_msg,
    flags: u64,
) -> isize {
    // SAFETY: the caller passes a complete message.
    let message = unsafe { &*message };
    // SAFETY: the caller passes a complete message.
    let (local, length) = match unsafe { piece(message, "fi_sendmsg") } {
        Ok(piece) => piece,
        Err(code) => return code,
    };
    // SAFETY: the arguments are those of fi_sendmsg.
    unsafe {
        post(ep, "fi_sendmsg", message.addr, flags, |name| Operation {
            local,
            context: message.context as u64,
            delivered: true,
            ..Operation::new(Work::Send, name, 0, 0, length)
        })
    }
}

/// The named sender is ignored, because FI_DIRECTED_RECV is not offered.
unsafe extern "C" fn recv(
    ep: *mut ffi::fid_ep,
    buffer: *mut c_void,
    length: usize,
    desc: *mut c_void,
    _from: ffi::fi_addr_t,
    context: *mut c_void,
) -> isize {
    let buffer = local(buffer as u64, desc);
    // SAFETY: the arguments are those of fi_recv.
    unsafe { post_receive(ep, "fi_recv", buffer, length, context) }
}

unsafe extern "C" fn recvmsg(
    ep: *mut ffi::fid_ep,
    message: *const ffi::fi_msg,
    flags: u64,
) -> isize {
    // SAFETY: the caller passes a complete message.
    let message = unsafe { &*message };
    // SAFETY: the caller passes a complete message.
    let (local, length) = match unsafe { piece(message, "fi_recvmsg") } {
        Ok(piece) => piece,
        Err(code) => return code,
    };
    if flags & !u64::from(ffi::FI_COMPLETION) != 0 {
        violation(&format!("fi_recvmsg with flags {flags:#x}"));
        return -(ffi::FI_EINVAL as isize);
    }
    // SAFETY: the arguments are those of fi_recvmsg.
    unsafe { post_receive(ep, "fi_recvmsg", local, length, message.context) }
}

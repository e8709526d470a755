//! Posts: the checks of every operation before its queue accepts it.

use std::ffi::c_void;

use libfabric_sys as ffi;

use crate::base::report::violation;
use crate::objects::endpoint::EndpointObject;
use crate::objects::object::Object;
use crate::reach::name::Name;
use crate::reach::own_name;
use crate::work::operation::{Local, Operation, Work};

/// Checks the endpoint and the peer, and passes an operation to the queue. `fill` makes the
/// operation for the peer.
///
/// # Safety
/// `ep` is an endpoint of this provider; the buffers belong to the provider, as the call's man page
/// says.
pub(crate) unsafe fn post(
    ep: *mut ffi::fid_ep,
    call: &str,
    peer: ffi::fi_addr_t,
    flags: u64,
    fill: impl FnOnce(Name) -> Operation,
) -> isize {
    // SAFETY: the caller guarantees that the endpoint is valid.
    let object: &EndpointObject = match unsafe { Object::of(ep, call) } {
        Ok(object) => object,
        Err(code) => return code as isize,
    };
    let endpoint = &object.inner;
    let bound = endpoint.lock();
    let (Some(queue), true) = (bound.queue, bound.enabled) else {
        violation(&format!("{call} on an endpoint that is not enabled"));
        return -(ffi::FI_EOPBADSTATE as isize);
    };
    drop(bound);
    let Some(name) = endpoint.peer(peer) else {
        violation(&format!(
            "{call} to position {peer}, which holds no address"
        ));
        return -(ffi::FI_EINVAL as isize);
    };
    let mut operation = fill(name);
    let config = endpoint.domain.inner.config;
    if operation.length > config.max_message {
        violation(&format!("{call} of {} bytes", operation.length));
        return -(ffi::FI_EMSGSIZE as isize);
    }
    if flags & u64::from(ffi::FI_INJECT) != 0 {
        violation(&format!("{call} injects, which is not offered"));
        return -(ffi::FI_EINVAL as isize);
    }
    if flags & u64::from(ffi::FI_DELIVERY_COMPLETE) != 0 && !config.confirms {
        violation(&format!("{call} asks for the delivery that is not offered"));
        return -(ffi::FI_EINVAL as isize);
    }
    operation.delivered |=
        flags & u64::from(ffi::FI_DELIVERY_COMPLETE) != 0 && !config.confirms_sending;
    operation.endpoint = ep as usize;
    operation.position = peer;
    // SAFETY: the caller guarantees that the buffers are valid.
    unsafe { queue.inner.post(operation) }
}

/// Checks the endpoint, and passes a receive to its queue.
///
/// # Safety
/// `ep` is an endpoint of this provider; the buffer belongs to the provider, as the call's man page
/// says.
pub(crate) unsafe fn post_receive(
    ep: *mut ffi::fid_ep,
    call: &str,
    local: Local,
    length: usize,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller guarantees that the endpoint is valid.
    let object: &EndpointObject = match unsafe { Object::of(ep, call) } {
        Ok(object) => object,
        Err(code) => return code as isize,
    };
    let bound = object.inner.lock();
    let (Some(queue), true) = (bound.received, bound.enabled) else {
        violation(&format!(
            "{call} on an endpoint that is not enabled, or without a queue for receives"
        ));
        return -(ffi::FI_EOPBADSTATE as isize);
    };
    drop(bound);
    let own = own_name(object.inner.domain.inner.number, None);
    let receive = Operation {
        local,
        context: context as u64,
        endpoint: ep as usize,
        ..Operation::new(Work::Receive, own, 0, 0, length)
    };
    // SAFETY: the caller guarantees that the buffer is valid.
    unsafe { queue.inner.post_receive(receive) }
}

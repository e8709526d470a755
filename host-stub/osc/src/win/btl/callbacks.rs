//! Callbacks of the operations that a window counts.

use std::ffi::c_void;

use plugin_api::{CompletionFn, Endpoint, Handle, Module, Status};

use crate::door::Context;
use crate::win::pending::Cell;
use crate::win::request::request_state::RequestState;

/// The callback that finishes an operation, whose data is [`CountedOperation::data`](super::tracked::CountedOperation::data).
#[inline(always)]
pub(super) fn finishing(data: *mut c_void) -> CompletionFn {
    match data.is_null() {
        true => done_alone,
        false => done,
    }
}

/// As [`done`], for an operation without a request.
unsafe extern "C" fn done_alone(
    _module: *mut Module,
    _endpoint: *mut Endpoint,
    _local_address: *mut c_void,
    _local_handle: *mut Handle,
    context: *mut c_void,
    _data: *mut c_void,
    status: i32,
) {
    // SAFETY: the cell belongs to a window, which lives while it counts this operation.
    unsafe { &*context.cast::<Cell>() }.finish(status);
}

/// Finishes an operation: `context` is its [`Cell`], `data` its [`RequestState`] or NULL.
pub(in crate::win) unsafe extern "C" fn done(
    _module: *mut Module,
    _endpoint: *mut Endpoint,
    _local_address: *mut c_void,
    _local_handle: *mut Handle,
    context: *mut c_void,
    data: *mut c_void,
    status: i32,
) {
    // SAFETY: the cell belongs to a window, which lives while it counts this operation.
    let cell = unsafe { &*context.cast::<Cell>() };
    if data.is_null() {
        cell.finish(status);
    } else {
        // SAFETY: the state belongs to the window's pool and is in use while it counts this
        // operation. The request reports the failure, so the flush need not.
        unsafe { &*data.cast::<RequestState>() }.finish(status);
        // Last, because the window may be freed once its counts are zero.
        cell.finish(0);
    }
}

/// Finishes a notification, or the release of a lock: `context` is its [`Cell`], `data` the [`Context`]. A rank may wait for
/// a notification that failed and never arrived, so the failure concerns all ranks of the window. No call waits for a
/// notification to a dead peer, and the transport reports that peer.
pub(super) unsafe extern "C" fn notified(
    _module: *mut Module,
    _endpoint: *mut Endpoint,
    _local_address: *mut c_void,
    _local_handle: *mut Handle,
    context: *mut c_void,
    data: *mut c_void,
    status: i32,
) {
    if status < 0 && Status(status) != Status::UNREACH {
        // SAFETY: the window that counts this notification keeps its context.
        let context = unsafe { &*data.cast::<Context>() };
        context.failures.strand(Status(status));
    }
    // SAFETY: the cell belongs to a window, which lives while it counts this operation.
    unsafe { &*context.cast::<Cell>() }.finish(status);
}

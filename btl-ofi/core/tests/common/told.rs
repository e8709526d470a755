//! Functions that a transport calls, as methods of their receivers.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use btl_ofi::{Completion, Receive, Transport};
use plugin_api::{Endpoint, Handle, Module, Status};

/// The weight of a callback that reports a failure; the weight of a success is 1.
pub(crate) const FAILED: u32 = 1000;

/// A receiver of completions. The receiver outlives the operations.
pub(crate) trait Ended {
    fn ended(&self, status: Status);

    /// The callback of an operation.
    fn completion(&self) -> Option<Completion>
    where
        Self: Sized,
    {
        unsafe extern "C" fn ended<T: Ended>(
            _: *mut Module,
            _: *mut Endpoint,
            _: *mut c_void,
            _: *mut Handle,
            context: *mut c_void,
            _: *mut c_void,
            status: i32,
        ) {
            // SAFETY: `completion` made the context, which outlives the operation.
            unsafe { &*context.cast::<T>() }.ended(Status(status));
        }
        Some(Completion {
            function: ended::<Self>,
            context: ptr::from_ref(self).cast_mut().cast(),
            data: ptr::null_mut(),
        })
    }
}

impl Ended for AtomicU32 {
    fn ended(&self, status: Status) {
        let call = if status.is_ok() { 1 } else { FAILED };
        self.fetch_add(call, Ordering::Release);
    }
}

/// A receiver of the messages that hosts send. The receiver outlives the transport, or another
/// receiver replaces it.
pub(crate) trait Receives {
    /// Receives a message; the sender is NULL if it is not connected.
    fn receive(&self, from: *mut Endpoint, tag: u8, bytes: &[u8]);

    /// Receives the messages to `t` from now on.
    fn receive_of(&self, t: &Transport)
    where
        Self: Sized,
    {
        unsafe extern "C" fn receive<T: Receives>(
            _: *mut Module,
            from: *mut Endpoint,
            tag: u8,
            data: *const c_void,
            size: usize,
            context: *mut c_void,
        ) {
            assert!(data.addr().is_multiple_of(8));
            // SAFETY: `receive_of` made the context, and the bytes are valid during the call.
            let (receiver, bytes) = unsafe {
                let bytes = std::slice::from_raw_parts(data.cast::<u8>(), size);
                (&*context.cast::<T>(), bytes)
            };
            receiver.receive(from, tag, bytes);
        }
        t.on_receive(Some(Receive {
            function: receive::<Self>,
            context: ptr::from_ref(self).cast_mut().cast(),
        }));
    }
}

//! Puts with notification whose two parts are posted one after the other: the atomic when the put has completed. Each is a
//! compound operation (`compound`).

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use plugin_api::{CompletionFn, Module, Status};

use crate::engine::compound::{Compound, Event, Next, Parts, note};
use crate::engine::notify::Raise;
use crate::engine::post::Caller;
use crate::engine::transport::Transport;
use crate::op::completion::Completion;
use crate::op::request::Op;
use crate::peer::endpoint::Endpoint;

/// The completion of a part of an operation.
fn part(function: CompletionFn, of: NonNull<Compound>) -> Completion {
    Completion {
        function,
        context: of.as_ptr().cast(),
        data: ptr::null_mut(),
    }
}

/// The callback of the put.
unsafe extern "C" fn put_ended(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    context: *mut c_void,
    _: *mut c_void,
    status: i32,
) {
    let event = match Status(status) {
        Status::SUCCESS => Event::Visible,
        failure => Event::End(failure),
    };
    if let Some(compound) = NonNull::new(context.cast()) {
        // SAFETY: `put_then_raise` passed the operation, whose put was its only outstanding part.
        unsafe { note(compound, event) };
    }
}

/// The callback of the atomic.
unsafe extern "C" fn raise_ended(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    context: *mut c_void,
    _: *mut c_void,
    status: i32,
) {
    if let Some(compound) = NonNull::new(context.cast()) {
        // SAFETY: `raise_counter` passed the operation, whose atomic was its only outstanding part.
        unsafe { note(compound, Event::End(Status(status))) };
    }
}

impl Transport {
    /// Makes a put, and raises the counter when it has completed.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit).
    pub(crate) unsafe fn put_then_raise(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        raise: &Raise,
    ) -> Status {
        let parts = Parts::Notified(*raise);
        let notified = match self.begin_compound(endpoint, &Caller::of(op), parts) {
            Ok(notified) => notified,
            Err(status) => return status,
        };
        let put = op.with_completion(Some(part(put_ended, notified)));
        // SAFETY: the caller guarantees that `endpoint` is live, the buffers are valid until completion, and the handles are
        // NULL or readable.
        match unsafe { self.transfer(endpoint, &put, true) } {
            Status::SUCCESS => Status::SUCCESS,
            Status::COMPLETED => {
                // SAFETY: the put is complete, and its callback does not run.
                unsafe { note(notified, Event::Visible) };
                Status::SUCCESS
            }
            // The peer may have failed during the call, and its operations been reported, this one included.
            _ if self.withdraw_compound(notified) => Status::SUCCESS,
            refused => refused,
        }
    }

    /// Has progress raise the counter of a put that is complete.
    #[cold]
    pub(crate) fn raise_later(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        raise: &Raise,
    ) -> Status {
        match self.begin_compound(endpoint, caller, Parts::Notified(*raise)) {
            Ok(notified) => {
                // SAFETY: the operation has no outstanding part.
                unsafe { note(notified, Event::Visible) };
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }

    /// Raises the counter of an operation whose bytes are visible.
    pub(crate) fn raise_counter(
        &self,
        at: NonNull<Compound>,
        endpoint: NonNull<Endpoint>,
        raise: &Raise,
    ) -> Next {
        let caller = Caller {
            completion: Some(part(raise_ended, at)),
            local_address: ptr::null_mut(),
            local_handle: ptr::null_mut(),
        };
        // SAFETY: endpoints outlive the operations whose tags name them.
        match unsafe { self.raise(endpoint, &caller, raise) } {
            Status::SUCCESS => Next::Parts,
            Status::COMPLETED => Next::End(Status::SUCCESS),
            again if again.is_again() => Next::Again(Event::Visible),
            refused => Next::End(refused),
        }
    }
}

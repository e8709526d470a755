//! Puts and gets by the provider, on the slow path.

use crate::core::state::Core;
use crate::mem::handle::Target;
use crate::op::request::Caller;
use crate::peer::endpoint::Endpoint;
use plugin_api::Status;
use std::ptr::{self, NonNull};

impl Core {
    /// Posts a put to the provider.
    ///
    /// # Safety
    /// `endpoint` is live; the local buffer is readable for `size` bytes until completion, and the provider reaches it.
    #[inline(always)]
    pub(crate) unsafe fn post_put(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        size: usize,
        Target { address, key }: Target,
    ) -> Status {
        // SAFETY: the endpoint is live, and its address does not change; the local buffer is the caller's until
        // completion; the message is used only while the context is locked.
        unsafe {
            self.post(endpoint, (caller, size), false, |posting| {
                let context = posting.context;
                let message = posting.state.message.put(
                    (caller.local_address, size),
                    (endpoint.as_ref().address, address, key),
                    posting.pointer,
                );
                (context.calls.writemsg)(context.tx, message, self.quick.delivered)
            })
        }
    }

    /// Posts a get to the provider.
    ///
    /// # Safety
    /// The conditions of [`post_put`](Self::post_put), with the local buffer writable.
    #[inline(always)]
    pub(crate) unsafe fn post_get(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        size: usize,
        Target { address, key }: Target,
    ) -> Status {
        // SAFETY: the endpoint is live, and the local buffer is the caller's until completion.
        unsafe {
            self.post(endpoint, (caller, size), false, |posting| {
                let context = posting.context;
                let (peer, pointer) = (endpoint.as_ref().address, posting.pointer);
                let (at, none) = (caller.local_address, ptr::null_mut());
                (context.calls.read)(context.tx, at, size, none, peer, address, key, pointer)
            })
        }
    }
}

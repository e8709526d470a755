//! Two-sided messages of the host: bytes with a tag, which the peer's host receives by a function (BTL's `send` and active
//! messages). They travel by `fabric::msg`.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use plugin_api::{ReceiveFn, Status};

use crate::engine::context::Context;
use crate::engine::post::guarded;
use crate::engine::transport::Transport;
use crate::fabric::msg::{Arrived, LARGEST_SEND, Leaves, Sent};
use crate::peer::endpoint::Endpoint;

/// The host's function for messages that arrive.
#[derive(Clone, Copy)]
pub struct Receive {
    /// The function.
    pub function: ReceiveFn,
    /// The function's last argument.
    pub context: *mut c_void,
}

// SAFETY: only the host's function follows the pointer, and the host allows that function on any progressing thread.
unsafe impl Send for Receive {}
// SAFETY: a shared `Receive` gives no access but copies of two pointers.
unsafe impl Sync for Receive {}

impl Transport {
    /// Sends `size` bytes with a tag to the host of a peer, whose function for messages gets them in the peer's progress.
    /// `fill` writes the bytes to the address that it is given, which is aligned to 8; it must not call the transport.
    ///
    /// When this returns, nothing of the caller's is used any more. Whether the message has left is what it returns: until then it
    /// arrives only if this process makes progress, and [`has_sent`](Self::has_sent) tells when that is over. Messages to one peer
    /// arrive in the order in which they were sent. Those of a peer that fails are lost; the failure is reported.
    ///
    /// [`Status::NOT_SUPPORTED`]: `btl_ofi_mode` is 0. [`Status::BAD_PARAM`]: `size` exceeds
    /// [`send_limit`](crate::Capabilities::send_limit). [`Status::TEMP_OUT_OF_RESOURCE`]: too much waits for this peer, or with
    /// [`Leaves::Now`] the message cannot leave at once; make progress and try again. [`Status::UNREACH`]: the peer is gone.
    /// After an error nothing is sent; with [`Leaves::Now`], `fill` may have run.
    ///
    /// # Safety
    /// `endpoint` came from [`connect`](Self::connect) and was not released. `fill` writes `size` bytes.
    #[inline]
    pub unsafe fn send(
        &self,
        endpoint: NonNull<Endpoint>,
        (tag, size, leaves): (u8, usize, Leaves),
        fill: impl FnOnce(*mut u8),
    ) -> Result<Sent, Status> {
        if !self.policy.two_sided {
            return Err(Status::NOT_SUPPORTED);
        }
        if size > LARGEST_SEND {
            return Err(Status::BAD_PARAM);
        }
        // SAFETY: the caller guarantees a live endpoint.
        let peer = unsafe { endpoint.as_ref() };
        self.leave_route(peer);
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        // Checked under the lock, because the messages to a failed peer end under it.
        if let Some(status) = peer.failure() {
            return Err(status);
        }
        let Some(messages) = &mut state.messages else {
            return Err(Status::NOT_SUPPORTED);
        };
        // What else goes to the peer may be ahead in the provider's queue.
        let is_alone = peer.is_idle();
        // SAFETY: the caller guarantees a live endpoint and that `fill` writes `size` bytes; the line of a peer is removed
        // before its endpoint is.
        let sent = unsafe { messages.send(endpoint, (tag, size, leaves), is_alone, fill) };
        let failures = messages.has_failures();
        match sent {
            Ok(_) => {
                state.counts.others += 1;
                state.counts.completed += 1;
            }
            Err(_) => state.counts.again += 1,
        }
        if failures {
            guarded(|| {
                self.tell_failures(context, state);
                Status::SUCCESS
            });
        }
        sent
    }

    /// Whether a message that was sent to a peer has left: the provider has handed it on, or the peer failed and nothing leaves.
    ///
    /// # Safety
    /// `endpoint` came from [`connect`](Self::connect) and was not released.
    pub unsafe fn has_sent(&self, endpoint: NonNull<Endpoint>, sent: Sent) -> bool {
        let state = self.contexts[0].state.lock();
        // SAFETY: the caller guarantees a live endpoint.
        let has_failed = unsafe { endpoint.as_ref() }.failure().is_some();
        let messages = state.messages.as_ref();
        has_failed || messages.is_none_or(|messages| messages.has_sent(endpoint, sent))
    }

    /// Sets the function that receives the messages of peers. With `None`, messages are dropped. The function runs in progress,
    /// on any thread that makes progress, for one message at a time. It may send, connect peers and post operations; it
    /// must not wait, because no further message arrives until it returns.
    pub fn on_receive(&self, receive: Option<Receive>) {
        *self
            .receive
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = receive;
    }

    /// Notes the address of a connected peer, by which its messages name it.
    pub(crate) fn expect_sends(&self, endpoint: NonNull<Endpoint>) {
        if self.policy.two_sided
            && let Some(messages) = &mut self.contexts[0].state.lock().messages
        {
            messages.connect(endpoint);
        }
    }

    /// Hands messages of peers to the host. The caller holds no lock. Returns their number.
    #[inline(never)]
    pub(crate) fn deliver_sends(&self, context: &Context, arrived: Arrived) -> usize {
        let receive = *self
            .receive
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let owner = self.setup.owner.load(Ordering::Relaxed);
        let mut n = 0;
        let mut next = Some(arrived);
        while let Some(arrived) = next {
            let nested = context.delivering.begin();
            for message in arrived.iter() {
                n += 1;
                if let Some(Receive { function, context }) = receive {
                    let (data, size) = (message.bytes.as_ptr().cast(), message.bytes.len());
                    // SAFETY: NULL, or an endpoint of a peer that was connected when this delivery began: its place stays readable
                    // until the transport closes.
                    let peer = unsafe { message.endpoint.as_ref() };
                    // The peer may have been released meanwhile, by this function or by another thread.
                    let peer = peer.filter(|peer| peer.is_connected());
                    let endpoint = peer.map_or(ptr::null(), ptr::from_ref).cast_mut().cast();
                    // SAFETY: the host set this function with its argument, and allows it to run on any thread that makes
                    // progress. The bytes are valid during the call.
                    unsafe { function(owner, endpoint, message.tag, data, size, context) };
                }
            }
            context.delivering.end(nested);
            let mut state = context.state.lock();
            next = state
                .messages
                .as_mut()
                .and_then(|messages| messages.next_delivery(arrived));
        }
        n
    }
}

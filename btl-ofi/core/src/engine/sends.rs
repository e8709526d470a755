//! Two-sided messages of the host: bytes with a tag. The peer's host receives messages by a function (BTL's `send` and
//! active messages). `fabric::msg` carries them.

use std::ptr::NonNull;

use plugin_api::Status;

use crate::base::guarded::guarded;
use crate::core::receive::Receive;
use crate::engine::transport::Transport;
use crate::fabric::msg::{LARGEST_SEND, Leaves, Sent};
use crate::peer::endpoint::Endpoint;

impl Transport {
    /// Sends `size` bytes with a tag to a peer. The peer's progress passes the bytes to its host's function for
    /// messages. `fill` writes the bytes to the address that it receives, which is aligned to 8; it must not call the
    /// transport.
    ///
    /// When this call returns, the transport no longer uses the caller's memory. The result says whether the message has
    /// left. A message that has not left arrives only if this process makes progress; [`has_sent`](Self::has_sent) returns
    /// whether it has left. Messages to one peer arrive in the order of their sends. Messages to a peer that fails are
    /// lost; the failure is reported.
    ///
    /// [`Status::NOT_SUPPORTED`]: `btl_ofi_mode` is 0. [`Status::BAD_PARAM`]: `size` exceeds
    /// [`send_limit`](crate::Capabilities::send_limit). [`Status::TEMP_OUT_OF_RESOURCE`]: too many messages wait for this
    /// peer, or with [`Leaves::Now`] the message cannot leave at once; make progress and try again. [`Status::UNREACH`]:
    /// the peer is gone. After an error nothing is sent; with [`Leaves::Now`], `fill` may have run.
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
        // The check is under the lock, because the messages to a failed peer end under it.
        if let Some(status) = peer.failure() {
            return Err(status);
        }
        let Some(messages) = &mut state.messages else {
            return Err(Status::NOT_SUPPORTED);
        };
        // Other requests to the peer may be ahead in the provider's queue.
        let is_alone = peer.is_idle();
        // SAFETY: the caller guarantees a live endpoint and that `fill` writes `size` bytes; the line of a peer is removed
        // before its endpoint.
        let sent = unsafe { messages.send(endpoint, (tag, size, leaves), is_alone, fill) };
        let failures = messages.origin.has_failures();
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

    /// Whether a message to a peer has left: the provider has sent it on, or the peer failed and nothing more leaves.
    ///
    /// # Safety
    /// `endpoint` came from [`connect`](Self::connect) and was not released.
    pub unsafe fn has_sent(&self, endpoint: NonNull<Endpoint>, sent: Sent) -> bool {
        let state = self.contexts[0].state.lock();
        // SAFETY: the caller guarantees a live endpoint.
        let has_failed = unsafe { endpoint.as_ref() }.failure().is_some();
        let messages = state.messages.as_ref();
        has_failed || messages.is_none_or(|messages| messages.origin.has_sent(endpoint, sent))
    }

    /// Sets the function that receives the messages of peers. With `None`, messages are dropped. The function runs in
    /// progress, on any thread that makes progress, one message at a time. The function may send, connect peers and
    /// post operations. The function must not wait, because no further message arrives until it returns.
    pub fn on_receive(&self, receive: Option<Receive>) {
        *self
            .receive
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = receive;
    }

    /// Records the address of a connected peer; messages from the peer carry this address.
    pub(crate) fn expect_sends(&self, endpoint: NonNull<Endpoint>) {
        if self.policy.two_sided
            && let Some(messages) = &mut self.contexts[0].state.lock().messages
        {
            messages.connect(endpoint);
        }
    }

    /// Sends batches that are not full, without waiting for the next progress. Returns whether something is left to send.
    /// Does nothing while another thread uses the context.
    pub fn send_gathered(&self) -> bool {
        if !self.policy.has_messages() {
            return false;
        }
        let context = &self.contexts[0];
        if let Some(mut state) = context.state.try_lock()
            && let Some(messages) = &mut state.messages
            && messages.has_work()
        {
            messages.send_waiting();
            let left = messages.has_work();
            if messages.origin.has_failures() {
                self.tell_failures(context, state);
            }
            return left;
        }
        false
    }

    /// Sends batches that are not full, as far as there is room, and reads nothing. For operations that only peers wait
    /// for: this process may make no progress for a long time.
    pub fn send_now(&self) {
        if !self.policy.has_messages() {
            return;
        }
        let context = &self.contexts[0];
        let mut state = context.state.lock();
        if let Some(messages) = &mut state.messages
            && messages.has_work()
        {
            messages.send_for_peers();
            if messages.origin.has_failures() {
                self.tell_failures(context, state);
            }
        }
    }
}

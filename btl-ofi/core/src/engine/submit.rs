//! The general entry of all operations.

use std::ptr::NonNull;

use plugin_api::Status;

use crate::engine::transport::Transport;
use crate::op::request::{Action, Op};
use crate::peer::endpoint::Endpoint;
use crate::peer::route::Atomics;

impl Transport {
    /// Executes a request: posts it, completes it, or refuses it. For common cases, callers try the fast paths first
    /// ([`try_transfer`](Self::try_transfer) and similar functions). A fast path does the same faster, or does
    /// nothing.
    ///
    /// Returns [`Status::SUCCESS`] for a posted operation: its callback or [`flush`](Self::flush) reports the
    /// completion. Returns [`Status::COMPLETED`] for an operation that is already complete, if the transport [answers
    /// at once](Self::answer_at_once); no callback runs then. Returns a status that [says "again"](Status::is_again)
    /// if there was no room to post the operation. Any other status means that the operation was refused.
    ///
    /// # Safety
    /// `endpoint` came from [`connect`](Self::connect). The buffers are readable, or writable where the request writes
    /// to them, until the operation completes; its handles are NULL or handles of this transport.
    pub unsafe fn submit(&self, endpoint: NonNull<Endpoint>, op: &Op<'_>) -> Status {
        if self.is_copy() {
            return self.refuse_copy();
        }
        // SAFETY: the caller's guarantees.
        let status = unsafe { self.execute(endpoint, op) };
        if status.is_ok() {
            return status;
        }
        self.after_refusal(endpoint, status)
    }

    /// [`submit`](Self::submit) for callers that act on failures themselves, or that must not act on them.
    ///
    /// # Safety
    /// The conditions of [`submit`](Self::submit).
    pub(crate) unsafe fn execute(&self, endpoint: NonNull<Endpoint>, op: &Op<'_>) -> Status {
        // SAFETY: the caller guarantees that `endpoint` is live, the buffers are valid until completion, and the handles
        // are NULL or readable.
        unsafe {
            let status = match op.action {
                Action::Put => self.transfer(endpoint, op, true),
                Action::Get => self.transfer(endpoint, op, false),
                Action::Atomic {
                    kind,
                    datatype,
                    op: code,
                    compare,
                } => {
                    if op.is_fenced && !self.follows_all(endpoint, op.are_copied) {
                        return Status::NOT_SUPPORTED;
                    }
                    let posted = self.atomic(endpoint, op, (kind, datatype, code, compare));
                    if op.is_unawaited {
                        self.leave_unawaited(endpoint);
                    }
                    posted
                }
            };
            match status {
                Ok(status) => status,
                // A buffer is on a device.
                Err(_) if op.is_checked() => Status::NOT_SUPPORTED,
                Err(refusal) => self.submit_device(endpoint, refusal, op),
            }
        }
    }

    /// Tells the messages that nobody waits for what gathers for a peer.
    #[cold]
    fn leave_unawaited(&self, endpoint: NonNull<Endpoint>) {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        if unsafe { endpoint.as_ref() }.atomics() == Atomics::Message
            && let Some(messages) = &mut self.contexts[0].state.lock().messages
        {
            messages.origin.leave_unawaited(endpoint);
        }
    }

    /// Whether the target executes an atomic that is posted now behind every outstanding operation to the peer: there is none,
    /// or the atomic is a message, and so are all of them, because messages keep their order. With `are_copied`, the messages must
    /// also have no results, and leave with the next call of progress. Bytes that travel to the target are copied into messages.
    #[cold]
    fn follows_all(&self, endpoint: NonNull<Endpoint>, are_copied: bool) -> bool {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        if peer.is_idle() && !are_copied {
            return true;
        }
        if peer.atomics() != Atomics::Message {
            return false;
        }
        let state = self.contexts[0].state.lock();
        let outstanding = peer.total().outstanding();
        let messages = state.messages.as_ref();
        messages.is_some_and(|messages| {
            messages.origin.operations_to(endpoint) == outstanding
                && (!are_copied || messages.leaves_at_once(endpoint))
        })
    }
}

//! Posts that the provider refused: acts on the failures behind them, and returns the status to the caller.

use crate::base::guarded::guarded;
use crate::carrier::provider::post::Posting;
use crate::core::context::{Context, State};
use crate::engine::transport::Transport;
use crate::op::record::Record;
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;
use plugin_api::Status;
use std::ptr::NonNull;

impl Transport {
    /// Finishes a post with the provider's return code.
    ///
    /// # Safety
    /// `T` says whether the transport was opened for threads. [`begin`](Self::begin) or
    /// [`begin_untracked`](Self::begin_untracked) made the posting.
    #[inline(always)]
    pub(crate) unsafe fn end<const T: bool>(
        &self,
        posting: Posting<'_>,
        rc: isize,
    ) -> Option<Status> {
        let Posting { context, state, .. } = posting;
        if rc != 0 {
            state.leak();
            // Without threads nothing else needs the context after the call. So the context is looked up again instead
            // of kept in a register.
            let context = if T { context } else { self.context_as::<T>() };
            return Some(self.unposted_on_fast_path(context, rc));
        }
        // SAFETY: the caller guarantees that the posting locked the context with the same `T`.
        unsafe { state.unlock_as(T) };
        Some(Status::SUCCESS)
    }

    /// [`unposted`](Self::unposted) for the fast path.
    #[cold]
    #[inline(never)]
    fn unposted_on_fast_path(&self, context: &Context, rc: isize) -> Status {
        // SAFETY: the caller left the context locked for this call.
        let state = unsafe { context.state.make_guard_unchecked() };
        let endpoint = attempted(&state);
        guarded(|| {
            let status = self.unposted(context, state, rc);
            match endpoint {
                Some(endpoint) => self.after_refusal(endpoint, status),
                None => status,
            }
        })
    }

    /// Acts on failures that a refused post may have found. Returns the caller's status: the peer's failure if it caused
    /// the refusal, otherwise `status`. The caller holds no lock, except perhaps a lock on operations
    /// ([`quietly`](Self::quietly)).
    #[cold]
    #[inline(never)]
    pub(crate) fn after_refusal(&self, endpoint: NonNull<Endpoint>, status: Status) -> Status {
        if self.act_on_failures() == 0 {
            return status;
        }
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        unsafe { endpoint.as_ref() }.failure().unwrap_or(status)
    }
}

/// The peer of the operation that is being posted.
fn attempted(state: &State) -> Option<NonNull<Endpoint>> {
    let pointer = state.attempt.pointer;
    let tag = Tag::from_untracked(pointer).or_else(|| {
        // SAFETY: `begin` took the record from the pool, and the operation was not withdrawn.
        NonNull::new(pointer.cast()).map(|record| unsafe { Record::tag(record) })
    });
    tag.and_then(|tag| NonNull::new(tag.endpoint()))
}

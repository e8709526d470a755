//! Posts that the provider refused.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use libfabric_sys as ffi;
use plugin_api::Status;
use plugin_api::counters::Carrier;

use crate::base::error::status_of;
use crate::base::lock::Guard;
use crate::core::context::{Attempt, Context, State};
use crate::core::state::Core;
use crate::detector::Cause;
use crate::op::tag::Tag;
use crate::peer::counters::add;
use crate::peer::endpoint::Endpoint;

/// After this many refused posts, this process checks whether the peer still runs.
const AGAIN_CHECK: u64 = 4096;

impl Core {
    /// Undoes an operation whose post the provider refused.
    #[cold]
    #[inline(never)]
    pub(crate) fn unposted(
        &self,
        context: &Context,
        mut state: Guard<'_, State>,
        rc: isize,
    ) -> Status {
        let Attempt { pointer, bytes } = state.attempt;
        let tag = match (Tag::from_untracked(pointer), NonNull::new(pointer.cast())) {
            (Some(tag), _) => tag,
            // SAFETY: `begin` or `post` took the record from the pool; the provider refused the operation and
            // does not use it.
            (None, Some(record)) => unsafe { state.pool.give_back(record) }.tag,
            (None, None) => return Status::ERROR,
        };
        state.counts.again += 1;
        let count = state.counts.again;
        let Some(endpoint) = NonNull::new(tag.endpoint()) else {
            return Status::ERROR;
        };
        // The refusal is counted under the lock, because another thread's post may count without a
        // locked instruction. SAFETY: the caller of the operation guarantees that `endpoint` is
        // live.
        let peer = unsafe { endpoint.as_ref() };
        let counters = self.quick.counters.of(peer, context.share);
        let carried = &counters.carried[Carrier::Provider as usize];
        carried.operations.fetch_sub(1, Ordering::Relaxed);
        carried.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        // The count is lowered under the lock, so that `count_activity` does not see the raised
        // count.
        self.lower(context, tag, 1);
        drop(state);
        self.refused(endpoint, context, rc, count)
    }

    /// Returns the status of a refused post. If a peer died with its command queue full, shm refuses forever,
    /// so the peer is checked after every `AGAIN_CHECK` refusals.
    #[cold]
    #[inline(never)]
    pub(crate) fn refused(
        &self,
        endpoint: NonNull<Endpoint>,
        context: &Context,
        rc: isize,
        count: u64,
    ) -> Status {
        let status = i32::try_from(-rc).map_or(Status::ERROR, status_of);
        if status == Status::TEMP_OUT_OF_RESOURCE {
            // SAFETY: the caller of the operation guarantees that `endpoint` is live.
            let peer = unsafe { endpoint.as_ref() };
            let counters = self.quick.counters.of(peer, context.share);
            add(&counters.again, 1, self.setup.threaded);
            if count.is_multiple_of(AGAIN_CHECK) {
                self.check_peers(Some(endpoint));
            }
            // Completions free room in the provider. While this context's callbacks run, a poll would nest.
            if !self.must_not_poll(context) {
                self.poll(context);
            }
        } else if status == Status::UNREACH {
            self.fail_peer(
                endpoint,
                Cause::Gone,
                status,
                "the provider refuses to send to it",
            );
        } else {
            // Some providers report a lost connection as an unspecific error.
            self.check_peers(Some(endpoint));
        }
        status
    }

    /// Refuses an operation because this transport has no room for it, with the same status as if
    /// the provider had none.
    #[cold]
    pub(crate) fn refuse_for_now(&self, endpoint: NonNull<Endpoint>, context: &Context) -> Status {
        let count = {
            let mut state = context.state.lock();
            state.counts.again += 1;
            state.counts.again
        };
        self.refused(endpoint, context, -(ffi::FI_EAGAIN as isize), count)
    }
}

//! Progress of the rings: commands of peers, answers to this process, and how often the provider's queue is read beside
//! them.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use plugin_api::Status;

use crate::base::hints::branch;
use crate::base::lock::Guard;
use crate::core::context::{Context, State};
use crate::core::failures::Reporting;
use crate::core::state::Core;
use crate::op::completion::Finished;
use crate::peer::endpoint::Endpoint;
use crate::sm::requester::Done;

/// One of this many polls reads the provider's queue even if the rings have work.
const PROVIDER_INTERVAL: u32 = 8;

impl Core {
    /// Executes the commands that arrived, reads answers and delivers them. Returns the guard if this context has no
    /// rings. With `with_queue`, also returns it if the caller must read the provider's queue: at intervals, and if the
    /// rings are empty and the provider reaches a peer.
    #[inline(always)]
    pub(crate) fn poll_channel<'a>(
        &self,
        context: &Context,
        mut state: Guard<'a, State>,
        with_queue: bool,
    ) -> Result<usize, Guard<'a, State>> {
        let Some(channel) = &mut state.channel else {
            return Err(state);
        };
        channel.attend(self.registrar.table());
        if with_queue && channel.polls().is_multiple_of(PROVIDER_INTERVAL) {
            return Err(state);
        }
        let only_rings = !(with_queue && self.node.uses_fabric.load(Ordering::Relaxed));
        if channel.is_quiet() {
            return self.nothing_in_rings(context, state, only_rings);
        }
        branch();
        if !channel.is_active() {
            return Ok(self.only_served(context, state));
        }
        let mut done = Done::new();
        channel.collect(&mut done);
        let n = done.finished().len() + usize::from(done.refused.is_some());
        if n == 0 {
            if let Some((endpoint, refused)) = done.doubted {
                self.examine_later(endpoint, refused);
                return Ok(0);
            }
            if channel.has_served() {
                return Ok(self.only_served(context, state));
            }
            return self.nothing_in_rings(context, state, only_rings);
        }
        state.counts.completed += done.finished().len() as u64;
        state.counts.failed += u64::from(done.refused.is_some());
        let ready = state.take_ready();
        drop(state);
        self.deliver(context, done.finished(), Status::SUCCESS);
        if let Some((f, status)) = done.refused {
            self.deliver_refused(context, f, status);
        }
        Ok(n + self.deliver_ready(context, ready))
    }

    /// Ends a poll in which no ring had an answer. The poll may continue with the provider's queue.
    #[inline]
    fn nothing_in_rings<'a>(
        &self,
        context: &Context,
        state: Guard<'a, State>,
        only_rings: bool,
    ) -> Result<usize, Guard<'a, State>> {
        if only_rings {
            Ok(self.without_entry(context, state))
        } else {
            Err(state)
        }
    }

    /// Ends a poll that executed commands of peers and found no answer. Such a poll counts as successful, because the
    /// next commands will probably arrive soon.
    #[inline(never)]
    fn only_served(&self, context: &Context, mut state: Guard<'_, State>) -> usize {
        if let Some(channel) = &mut state.channel {
            channel.clear_served();
        }
        self.without_entry(context, state) + 1
    }

    #[cold]
    fn deliver_refused(&self, context: &Context, f: Finished, status: Status) {
        let gone = status == Status::UNREACH;
        // A release that waits for the operation keeps the endpoint until this report is over.
        let _reporting = gone.then(|| Reporting::begin(&self.failures));
        let what = if gone {
            "its process no longer runs"
        } else {
            "the target refused it: its handle names no region there with this access, or the memory is not mapped"
        };
        self.tell_failed(&[f], status, what);
        self.deliver(context, &[f], status);
        if gone && let Some(endpoint) = NonNull::new(f.tag.endpoint()) {
            self.fail_peer(endpoint, status, what);
        }
    }

    /// Reports every operation in the ring of a failed peer.
    #[cold]
    pub(crate) fn abandon_commands(&self, endpoint: NonNull<Endpoint>, status: Status, why: &str) {
        let context = &self.contexts[0];
        let mut unreported = Vec::new();
        loop {
            let mut done = Done::new();
            let abandoned = {
                let mut state = context.state.lock();
                let Some(channel) = &mut state.channel else {
                    return;
                };
                let abandoned = channel.abandon(endpoint, &mut done);
                state.counts.completed += done.finished().len() as u64;
                let failed = abandoned.is_some() || done.refused.is_some();
                state.counts.failed += u64::from(failed);
                abandoned
            };
            self.deliver(context, done.finished(), Status::SUCCESS);
            if let Some((f, status)) = done.refused {
                self.deliver_refused(context, f, status);
            }
            match abandoned {
                Some(f) if f.function.is_some() => self.deliver(context, &[f], status),
                Some(f) => unreported.push(f),
                None if done.finished().is_empty() && done.refused.is_none() => break,
                None => {}
            }
        }
        if let Some(f) = unreported.first() {
            self.fail_operations(f.tag, unreported.len() as u32, status, why);
            self.deliver(context, &unreported, status);
        }
    }

    /// Peers that closed their transports while operations were outstanding in their rings.
    pub(crate) fn closed_peers(&self) -> Vec<NonNull<Endpoint>> {
        let mut state = self.contexts[0].state.lock();
        let Some(channel) = &mut state.channel else {
            return Vec::new();
        };
        channel.remove_lost();
        channel.closed().collect()
    }
}

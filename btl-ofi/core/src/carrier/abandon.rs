//! Ends the operations to a peer that failed or is released, carrier by carrier.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use plugin_api::Status;

use crate::core::context::State;
use crate::core::state::Core;
use crate::fabric::msg::Ended;
use crate::op::completion::Finished;
use crate::op::record::Record;
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;
use crate::sm::requester::Done;

impl Core {
    /// Reports operations that are outstanding at the provider as failed, unless the provider refused to close the
    /// endpoints: it may then still access their buffers. Operations on device memory end with their parts and copies
    /// (`fail_staged`). Also ends all unconfirmed puts.
    ///
    /// `is_staged` recognizes operations on device memory. `is_staged` is called for records in use, under the lock of
    /// their pool.
    pub(crate) fn report_outstanding(
        &self,
        endpoint: NonNull<Endpoint>,
        (status, why): (Status, &str),
        is_staged: impl Fn(NonNull<Record>) -> bool,
    ) {
        let is_kept = self.failures.refused_to_close.load(Ordering::Relaxed);
        for context in &self.contexts {
            let mut state = context.state.lock();
            let records = state.pool.in_use(Some(endpoint));
            let silenced = records
                .into_iter()
                .filter_map(|r| match is_kept || is_staged(r) {
                    true => None,
                    // SAFETY: `in_use` found the records in use, and the lock is held.
                    false => unsafe { state.pool.silence(r) },
                });
            let silenced: Vec<Finished> = silenced.collect();
            let puts = state.confirmations.as_mut().map(|c| c.abandon(endpoint));
            drop(state);
            for f in silenced {
                self.call_only(&f, status);
            }
            if let Some(puts) = puts {
                self.end_puts(context, puts, status, why);
            }
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

    /// Ends all operations that messages carry to a failed peer.
    #[cold]
    pub(crate) fn abandon_messages(&self, endpoint: NonNull<Endpoint>, status: Status, why: &str) {
        let ended = {
            let mut state = self.contexts[0].state.lock();
            let Some(messages) = &mut state.messages else {
                return;
            };
            let ended = messages.origin.abandon(endpoint, status);
            self.count_abandoned(&mut state, endpoint, &ended);
            ended
        };
        self.report_abandoned(endpoint, ended, status, why);
    }

    /// Counts operations to a peer that were abandoned. The caller still holds the lock under which
    /// they were abandoned.
    pub(crate) fn count_abandoned(
        &self,
        state: &mut State,
        endpoint: NonNull<Endpoint>,
        ended: &Ended,
    ) {
        let lost: u32 = ended.lost.iter().map(|(_, n, _)| n).sum();
        state.counts.failed += ended.refused.len() as u64 + u64::from(lost);
        self.count_failed(Tag::new(endpoint, 0, 0), ended.silent());
        for (tag, n) in &ended.untracked {
            self.lower(&self.contexts[0], *tag, *n);
        }
    }

    /// Reports operations that were abandoned. The caller holds no lock.
    #[cold]
    pub(crate) fn report_abandoned(
        &self,
        endpoint: NonNull<Endpoint>,
        ended: Ended,
        status: Status,
        why: &str,
    ) {
        let silent = ended.silent();
        if silent > 0 {
            self.report_failures(Tag::new(endpoint, 0, 0), silent, status, why);
        }
        for (f, status) in ended.refused {
            self.deliver(&self.contexts[0], &[f], status);
        }
    }
}

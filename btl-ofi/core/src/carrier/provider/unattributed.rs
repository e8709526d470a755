//! Errors of a provider that name no operation.

use crate::core::context::Context;
use crate::core::failures::Reporting;
use crate::core::state::Core;
use crate::op::completion::Finished;
use crate::op::record::Record;
use crate::op::tag::Tag;
use plugin_api::Status;
use std::ptr::NonNull;

impl Core {
    /// Some providers (shm if CMA fails) report an error that names no operation. Each outstanding operation either
    /// completes or is one of the failed ones. So if the number of outstanding operations equals the number of these
    /// errors, all outstanding operations have failed.
    #[cold]
    pub(crate) fn settle_unattributed(&self) -> usize {
        // This status does not depend on the errors: the status of a lost peer would mean that the peer is reported,
        // too.
        let status = Status::ERROR;
        let mut guards: Vec<_> = self.contexts.iter().map(|c| c.state.lock()).collect();
        let failed: u32 = guards.iter().map(|s| s.unattributed).sum();
        let ready: usize = guards.iter().map(|s| s.ready.len()).sum();
        if failed == 0 || ready != 0 {
            return 0;
        }
        // Compound and staged operations are counted in addition to their parts, and end with them.
        let mut kept: Vec<(usize, Tag)> = Vec::new();
        let mut recorded: Vec<(usize, NonNull<Record>)> = Vec::new();
        for (index, state) in guards.iter().enumerate() {
            for record in state.pool.in_use(None) {
                // SAFETY: `in_use` found the record in use, and the lock is held.
                let tag = unsafe { Record::tag(record) };
                match tag.is_whole() {
                    true => kept.push((index, tag)),
                    false => recorded.push((index, record)),
                }
            }
        }
        let counted: u32 = self.contexts.iter().map(|c| c.count.outstanding()).sum();
        if counted.wrapping_sub(kept.len() as u32) != failed {
            return 0;
        }
        for state in &mut guards {
            state.unattributed = 0;
        }
        let finished = recorded.into_iter().map(|(index, record)| {
            // SAFETY: `in_use` found the record in use, and the lock is held.
            (index, unsafe { guards[index].pool.give_back(record) })
        });
        let finished: Vec<(usize, Finished)> = finished.collect();
        let recorded: Vec<(usize, Tag)> = finished.iter().map(|(i, f)| (*i, f.tag)).collect();
        let mut suspects: Vec<_> = recorded.iter().map(|(_, tag)| tag.endpoint()).collect();
        let recorded = [recorded, kept].concat();
        // The remaining operations are untracked. The counts of untracked operations are lowered here, because no record
        // accounts for them.
        let mut lost = Vec::new();
        {
            let peers = self.lock_peers();
            for peer in peers.known.iter() {
                let endpoint = NonNull::from(peer);
                let mut untracked = 0;
                for (share, pair) in peer.total().pairs().enumerate() {
                    for phase in 0..2 {
                        let here = |(index, tag): &(usize, Tag)| {
                            let at = (self.contexts[*index].share.number(), tag.endpoint());
                            at == (share, endpoint.as_ptr()) && tag.endpoint_phase() == phase
                        };
                        let here = recorded.iter().filter(|one| here(one)).count() as u32;
                        let n = pair.outstanding_in(phase).saturating_sub(here);
                        if n > 0 {
                            self.count_failed(Tag::new(endpoint, 0, 0), n);
                            pair.lower(phase, n, self.setup.threaded);
                            untracked += n;
                        }
                    }
                }
                if untracked > 0 {
                    suspects.push(endpoint.as_ptr());
                    lost.push((endpoint, untracked));
                }
            }
        }
        for (index, context) in self.contexts.iter().enumerate() {
            for phase in 0..2 {
                let here = |i: usize, tag: Tag| i == index && tag.context_phase() == phase;
                let here = recorded.iter().filter(|(i, tag)| here(*i, *tag)).count() as u32;
                let pair = context.count.pair();
                let n = pair.outstanding_in(phase).saturating_sub(here);
                pair.lower(phase, n, self.setup.threaded);
            }
        }
        // A release in another thread keeps the endpoints until this report is over, although no
        // operation is outstanding.
        let _reporting = Reporting::begin(&self.failures);
        drop(guards);
        let what = "the provider reported an error without naming the operation";
        for (endpoint, n) in lost {
            self.report_failures(Tag::new(endpoint, 0, 0), n, status, what);
        }
        let count = failed as usize;
        for (index, f) in finished {
            let context: &Context = &self.contexts[index];
            self.tell_failed(&[f], status, what);
            self.deliver(context, &[f], status);
        }
        suspects.sort_unstable();
        suspects.dedup();
        for endpoint in suspects {
            self.check_peers(NonNull::new(endpoint));
        }
        count
    }
}

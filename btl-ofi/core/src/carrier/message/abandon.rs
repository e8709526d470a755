//! Ends the messages to a peer that failed or is released.

use crate::core::context::State;
use crate::core::state::Core;
use crate::fabric::msg::Ended;
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;
use plugin_api::Status;
use std::ptr::NonNull;

impl Core {
    /// Ends all operations that messages carry to a failed peer.
    #[cold]
    pub(crate) fn abandon_messages(&self, endpoint: NonNull<Endpoint>, status: Status, why: &str) {
        let ended = {
            let mut state = self.contexts[0].state.lock();
            let Some(messages) = &mut state.messages else {
                return;
            };
            let ended = messages.abandon(endpoint, status);
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

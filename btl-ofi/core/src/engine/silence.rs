//! Warnings about peers that owe an answer for a long time. A peer that is stopped, or that completes nothing for another
//! reason, fails only if the user sets `btl_ofi_peer_timeout`. A debugger also stops peers, and they continue later.

use std::ptr::NonNull;

use crate::base::descriptors;
use crate::core::context::Context;
use crate::detector::{Action, Cause};
use crate::engine::transport::Transport;
use crate::peer::endpoint::Endpoint;

/// Maximum silent peers that one check logs, so that a broken network does not flood the log.
const MOST: usize = 3;

/// A peer that must fail, and the reason.
pub(crate) type Failing = (NonNull<Endpoint>, Cause, String);

impl Transport {
    /// Logs peers that owe an answer for a long time, and peers that answer again. Adds the peers that
    /// must fail to `failing`.
    pub(super) fn check_silence(&self, failing: &mut Vec<Failing>) {
        let busy = |context: &Context| !context.count.total().is_idle();
        let busy = self.contexts.iter().any(busy);
        let actions = {
            let peers = self.lock_peers();
            self.detector.lock().look(&peers.known, busy)
        };
        let mut told = 0;
        for (endpoint, action) in actions {
            // SAFETY: the report that the caller began keeps the endpoint.
            let peer = unsafe { endpoint.as_ref() };
            match action {
                Action::Fail(cause, why) => {
                    failing.push((endpoint, cause, why));
                    continue;
                }
                Action::Warn(lasted) if told < MOST => self.tell_of_silence(peer, lasted),
                Action::Welcome(lasted) if told < MOST => tracing::warn!(
                    "{}process {} answers again, after {} s",
                    self.failures.of,
                    peer.proc,
                    lasted / 1000
                ),
                _ => {}
            }
            told += 1;
        }
        if told > MOST {
            tracing::warn!("the same holds for {} other processes", told - MOST);
        }
    }

    fn tell_of_silence(&self, peer: &Endpoint, lasted: u64) {
        let waits = match peer.total().outstanding() {
            0 => String::from("this process waits"),
            n => format!("{n} operations to it are outstanding"),
        };
        let short = descriptors::shortage().map_or_else(String::new, |short| format!("; {short}"));
        tracing::warn!(
            "{}process {} has not answered for {} s, {waits}: it computes without communicating, is \
             stopped, or its host or the network is down (btl_ofi_peer_timeout would give it up){short}",
            self.failures.of,
            peer.proc,
            lasted / 1000
        );
    }

    /// Fails the provider if it cannot accept the connections of peers.
    pub(super) fn check_connections(&self) {
        let name = self.device.name();
        let waits = name.is_ok_and(descriptors::keep_a_peer_waiting);
        if let Some(lasted) = self.detector.lock().connection(waits) {
            self.fail_provider(&format!(
                "a peer has waited {} s for this process to accept its connection, for which no descriptor is left: raise the hard \
                 limit (ulimit -Hn) where the job starts",
                lasted / 1000
            ));
        }
    }
}

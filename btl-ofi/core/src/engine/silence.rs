//! Warnings of silent peers (`detector::silence`), and the end of a module that cannot accept its peers' connections.

use crate::base::descriptors;
use crate::core::state::Core;
use crate::detector::{FIRST, LOOK, News, Watches};

/// Most peers that one look tells of, so that a network that is gone fills no log.
const MOST: usize = 3;

impl Core {
    /// Tells of silent peers, `elapsed` milliseconds after the last call. What is longer than a look is time spent elsewhere.
    /// Checks are further apart than their interval where polls are slow (sockets, few processors), and no peer fails
    /// here: so more of it counts than in `engine::liveness`.
    #[cold]
    pub(crate) fn tell_of_silence(&self, elapsed: u64) {
        let mut news: Vec<(u64, u32, News)> = Vec::new();
        let unaccepted;
        {
            let mut peers = self.lock_peers();
            let peers = &mut *peers;
            let Watches {
                silences,
                heartbeats,
                ..
            } = &mut peers.watches;
            silences.passed += elapsed.min(LOOK);
            if silences.passed < LOOK {
                return;
            }
            let passed = std::mem::take(&mut silences.passed);
            let waits = self
                .device
                .name()
                .is_ok_and(descriptors::keep_a_peer_waiting);
            silences.unaccepted = if waits {
                silences.unaccepted + passed
            } else {
                0
            };
            unaccepted = silences.unaccepted;
            for peer in peers.known.iter() {
                if peer.failure().is_some() {
                    silences.remove(peer.proc);
                } else if let Some(found) = silences.look(peer, heartbeats.awaits(peer), passed) {
                    news.push((peer.proc, peer.total().outstanding(), found));
                }
            }
        }
        let of = &self.failures.of;
        let silent = news
            .iter()
            .any(|(.., news)| matches!(news, News::Silent(_)));
        let short = silent.then(descriptors::shortage).flatten();
        let short = short.map_or_else(String::new, |short| format!("; {short}"));
        for (proc, outstanding, news) in news.iter().take(MOST) {
            match news {
                News::Silent(lasted) => {
                    let waits = match outstanding {
                        0 => String::from("this process waits"),
                        n => format!("{n} operations to it are outstanding"),
                    };
                    tracing::warn!(
                        "{of}process {proc} has not answered for {} s, {waits}: it computes without communicating, is \
                         stopped, or its host or the network is down (btl_ofi_peer_timeout would give it up){short}",
                        lasted / 1000
                    );
                }
                News::Answers(lasted) => {
                    tracing::warn!(
                        "{of}process {proc} answers again, after {} s",
                        lasted / 1000
                    );
                }
            }
        }
        if unaccepted >= FIRST {
            self.fail_provider(&format!(
                "a peer has waited {} s for this process to accept its connection, for which no descriptor is left: raise the hard \
                 limit (ulimit -Hn) where the job starts",
                unaccepted / 1000
            ));
        }
        if news.len() > MOST {
            tracing::warn!("the same holds for {} other processes", news.len() - MOST);
        }
    }
}

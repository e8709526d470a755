//! What a peer has done between two checks, and whether it counts as silent with `btl_ofi_peer_timeout`.

use std::collections::HashMap;

use crate::detector::heartbeats::Heartbeats;
use crate::detector::long::LongTransfers;
use crate::detector::silence::Silences;
use crate::peer::endpoint::{COPY_FOR_DETECTOR, Endpoint, PART_FOR_DETECTOR};
use crate::peer::liveness::State;
use crate::peer::outstanding::{Backlog, Mark};
use crate::peer::trial::Trial;

/// State of one peer between two checks.
#[derive(Debug)]
struct Watched {
    mark: Mark,
    backlog: Backlog,
    /// Milliseconds with outstanding operations and no completion, not even of a part, or with a heartbeat that is not answered.
    silent: u64,
    /// Milliseconds since a check first found the process stopped or gone. The interval before that check does
    /// not count.
    away: Option<u64>,
}

/// State of all peers after the last check.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    peers: HashMap<u64, Watched>,
    /// Kept only with a peer timeout.
    pub(crate) long: LongTransfers,
    /// Trial connections to peers that the provider takes nothing for, by process number.
    pub(crate) trials: HashMap<u64, Trial>,
    /// Peers that do not answer.
    pub(crate) silences: Silences,
    pub(crate) heartbeats: Heartbeats,
    /// Milliseconds from the opening to the last check.
    pub(crate) last: u64,
}

impl Watches {
    /// Notes what a peer has done in the `passed` milliseconds since the last check. Returns why it counts as silent if it
    /// does so for `limit` milliseconds. Of the remote peers, which may be a million, it keeps
    /// only those that owe an answer.
    pub(crate) fn observe(
        &mut self,
        peer: &Endpoint,
        state: Option<State>,
        passed: u64,
        limit: u64,
    ) -> Option<String> {
        let idle = peer.is_idle();
        let asked = self.heartbeats.awaits(peer);
        if state.is_none() && idle && !asked {
            self.peers.remove(&peer.proc);
            self.long.remove(peer.proc);
            return None;
        }
        let more = self.long.time_of(peer);
        let Some(watched) = self.peers.get_mut(&peer.proc) else {
            let watched = Watched {
                mark: peer.total().mark(),
                backlog: peer.total().backlog(),
                silent: 0,
                away: is_away(state).then_some(0),
            };
            self.peers.insert(peer.proc, watched);
            return None;
        };
        watched.update(peer, state, passed, idle && asked);
        watched.failure_reason((limit, more), idle)
    }

    pub(crate) fn remove(&mut self, proc: u64) {
        self.peers.remove(&proc);
        self.long.remove(proc);
        self.trials.remove(&proc);
        self.silences.remove(proc);
        self.heartbeats.remove(proc);
    }
}

fn is_away(state: Option<State>) -> bool {
    matches!(state, Some(State::Stopped | State::Gone))
}

impl Watched {
    /// `asked`: only a heartbeat is to be answered.
    fn update(&mut self, peer: &Endpoint, state: Option<State>, passed: u64, asked: bool) {
        let part = peer.take_mark(PART_FOR_DETECTOR);
        let copies = peer.take_mark(COPY_FOR_DETECTOR);
        if asked {
            self.silent += passed;
            self.mark = peer.total().mark();
        } else if peer.total().settle(self.mark) {
            self.mark = peer.total().mark();
            self.silent = 0;
        } else if part || peer.total().backlog().is_less_than(self.backlog) {
            // Some operations completed, or parts of one, though not yet all of the backlog.
            self.silent = 0;
        } else if !copies {
            self.silent += passed;
        }
        self.backlog = peer.total().backlog();
        self.away = is_away(state).then(|| self.away.map_or(0, |before| before + passed));
    }

    /// `more`: milliseconds beyond the limit for long transfers.
    fn failure_reason(&self, (limit, more): (u64, u64), idle: bool) -> Option<String> {
        if let Some(away) = self.away.filter(|away| *away >= limit) {
            return Some(format!(
                "its process on this node has been stopped or gone for {away} ms (btl_ofi_peer_timeout {limit})"
            ));
        }
        let what = match idle {
            true => "this process waits, and it has not answered a heartbeat",
            false => "operations to it are outstanding, and none completed",
        };
        let for_long = match more {
            0 => String::new(),
            more => format!(", and {more} ms for long transfers"),
        };
        (self.silent >= limit + more).then(|| {
            format!(
                "{what} for {} ms (btl_ofi_peer_timeout {limit}{for_long})",
                self.silent
            )
        })
    }
}

#[cfg(test)]
mod tests;

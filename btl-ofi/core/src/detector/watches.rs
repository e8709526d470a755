//! All watched peers, the time that counts, and the activity of contexts.

use std::collections::HashMap;
use std::ops::Range;
use std::ptr::NonNull;

use crate::detector::Cause;
use crate::detector::heartbeats::Heartbeats;
use crate::detector::long::LongTransfers;
use crate::detector::peer::{Action, FIRST, Passed, Refused, Watched};
use crate::peer::endpoint::Endpoint;
use crate::peer::liveness::State;
use crate::peer::table::Endpoints;

/// Maximum milliseconds between two checks that count for warnings, and milliseconds between two looks if no peer fails by
/// silence. Checks are further apart than their interval if polls are slow (sockets, few processors).
const LOOK: u64 = 1000;
/// Number of peers that owe an answer for which room is reserved from the start. A look, which any call of progress may
/// begin, then allocates nothing in most jobs.
const ROOM: usize = 28;
/// Number of local peers that owe nothing and whose processes one check looks at, and number of table places that one look
/// searches for remote peers that owe an answer. Later checks and looks take the others in turn.
const LOCAL: usize = 64;
const REMOTE: usize = 1 << 16;

/// Time in which this process polled, in milliseconds. While this process is stopped or computes, the time counts as no
/// peer's silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    /// The clock for failures. Of the time between two checks, at most their interval counts.
    pub(super) silent: u64,
    /// The clock for warnings. Of the time between two checks, at most [`LOOK`] counts.
    pub(super) told: u64,
}

/// A cursor that passes through all places of a table, a part of them at a time.
#[derive(Debug, Default)]
struct Turn(usize);

impl Turn {
    /// The next `most` places, out of `of` places.
    fn next(&mut self, of: usize, most: usize) -> Range<usize> {
        let begin = if self.0 < of { self.0 } else { 0 };
        self.0 = begin + most;
        begin..begin + most
    }
}

/// State of all peers after the last check.
#[derive(Debug)]
pub(crate) struct Watches {
    limit: u64,
    interval: u64,
    /// Milliseconds from the opening to the last check.
    last: u64,
    now: Clock,
    /// The time of the last look at the peers.
    looked: Clock,
    peers: HashMap<u64, Watched>,
    /// Used only with a peer timeout.
    pub(crate) long: LongTransfers,
    pub(crate) heartbeats: Heartbeats,
    /// The number of operations that were accepted or completed so far, and the same number at the
    /// last look.
    moves: u64,
    moves_before: u64,
    /// The time when this process last accepted connections.
    accepted: u64,
    local: Turn,
    remote: Turn,
}

impl Watches {
    /// State for a transport that checks its peers every `interval` milliseconds. If `limit` is not 0, it fails peers that
    /// are silent for `limit`.
    pub(crate) fn new(limit: u64, interval: u64) -> Watches {
        Watches {
            limit,
            interval,
            last: 0,
            now: Clock::default(),
            looked: Clock::default(),
            peers: HashMap::with_capacity(ROOM),
            long: LongTransfers::default(),
            heartbeats: Heartbeats::new(limit),
            moves: 0,
            moves_before: 0,
            accepted: 0,
            local: Turn::default(),
            remote: Turn::default(),
        }
    }

    /// Begins a check at `now` milliseconds after the opening. Returns whether a new second of the detector's clock has
    /// begun.
    pub(crate) fn tick(&mut self, now: u64) -> bool {
        let (elapsed, second) = (now.saturating_sub(self.last), self.now.told / LOOK);
        self.last = now;
        self.now.silent += elapsed.min(self.interval);
        self.now.told += elapsed.min(LOOK);
        self.now.told / LOOK != second
    }

    /// Records the number of operations that were taken or ended so far, and the number of copies that this process made
    /// within a call.
    pub(crate) fn activity(&mut self, moves: u64, copies: u64) {
        self.moves = moves;
        self.heartbeats.activity(self.now.silent, moves + copies);
    }

    /// Records that an operation to a peer failed, or that the provider refuses posts to the peer. The peer then owes an
    /// answer until the provider takes an operation, so a blocked provider is found even if nothing is outstanding.
    pub(crate) fn suspect(&mut self, peer: &Endpoint) {
        let watched = || Watched::new(peer, self.now);
        self.peers.entry(peer.proc).or_insert_with(watched).refused = Refused::Now;
    }

    /// Whether a round of heartbeats is due.
    pub(crate) fn beats(&mut self) -> bool {
        self.heartbeats.is_due(self.now.silent)
    }

    /// Whether a check must look at a peer's process outside of its turn: the peer has a state here, or owes an answer.
    pub(crate) fn has(&self, peer: &Endpoint) -> bool {
        !peer.is_idle() || self.peers.contains_key(&peer.proc) || self.heartbeats.awaits(peer)
    }

    /// The places of the local peers to check next, out of `of` places.
    pub(crate) fn local_turn(&mut self, of: usize) -> Range<usize> {
        self.local.next(of, LOCAL)
    }

    /// Records the state of a local peer's process, or the reason why the process is dead. With `missed`, the
    /// process is missed even if the peer owes nothing.
    pub(crate) fn process(
        &mut self,
        peer: &Endpoint,
        state: State,
        (gone, missed): (Option<String>, bool),
    ) -> Option<Action> {
        let is_gone = gone.is_some();
        if let Some(why) = gone.filter(|_| missed || !peer.is_idle()) {
            self.peers.remove(&peer.proc);
            return Some(Action::Fail(Cause::Gone, why));
        }
        let (is_away, now) = (state != State::Runs, self.now);
        if is_away && self.limit > 0 {
            let watched = || Watched::new(peer, now);
            self.peers.entry(peer.proc).or_insert_with(watched);
        }
        if let Some(watched) = self.peers.get_mut(&peer.proc) {
            watched.away = is_away.then(|| watched.away.unwrap_or(now));
        }
        is_gone.then_some(Action::Doubt)
    }

    /// Looks at the peers that owe an answer, and searches for further peers that owe one. `busy` says whether
    /// operations are outstanding.
    pub(crate) fn look(
        &mut self,
        known: &Endpoints,
        busy: bool,
    ) -> Vec<(NonNull<Endpoint>, Action)> {
        let mut actions = Vec::new();
        let passed = Passed {
            before: std::mem::replace(&mut self.looked, self.now),
            now: self.now,
            moved: std::mem::replace(&mut self.moves_before, self.moves) != self.moves,
        };
        let Watches {
            peers,
            long,
            heartbeats,
            limit,
            ..
        } = self;
        // SAFETY: connected peers are live while the table is borrowed.
        let living = |proc| known.find(proc).map(|peer| unsafe { peer.as_ref() });
        let living = |proc| living(proc).filter(|peer| peer.failure().is_none());
        long.retain(|proc| living(proc).is_some_and(|peer| !peer.is_idle()));
        peers.retain(|proc, watched| {
            let Some(peer) = living(*proc) else {
                return false;
            };
            let asked = heartbeats.awaits(peer);
            let more = match asked || !peer.is_idle() {
                true => long.time_of(peer),
                // Transfers to other peers may keep the provider from taking more operations.
                false => long.time_of_all(),
            };
            let (stays, action) = watched.look((peer, asked), passed, (*limit, more));
            actions.extend(action.map(|action| (NonNull::from(peer), action)));
            stays
        });
        let part = self.remote.next(known.remote_places(), REMOTE);
        let some = known.iter_remote(part).chain(known.iter_local());
        let owing = some.filter(|peer| busy && !peer.is_idle() && peer.failure().is_none());
        let asked = heartbeats.asked.iter().filter_map(|proc| living(*proc));
        for peer in owing.chain(asked) {
            let watched = || Watched::new(peer, passed.now);
            peers.entry(peer.proc).or_insert_with(watched);
        }
        actions
    }

    /// Records whether a peer's connection `waits` because this process has no descriptor for it. Returns how many
    /// milliseconds connections have waited, if this is long.
    pub(crate) fn connection(&mut self, waits: bool) -> Option<u64> {
        if !waits {
            self.accepted = self.now.told;
        }
        let lasted = self.now.told - self.accepted;
        (lasted >= FIRST).then_some(lasted)
    }

    /// Removes a peer that is released.
    pub(crate) fn abandon(&mut self, proc: u64) {
        self.peers.remove(&proc);
        self.long.remove(proc);
        self.heartbeats.remove(proc);
    }
}

#[cfg(test)]
mod tests;

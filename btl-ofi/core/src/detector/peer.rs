//! The state of one peer that owes an answer, or whose process is stopped or gone.

use crate::detector::Cause;
use crate::detector::watches::Clock;
use crate::peer::endpoint::{COPY, Endpoint, PART};
use crate::peer::outstanding::Backlog;

/// Milliseconds of silence after which it is told for the first time.
pub(super) const FIRST: u64 = 10_000;
/// Each report comes after this multiple of the silence before.
const FACTOR: u64 = 3;

/// What a check has to do for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Warn that the peer has not answered for this many milliseconds.
    Warn(u64),
    /// Report that the peer answers again after this many milliseconds.
    Welcome(u64),
    /// To look for its process before the next operation to it: the process is gone, but nothing is outstanding, so that is not reported.
    /// A process that has its id now must not be written to, and nobody serves its ring.
    Doubt,
    /// To fail it, for a reason.
    Fail(Cause, String),
}

/// What the transport has done since the last look.
#[derive(Clone, Copy)]
pub(super) struct Passed {
    /// The time of the last look, and of this one.
    pub(super) before: Clock,
    pub(super) now: Clock,
    /// Whether operations were taken or ended, of any peer.
    pub(super) moved: bool,
}

/// How long posts to a peer have been refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    No,
    /// Since the last look, too.
    Now,
    /// Before the last look. Nobody has posted much since, so the peer is not waited for.
    Earlier,
}

/// What is known of a peer between two looks. It is suspect once `next` is beyond [`FIRST`], and stalled before.
#[derive(Debug)]
pub(super) struct Watched {
    /// When it last gave a sign of life.
    lived: Clock,
    /// The silence after which it is told.
    next: u64,
    /// What its counts were at the last look, if operations were outstanding.
    counted: Option<Backlog>,
    pub(super) refused: Refused,
    /// When its process was found stopped or gone, which it still is.
    pub(super) away: Option<Clock>,
}

impl Watched {
    pub(super) fn new(peer: &Endpoint, now: Clock) -> Watched {
        Watched {
            lived: now,
            next: FIRST,
            counted: (!peer.is_idle()).then(|| count(peer)),
            refused: Refused::No,
            away: None,
        }
    }

    /// Looks at the peer, which has not answered a heartbeat if it was `asked`. Returns whether it is to be looked at again.
    pub(super) fn look(
        &mut self,
        (peer, asked): (&Endpoint, bool),
        passed: Passed,
        limit: (u64, u64),
    ) -> (bool, Option<Action>) {
        let Passed { before, now, moved } = passed;
        let operations = !peer.is_idle();
        let owes = operations || asked;
        let copies = self.counted.is_some() && operations && peer.take_mark(COPY);
        let lives = match owes {
            true => operations && self.has_completed(peer),
            false => self.refused == Refused::No || moved,
        };
        let rests = copies || !owes && self.refused == Refused::Earlier;
        self.refused = match self.refused {
            Refused::No => Refused::No,
            _ if lives || owes => Refused::No,
            Refused::Now | Refused::Earlier => Refused::Earlier,
        };
        if !operations {
            self.counted = None;
        }
        let action = if lives {
            self.lives(before, now)
        } else if rests {
            // A peer that is watched since the last look has rested since then.
            self.lived.silent += now.silent - before.silent.max(self.lived.silent);
            self.lived.told += now.told - before.told.max(self.lived.told);
            None
        } else {
            self.stalls(now)
        };
        if let Some(why) = self.failure(now, limit, (operations, asked)) {
            return (false, Some(Action::Fail(Cause::Silent, why)));
        }
        let stays = owes || self.away.is_some() || self.refused != Refused::No;
        (stays, action)
    }

    /// Whether an operation, or a part of one, completed since the last look.
    fn has_completed(&mut self, peer: &Endpoint) -> bool {
        let now = count(peer);
        let before = self.counted.replace(now);
        peer.take_mark(PART) || before.is_some_and(|before| now.is_less_than(before))
    }

    fn lives(&mut self, before: Clock, now: Clock) -> Option<Action> {
        let was_told = self.next > FIRST;
        let lasted = before.told.saturating_sub(self.lived.told);
        (self.lived, self.next) = (now, FIRST);
        was_told.then_some(Action::Welcome(lasted))
    }

    fn stalls(&mut self, now: Clock) -> Option<Action> {
        let lasted = now.told - self.lived.told;
        (lasted >= self.next).then(|| {
            self.next = lasted * FACTOR;
            Action::Warn(lasted)
        })
    }

    /// Why the peer has failed, if it has. `limit`: the peer timeout, or 0, and how much more it has for long transfers.
    fn failure(
        &self,
        now: Clock,
        (limit, more): (u64, u64),
        (operations, asked): (bool, bool),
    ) -> Option<String> {
        if limit == 0 {
            return None;
        }
        let away = self.away.map_or(0, |away| now.silent - away.silent);
        if away >= limit {
            return Some(format!(
                "its process on this node has been stopped or gone for {away} ms (btl_ofi_peer_timeout {limit})"
            ));
        }
        let silent = now.silent - self.lived.silent;
        let what = match (operations, asked) {
            (true, _) => "operations to it are outstanding, and none completed",
            (false, true) => "this process waits, and it has not answered a heartbeat",
            (false, false) => "the provider has accepted no operation to it",
        };
        let for_long = match more {
            0 => String::new(),
            more => format!(", and {more} ms for long transfers"),
        };
        (silent >= limit + more)
            .then(|| format!("{what} for {silent} ms (btl_ofi_peer_timeout {limit}{for_long})"))
    }
}

/// What the next look at a peer's counts is compared with. The phase of the counts may advance without a completion; it does so here, so
/// that it does not look like one later.
fn count(peer: &Endpoint) -> Backlog {
    peer.total().settle(peer.total().mark());
    peer.total().backlog()
}

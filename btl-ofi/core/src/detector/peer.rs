//! The state of one peer that owes an answer, or whose process is stopped or dead.

use crate::detector::Cause;
use crate::detector::watches::Clock;
use crate::peer::endpoint::{COPY, Endpoint, PART};
use crate::peer::outstanding::Backlog;

/// Milliseconds of silence before the first report.
pub(super) const FIRST: u64 = 10_000;
/// Each report comes after this multiple of the previous silence.
const FACTOR: u64 = 3;

/// The action that a check requests for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Warn that the peer has not answered for this many milliseconds.
    Warn(u64),
    /// Report that the peer answers again after this many milliseconds.
    Welcome(u64),
    /// Check the peer's process before the next operation to the peer. The process is dead, but no operation is
    /// outstanding, so the death is not reported. A new process with the same id must not be written to, and no process
    /// serves the peer's ring.
    Doubt,
    /// Fail the peer, for this reason.
    Fail(Cause, String),
}

/// The transport's activity between the last two looks.
#[derive(Clone, Copy)]
pub(super) struct Passed {
    /// The times of the previous look and of this look.
    pub(super) before: Clock,
    pub(super) now: Clock,
    /// Whether any operation of any peer was accepted or completed.
    pub(super) moved: bool,
}

/// Whether, and since when, posts to a peer are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    No,
    /// A post was refused since the last look.
    Now,
    /// A post was refused before the last look, and hardly any post was tried since. So the peer's silence does
    /// not count.
    Earlier,
}

/// The state of a peer between two looks. The peer is suspect when `next` exceeds [`FIRST`], and stalled before
/// that.
#[derive(Debug)]
pub(super) struct Watched {
    /// The time of its last sign of life.
    lived: Clock,
    /// The length of silence at which the next report is made.
    next: u64,
    /// The peer's counts at the last look, if operations were outstanding.
    counted: Option<Backlog>,
    pub(super) refused: Refused,
    /// The time when the peer's process was found stopped or dead; `None` if the process runs.
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

    /// Judges the peer. With `asked`, it has not answered a heartbeat. Returns whether the peer must be looked at again.
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
            // The time before the peer was first watched does not count.
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

    /// The reason why the peer has failed; `None` if it has not. `limit` is the peer timeout (0 without one), and the
    /// extra time for long transfers.
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

/// The counts with which the next look compares. The phase of the counts may advance without a completion. The phase
/// advances here, so that this does not look like a completion later.
fn count(peer: &Endpoint) -> Backlog {
    peer.total().settle(peer.total().mark());
    peer.total().backlog()
}

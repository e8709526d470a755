//! The state of a transfer over several rails: its lanes, its fragments, and its next steps.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use plugin_api::Status;

use crate::mem::handle::{MAX_RAILS, Target};
use crate::op::request::Op;
use crate::peer::endpoint::Endpoint;
use crate::peer::rails::CLOSED;

/// Maximum outstanding fragments of one lane. Two keep the lane busy between the end of one fragment and the start of
/// another.
pub(super) const DEPTH: usize = 2;
/// Limits for a silent rail. The first two are in milliseconds: the silence after which this process asks the peer over the
/// first interface whether it is alive, and the pause between two such questions. The third is the number of answers after
/// which the rail has failed. This number is high, because a peer that seldom makes progress may answer at each poll and
/// still need several polls to end a fragment.
pub(super) const QUESTION: u64 = 2000;
pub(crate) const PAUSE: u64 = 1000;
pub(super) const ANSWERS: u32 = 8;
/// The number that a control operation has in place of a fragment's index.
pub(super) const CONTROL: usize = usize::MAX;

/// A transfer over several rails.
pub(crate) struct Stripe {
    pub(super) put: bool,
    pub(super) local: *mut c_void,
    /// The target on the first interface.
    pub(super) target: Target,
    pub(super) size: usize,
    /// Size of a fragment in bytes.
    pub(super) piece: usize,
    /// Offset of the next fragment.
    pub(super) next: usize,
    /// Fragments that failed and may be posted again.
    pub(super) again: Vec<Range>,
    pub(super) lanes: [Option<Lane>; MAX_RAILS],
    pub(super) pieces: [Option<Piece>; MAX_RAILS * DEPTH],
    pub(super) control: Control,
    /// The word that receives the results of control operations.
    pub(super) word: Box<AtomicU64>,
    /// Whether an [`Event::Room`] will follow.
    pub(super) called: bool,
    /// The status with which the transfer will end.
    pub(super) status: Status,
}

// SAFETY: the pointers are to the caller's buffer, which is valid until completion, and to endpoints, which live until they
// are disconnected; any thread that makes progress may post to them.
unsafe impl Send for Stripe {}

/// A range of the transfer: its offset and its size in bytes.
pub(super) type Range = (usize, usize);

/// A path to the peer.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    /// Numbers of this process's rail and of the peer's rail; `None` for the first interface.
    pub(super) rail: Option<(usize, usize)>,
    pub(super) endpoint: NonNull<Endpoint>,
    pub(super) key: u64,
    /// The target of requests that ask the peer to close its rail.
    pub(super) fence: Target,
    pub(super) state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No fragment has ended for `silent` milliseconds, and the peer has sent `answers` answers over the
    /// first interface.
    Works { silent: u64, answers: u32 },
    /// The lane takes no more fragments.
    Failed(Status),
}

pub(super) const WORKS: State = State::Works {
    silent: 0,
    answers: 0,
};

/// An outstanding fragment, or a failed fragment that waits until the peer has closed its rail.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) lane: usize,
    pub(super) range: Range,
    pub(super) failed: bool,
}

/// The operation's control work, besides its fragments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Control {
    Nothing,
    /// No further question is sent for this many milliseconds.
    Wait(u64),
    /// The request is still to be posted.
    Wanted(Request),
    Posted(Request),
}

/// A request to the peer over the first interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// Asks whether the peer is alive.
    Answer,
    /// Asks the peer to close its rail of a lane.
    Close(usize),
    /// Asks whether the peer has closed its rail of a lane.
    Check(usize),
}

impl Lane {
    /// The lane of the first interface. `fence` is the target of requests that ask the peer to
    /// close rails.
    pub(super) fn first(peer: &Endpoint, target: Target, fence: Target) -> Lane {
        Lane {
            rail: None,
            endpoint: NonNull::from(peer),
            key: target.key,
            fence,
            state: WORKS,
        }
    }
}

impl Stripe {
    /// A transfer over these lanes, in fragments of `piece` bytes.
    pub(super) fn new(
        (op, put, target): (&Op<'_>, bool, Target),
        lanes: [Option<Lane>; MAX_RAILS],
        piece: usize,
    ) -> Stripe {
        Stripe {
            put,
            local: op.local,
            target,
            size: op.size,
            piece,
            next: 0,
            again: Vec::new(),
            lanes,
            pieces: [None; MAX_RAILS * DEPTH],
            control: Control::Nothing,
            word: Box::default(),
            called: true,
            status: Status::SUCCESS,
        }
    }

    /// Records the end of the part with this index.
    pub(crate) fn end_part(&mut self, place: usize, status: Status) {
        if place == CONTROL {
            return self.end_control(status);
        }
        let Some(piece) = self.pieces.get_mut(place) else {
            return;
        };
        let Some(Piece {
            lane: number,
            range,
            ..
        }) = *piece
        else {
            return;
        };
        *piece = None;
        let Some(lane) = &mut self.lanes[number] else {
            return;
        };
        match (status.is_ok(), lane.rail) {
            (true, _) if matches!(lane.state, State::Works { .. }) => lane.state = WORKS,
            (true, _) => {}
            (false, None) => self.status = status,
            (false, Some(_)) => {
                lane.state = State::Failed(status);
                self.pieces[place] = Some(Piece {
                    lane: number,
                    range,
                    failed: true,
                });
            }
        }
    }

    /// Records the end of the control operation.
    pub(super) fn end_control(&mut self, status: Status) {
        let ended = std::mem::replace(&mut self.control, Control::Nothing);
        if !status.is_ok() {
            self.status = status;
            // If the peer failed, the provider may still write to the word.
            Box::leak(std::mem::take(&mut self.word));
            return;
        }
        match ended {
            Control::Posted(Request::Answer) => {
                for lane in self.lanes.iter_mut().flatten() {
                    if let State::Works { silent, answers } = &mut lane.state
                        && *silent >= QUESTION
                    {
                        *answers += 1;
                    }
                }
                self.control = Control::Wait(PAUSE);
            }
            Control::Posted(Request::Check(lane))
                if self.word.load(Ordering::Relaxed) == CLOSED =>
            {
                self.repeat(lane);
            }
            Control::Posted(Request::Close(lane) | Request::Check(lane)) => {
                self.control = Control::Wanted(Request::Check(lane));
            }
            other => self.control = other,
        }
    }

    /// Lets other lanes repeat the failed fragments of a lane.
    pub(super) fn repeat(&mut self, lane: usize) {
        for piece in &mut self.pieces {
            if let Some(failed) = piece.filter(|p| p.failed && p.lane == lane) {
                self.again.push(failed.range);
                *piece = None;
            }
        }
        if self.pieces.iter().flatten().all(|p| p.lane != lane) {
            self.lanes[lane] = None;
        }
    }

    /// Records that [`Event::Room`] came.
    pub(crate) fn come(&mut self) {
        self.called = false;
    }

    /// Records that `passed` milliseconds went by, while `others` transfers over several rails are in progress. Returns
    /// whether the caller must add an [`Event::Room`].
    pub(crate) fn pass(&mut self, passed: u64, others: u32) -> bool {
        // Fragments of other transfers that are earlier in the rail's queue end first.
        let patience = QUESTION * (1 + u64::from(others) / 8);
        let mut question = false;
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let mut pieces = self.pieces.iter().flatten();
            let Some(lane) = lane.as_mut().filter(|lane| lane.rail.is_some()) else {
                continue;
            };
            if let State::Works { silent, .. } = &mut lane.state
                && pieces.any(|p| p.lane == number)
            {
                *silent += passed;
                question |= *silent >= patience;
            }
        }
        if let Control::Wait(left) = self.control {
            self.control = match left.saturating_sub(passed) {
                0 => Control::Nothing,
                left => Control::Wait(left),
            };
        }
        // A request that found no room is tried again, because no other event may come.
        let due = match self.control {
            Control::Wanted(_) => true,
            Control::Nothing => question,
            Control::Wait(_) | Control::Posted(_) => false,
        };
        if due && self.control == Control::Nothing {
            self.control = Control::Wanted(Request::Answer);
        }
        due && !std::mem::replace(&mut self.called, true)
    }

    /// Whether no part of the transfer is outstanding.
    pub(super) fn is_idle(&self) -> bool {
        !matches!(self.control, Control::Posted(_))
            && self.pieces.iter().flatten().all(|p| p.failed)
    }

    pub(super) fn is_done(&self) -> bool {
        self.next >= self.size && self.again.is_empty() && self.pieces.iter().all(Option::is_none)
    }

    /// The working lane with the fewest fragments, if it takes another one. Lanes that are `full`
    /// are left out.
    pub(super) fn free_lane(&self, full: &[bool; MAX_RAILS]) -> Option<(usize, Lane)> {
        let busy = |lane| {
            self.pieces
                .iter()
                .flatten()
                .filter(|p| p.lane == lane)
                .count()
        };
        let lanes = self.lanes.iter().enumerate();
        let lanes = lanes.filter_map(|(at, lane)| Some((busy(at), at, (*lane)?)));
        let working =
            lanes.filter(|(_, at, lane)| !full[*at] && matches!(lane.state, State::Works { .. }));
        let (busy, at, lane) = working.min_by_key(|(busy, at, _)| (*busy, *at))?;
        (busy < DEPTH).then_some((at, lane))
    }

    /// The range of the next fragment to post.
    pub(super) fn next_range(&self) -> Option<Range> {
        let left = self.size - self.next;
        let next = (left > 0).then_some((self.next, self.piece.min(left)));
        self.again.last().copied().or(next)
    }

    /// Takes the range that [`next_range`](Self::next_range) returns.
    pub(super) fn take_range(&mut self) {
        if self.again.pop().is_none() {
            self.next += self.piece.min(self.size - self.next);
        }
    }
}

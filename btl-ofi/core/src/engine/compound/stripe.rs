//! The state of a transfer over several rails: its lanes, its fragments, and its next steps.

use std::ffi::c_void;
use std::ptr::NonNull;

use plugin_api::Status;

use crate::mem::handle::{MAX_RAILS, Target};
use crate::op::request::Op;
use crate::peer::endpoint::Endpoint;

/// Maximum outstanding fragments of one lane. Two keep the lane busy between the end of one fragment and the start of
/// another.
const DEPTH: usize = 2;

/// A transfer over several rails.
pub(crate) struct Stripe {
    pub(super) put: bool,
    pub(super) local: *mut c_void,
    /// The target on the first interface.
    pub(super) target: Target,
    size: usize,
    /// Size of a fragment in bytes.
    piece: usize,
    /// Offset of the next fragment.
    next: usize,
    lanes: [Option<Lane>; MAX_RAILS],
    /// The lanes of the outstanding fragments.
    pieces: [Option<usize>; MAX_RAILS * DEPTH],
    /// The status with which the transfer will end.
    pub(super) status: Status,
}

// SAFETY: the pointers are to the caller's buffer, which is valid until completion, and to endpoints, which live until they
// are disconnected; any thread that makes progress may post to them.
unsafe impl Send for Stripe {}

/// A path to the peer.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    /// This process's rail; `None` for the first interface.
    pub(super) rail: Option<usize>,
    pub(super) endpoint: NonNull<Endpoint>,
    pub(super) key: u64,
}

/// A fragment to post: its lane, its place among the outstanding ones, its offset and its size in bytes.
#[derive(Clone, Copy)]
pub(super) struct Fragment {
    pub(super) lane: Lane,
    pub(super) place: usize,
    pub(super) offset: usize,
    pub(super) size: usize,
    number: usize,
}

impl Stripe {
    /// A transfer over these rails, in fragments of `piece` bytes.
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
            lanes,
            pieces: [None; MAX_RAILS * DEPTH],
            status: Status::SUCCESS,
        }
    }

    /// Records the end of the fragment at this place. Returns the rail of a fragment that failed.
    pub(super) fn end_part(&mut self, place: usize, status: Status) -> Option<usize> {
        let lane = self.pieces.get_mut(place)?.take()?;
        if status.is_ok() {
            return None;
        }
        self.status = status;
        self.lanes[lane]?.rail
    }

    /// Whether no fragment is outstanding.
    pub(super) fn is_idle(&self) -> bool {
        self.pieces.iter().all(Option::is_none)
    }

    /// Whether all fragments were posted.
    pub(super) fn is_posted(&self) -> bool {
        self.next >= self.size
    }

    /// The next fragment, on the lane with the fewest fragments. `None` if nothing is left, or no lane takes another one.
    /// Lanes that are `full` are left out.
    pub(super) fn next_fragment(&self, full: &Full) -> Option<Fragment> {
        let busy = |lane| self.pieces.iter().flatten().filter(|p| **p == lane).count();
        let lanes = self.lanes.iter().enumerate().filter(|(at, _)| !full.0[*at]);
        let lanes = lanes.filter_map(|(at, lane)| Some((busy(at), at, (*lane)?)));
        let (busy, number, lane) = lanes.min_by_key(|(busy, at, _)| (*busy, *at))?;
        let place = self.pieces.iter().position(Option::is_none)?;
        let size = self.piece.min(self.size - self.next);
        (busy < DEPTH && size > 0).then_some(Fragment {
            lane,
            place,
            offset: self.next,
            size,
            number,
        })
    }

    /// Records that a fragment was posted.
    pub(super) fn is_out(&mut self, fragment: &Fragment) {
        self.next += fragment.size;
        self.pieces[fragment.place] = Some(fragment.number);
    }
}

/// The lanes whose provider had no room.
#[derive(Default)]
pub(super) struct Full([bool; MAX_RAILS]);

impl Full {
    pub(super) fn add(&mut self, fragment: &Fragment) {
        self.0[fragment.number] = true;
    }
}

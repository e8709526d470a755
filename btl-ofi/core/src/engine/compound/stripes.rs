//! Large transfers over several rails. A transfer is divided into fragments. The lanes are the first interface and the
//! rails. A lane takes the next fragment as soon as one of its fragments has ended. So a faster lane moves more, and no
//! lane's speed must be known. Each transfer is a compound operation (`compound`).
//!
//! # A rail that fails
//!
//! A failed fragment is repeated over the other lanes. After the transfer is complete, the failed rail must not write late
//! bytes: neither of a get to the local buffer, nor of a put to the target. Therefore this process closes its rail
//! immediately. Before it repeats fragments of a put, it also asks the peer to close the peer's rail (`rails`), and waits
//! until that rail is closed.
//!
//! A broken connection may report no error for many minutes. So a rail counts as failed, too, if it ends none of its
//! fragments for some ten seconds while the peer answers over the first interface.

use std::ffi::c_void;
use std::ptr::NonNull;

use plugin_api::Status;

use crate::engine::compound::state::{Compound, Event, Next, Parts, part};
use crate::engine::transport::Transport;
use crate::mem::handle::{MAX_RAILS, Target};
use crate::op::request::Caller;
use crate::op::request::Op;
use crate::peer::endpoint::Endpoint;
use crate::peer::rails::{CLOSED, asked_at, closed_at};

use crate::engine::compound::stripe::{
    ANSWERS, CONTROL, Control, Lane, Piece, Range, Request, State, Stripe, WORKS,
};

/// Fragments of a transfer per lane, if all lanes are equally fast.
const SHARE: usize = 4;
/// Sizes of the smallest and the largest fragment. All fragments except the last are multiples of a page.
const SMALLEST: usize = 64 * 1024;
const LARGEST: usize = 1024 * 1024;
const PAGE: usize = 4096;

/// Maximum of these operations at a time, because every progress checks each of them. A further operation is
/// refused with [`Status::TEMP_OUT_OF_RESOURCE`].
const MOST: u32 = 64;

/// The source of the put that asks a peer to close a rail.
static ASKED: u64 = CLOSED;

impl Transport {
    /// Plans the lanes and fragments of a transfer to a peer with further rails. Returns `None` if the region is
    /// registered on none of them.
    pub(crate) fn plan(
        &self,
        peer: &Endpoint,
        op: &Op<'_>,
        put: bool,
        target: Target,
    ) -> Option<Stripe> {
        let (tracks, fence) = self.rails.tracks(peer.proc())?;
        let mut lanes = [None; MAX_RAILS];
        let mut count = 1;
        for (lane, track) in lanes[1..].iter_mut().zip(tracks) {
            *lane = track.and_then(|track| {
                Some(Lane {
                    rail: Some((track.rail, track.theirs)),
                    endpoint: track.endpoint,
                    key: op.remote.rail_key(track.theirs)?,
                    fence,
                    state: WORKS,
                })
            });
            count += usize::from(lane.is_some());
        }
        if count == 1 {
            return None;
        }
        lanes[0] = Some(Lane::first(peer, target, fence));
        let piece = op.size.div_ceil(count * SHARE).next_multiple_of(PAGE);
        let largest = LARGEST.min(self.rails.piece_limit());
        let piece = piece.max(SMALLEST).min(largest);
        Some(Stripe::new((op, put, target), lanes, piece))
    }

    /// Makes a transfer in fragments. `endpoint` is live, and the local buffer is valid until
    /// completion.
    pub(crate) fn stripe(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        stripe: Stripe,
    ) -> Status {
        if self.compounds.striped() >= MOST {
            return self.refuse_for_now(endpoint, self.context());
        }
        let parts = Parts::Striped(Box::new(stripe));
        match self.begin_compound(endpoint, caller, parts) {
            Ok(compound) => self.start_compound(compound),
            Err(status) => status,
        }
    }

    /// Posts the fragments for which lanes have room, and a control operation if one is due.
    pub(crate) fn post_pieces(&self, at: NonNull<Compound>, stripe: &mut Stripe) -> Next {
        self.close_failed_rails(stripe);
        let mut full = [false; MAX_RAILS];
        full[0] = !self.post_control(at, stripe);
        while stripe.status.is_ok() {
            let lane = stripe.free_lane(&full);
            let (Some((number, lane)), Some(range)) = (lane, stripe.next_range()) else {
                break;
            };
            let Some(place) = stripe.pieces.iter().position(Option::is_none) else {
                break;
            };
            let status = self.post_piece((at, place), stripe, lane, range);
            if status.is_again() {
                full[number] = true;
            } else if status.is_ok() {
                stripe.take_range();
                stripe.pieces[place] = Some(Piece {
                    lane: number,
                    range,
                    failed: false,
                });
            } else if lane.rail.is_none() {
                stripe.status = status;
            } else if let Some(lane) = &mut stripe.lanes[number] {
                lane.state = State::Failed(status);
            }
        }
        // Otherwise the end of an outstanding part, or the event that will follow, calls this
        // function again.
        if stripe.called || !stripe.is_idle() {
            return Next::Parts;
        }
        // Set even if the operation is over, so that no other event follows, not even one from
        // `Compounds::watch`.
        stripe.called = true;
        match stripe.status.is_ok() && !stripe.is_done() {
            true => Next::Again(Event::Room),
            false => Next::End(stripe.status),
        }
    }

    /// Closes this process's rails that failed, or that have been silent for too long.
    fn close_failed_rails(&self, stripe: &mut Stripe) {
        for number in 1..MAX_RAILS {
            let Some(lane) = &mut stripe.lanes[number] else {
                continue;
            };
            let Some(rail) = lane.rail.and_then(|(rail, _)| self.rails.get(rail)) else {
                continue;
            };
            match lane.state {
                State::Works { silent, answers } if answers >= ANSWERS => {
                    // This ends the rail's fragments, and the lane fails with them.
                    rail.close_rail(&format!(
                        "process {} has not answered over it for {silent} ms, but over the first interface",
                        // SAFETY: endpoints outlive the operations that name them.
                        unsafe { lane.endpoint.as_ref() }.proc()
                    ));
                }
                State::Works { .. } => {}
                State::Failed(status) => {
                    let closed = rail.close_rail(&format!("a transfer over it failed [{status}]"));
                    match (stripe.put, closed) {
                        (false, true) => stripe.repeat(number),
                        // Late bytes could overwrite the bytes of a repeated fragment.
                        (false, false) => stripe.status = status,
                        // The peer must close its rail first.
                        (true, _) => {}
                    }
                }
            }
        }
    }

    /// Posts the next request to the peer, if there is one. Returns whether the provider had room.
    fn post_control(&self, at: NonNull<Compound>, stripe: &mut Stripe) -> bool {
        if matches!(stripe.control, Control::Nothing | Control::Wait(_))
            && let Some(piece) = stripe.pieces.iter().flatten().find(|p| p.failed)
        {
            stripe.control = Control::Wanted(Request::Close(piece.lane));
        }
        let Control::Wanted(request) = stripe.control else {
            return true;
        };
        let (Some(first), lane) = (
            stripe.lanes[0],
            match request {
                Request::Answer => 0,
                Request::Close(lane) | Request::Check(lane) => lane,
            },
        ) else {
            return true;
        };
        let theirs = stripe.lanes[lane].and_then(|lane| lane.rail);
        let theirs = theirs.map_or(0, |(_, theirs)| theirs);
        let (asked, closed) = (
            asked_at(first.fence, theirs),
            closed_at(first.fence, theirs),
        );
        let word: *mut c_void = stripe.word.as_ptr().cast();
        let own: *mut c_void = (&raw const ASKED).cast_mut().cast();
        let (put, get) = (part((at, CONTROL), own), part((at, CONTROL), word));
        // SAFETY: the endpoint is connected as long as the operation is outstanding; both words live until then.
        let status = unsafe {
            match request {
                Request::Close(_) => self.post_put(first.endpoint, &put, size_of::<u64>(), asked),
                _ => self.post_get(first.endpoint, &get, size_of::<u64>(), closed),
            }
        };
        if status.is_ok() {
            stripe.control = Control::Posted(request);
        } else if !status.is_again() {
            stripe.control = Control::Nothing;
            stripe.status = status;
        }
        !status.is_again()
    }

    /// Posts a fragment to a lane.
    fn post_piece(
        &self,
        at: (NonNull<Compound>, usize),
        stripe: &Stripe,
        lane: Lane,
        (offset, size): Range,
    ) -> Status {
        let transport = match lane.rail {
            None => self,
            Some((rail, _)) => match self.rails.get(rail) {
                Some(rail) => rail,
                None => return Status::UNREACH,
            },
        };
        let caller = part(at, stripe.local.wrapping_byte_add(offset));
        let target = Target {
            address: stripe.target.address + offset as u64,
            key: lane.key,
        };
        // SAFETY: the endpoint is connected as long as the operation is outstanding; the caller of the operation guarantees
        // the local buffer until its completion, and the fragment lies inside it.
        unsafe {
            match stripe.put {
                true => transport.post_put(lane.endpoint, &caller, size, target),
                false => transport.post_get(lane.endpoint, &caller, size, target),
            }
        }
    }
}

//! Large transfers over several rails. A transfer is divided into fragments. The lanes are the first interface and the
//! rails. A lane takes the next fragment as soon as one of its fragments has ended. So a faster lane moves more, and no
//! lane's speed must be known. Each transfer is a compound operation (`compound`).
//!
//! A transfer fails if one of its fragments does, when no other one is outstanding. The rail of that fragment is closed
//! before, because the provider may still access the buffers of operations that it reported as failed.

use std::ptr::NonNull;

use plugin_api::Status;

use crate::engine::compound::state::{Compound, Event, Next, Parts, part};
use crate::engine::compound::stripe::{Fragment, Full, Lane, Stripe};
use crate::engine::transport::Transport;
use crate::mem::handle::{MAX_RAILS, Target};
use crate::op::request::{Caller, Op};
use crate::peer::endpoint::Endpoint;

/// Fragments of a transfer per lane, if all lanes are equally fast.
const SHARE: usize = 4;
/// Sizes of the smallest and the largest fragment. All fragments except the last are multiples of a page.
const SMALLEST: usize = 64 * 1024;
const LARGEST: usize = 1024 * 1024;
const PAGE: usize = 4096;

/// Maximum of these operations at a time, because every progress tries each of them that found no room. A further
/// operation is refused with [`Status::TEMP_OUT_OF_RESOURCE`].
const MOST: u32 = 64;

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
        let tracks = self.rails.tracks(peer.proc())?;
        let mut lanes = [None; MAX_RAILS];
        let mut count = 1;
        for (lane, track) in lanes[1..].iter_mut().zip(tracks) {
            *lane = track.and_then(|track| {
                Some(Lane {
                    rail: Some(track.rail),
                    endpoint: track.endpoint,
                    key: op.remote.rail_key(track.theirs)?,
                })
            });
            count += usize::from(lane.is_some());
        }
        if count == 1 {
            return None;
        }
        lanes[0] = Some(Lane {
            rail: None,
            endpoint: NonNull::from(peer),
            key: target.key,
        });
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

    /// Takes the next step of a transfer after an event: posts the fragments for which lanes have room.
    pub(crate) fn advance_stripe(
        &self,
        at: NonNull<Compound>,
        stripe: &mut Stripe,
        event: Event,
    ) -> Next {
        if let Event::Part(place, status) = event
            && let Some(rail) = stripe.end_part(place, status)
            && let Some(rail) = self.rails.get(rail)
        {
            rail.close_rail(&format!("a transfer over it failed [{status}]"));
        }
        let mut full = Full::default();
        while stripe.status.is_ok()
            && let Some(fragment) = stripe.next_fragment(&full)
        {
            match self.post_fragment(at, stripe, &fragment) {
                status if status.is_again() => full.add(&fragment),
                status if status.is_ok() => stripe.is_out(&fragment),
                status => stripe.status = status,
            }
        }
        match stripe.is_idle() {
            // The end of an outstanding fragment calls this function again.
            false => Next::Parts,
            true if stripe.status.is_ok() && !stripe.is_posted() => Next::Again(Event::Room),
            true => Next::End(stripe.status),
        }
    }

    /// Posts a fragment to its lane.
    fn post_fragment(&self, at: NonNull<Compound>, stripe: &Stripe, fragment: &Fragment) -> Status {
        let Fragment { lane, offset, .. } = *fragment;
        let transport = match lane.rail {
            None => self,
            Some(rail) => match self.rails.get(rail) {
                Some(rail) => rail,
                None => return Status::UNREACH,
            },
        };
        let caller = part((at, fragment.place), stripe.local.wrapping_byte_add(offset));
        let target = Target {
            address: stripe.target.address + offset as u64,
            key: lane.key,
        };
        // SAFETY: the endpoint is connected as long as the operation is outstanding; the caller of the operation guarantees
        // the local buffer until its completion, and the fragment lies inside it.
        unsafe {
            match stripe.put {
                true => transport.post_put(lane.endpoint, &caller, fragment.size, target),
                false => transport.post_get(lane.endpoint, &caller, fragment.size, target),
            }
        }
    }
}

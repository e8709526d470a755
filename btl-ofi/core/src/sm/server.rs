//! Serves the rings of this process's segment: finds the peers' commands, lets the responder execute them, and answers.
//!
//! All of this runs under the lock of the transport's first context.

use plugin_api::Status;

use crate::base::lock::Lock;
use crate::mem::regions::Regions;
use crate::op::apply::{Area, Carried};
use crate::op::responder::{self, APPLY, GET, PUT, Responder};
use crate::sm::ring::{Answer, Command, RINGS};
use crate::sm::segment::{Ring, Segment};

/// Maximum watched rings. The responder polls their next slot without a doorbell.
const MOST_WATCHED: usize = 4;
/// After this many polls without a command, a ring that rings the doorbell may take the place of a
/// watched ring.
const STALE: u32 = 1024;
/// Maximum commands that are executed for one ring before the next ring's turn.
const BATCH: u32 = 32;

/// This process's segment and the progress of its rings.
pub(crate) struct Server {
    segment: Segment,
    /// For each ring, the position of the next command to execute.
    next: Box<[u32; RINGS]>,
    watched: [Watched; MOST_WATCHED],
    /// Number of entries of `watched` in use.
    watching: usize,
    polls: u32,
    /// Not 0 if commands were executed since the field was last cleared.
    pub(super) served_lately: usize,
    responder: Responder,
}

#[derive(Clone, Copy, Default)]
struct Watched {
    ring: usize,
    /// The poll that last found a command.
    seen: u32,
}

impl Server {
    pub(crate) fn new(segment: Segment) -> Server {
        Server {
            segment,
            next: Box::new([0; RINGS]),
            watched: [Watched::default(); MOST_WATCHED],
            watching: 0,
            polls: 0,
            served_lately: 0,
            responder: Responder::default(),
        }
    }

    /// Executes commands that have arrived. Without commands the call reads one word per 64 requesters and one per
    /// watched ring.
    #[inline]
    pub(crate) fn attend(&mut self, regions: &Lock<Regions>) {
        self.polls = self.polls.wrapping_add(1);
        for slot in 0..self.watching {
            let index = self.watched[slot].ring;
            let next = self.next[index];
            if self.segment.ring(index).slot(next).is_published(next) {
                self.watched[slot].seen = self.polls;
                self.serve(index, regions);
            }
        }
        for word in 0..self.segment.bells().used() {
            let rung = self.segment.bells().take(word);
            if rung != 0 {
                self.serve_rung(word, rung, regions);
            }
        }
    }

    #[inline(never)]
    fn serve_rung(&mut self, word: usize, mut rung: u64, regions: &Lock<Regions>) {
        while rung != 0 {
            let index = word * 64 + rung.trailing_zeros() as usize;
            rung &= rung - 1;
            self.serve(index, regions);
            self.consider_watching(index, regions);
        }
    }

    /// Watches a ring that rang the doorbell, if an entry is unused or belongs to a ring that has been
    /// idle for long.
    fn consider_watching(&mut self, index: usize, regions: &Lock<Regions>) {
        let watched = &mut self.watched[..self.watching];
        if watched.iter().any(|w| w.ring == index) {
            return;
        }
        let polls = self.polls;
        let new = Watched {
            ring: index,
            seen: polls,
        };
        if self.watching < MOST_WATCHED {
            self.watched[self.watching] = new;
            self.watching += 1;
            self.segment.ring(index).watch.begin();
            return;
        }
        let idle = |w: &Watched| polls.wrapping_sub(w.seen);
        let Some(stale) = watched.iter_mut().max_by_key(|w| idle(w)) else {
            return;
        };
        if idle(stale) < STALE {
            return;
        }
        let old = std::mem::replace(stale, new).ring;
        self.segment.ring(index).watch.begin();
        self.segment.ring(old).watch.end();
        // The old ring's requester may have just seen that the ring is watched, and so not have
        // rung the doorbell.
        self.serve(old, regions);
    }

    /// Executes the commands of one ring, in order.
    fn serve(&mut self, index: usize, regions: &Lock<Regions>) {
        let ring = self.segment.ring(index);
        let mut next = self.next[index];
        if !ring.slot(next).is_published(next) {
            return;
        }
        self.served_lately = 1;
        let regions = regions.lock();
        let from = (&self.segment, ring);
        for _ in 0..BATCH {
            let slot = ring.slot(next);
            if !slot.is_published(next) {
                break;
            }
            let command = slot.command();
            let transfer = command.what == PUT || command.what == GET;
            let done = if transfer && !slot.take(next) {
                // The requester has revoked the transfer, and waits for the slot.
                Ok(0)
            } else {
                execute(&mut self.responder, &regions, from, &command)
            };
            let answer = match done {
                Ok(value) => Answer { status: 0, value },
                Err(status) => Answer {
                    status: status.0,
                    value: 0,
                },
            };
            slot.answer(next, answer);
            next = next.wrapping_add(1);
        }
        drop(regions);
        self.next[index] = next;
        if ring.slot(next).is_published(next) {
            // The ring's next turn comes after the other rings.
            self.segment.bells().ring(index);
        }
    }
}

/// Executes a command. Returns the old value, or the data read, if it fits in one word; otherwise the payload
/// holds it.
#[inline]
fn execute(
    responder: &mut Responder,
    regions: &Regions,
    (segment, ring): (&Segment, &Ring),
    c: &Command,
) -> Result<u64, Status> {
    let command = responder::Command {
        what: c.what,
        count: c.count,
        address: c.address,
        key: c.key,
        cookie: c.cookie,
        compare: c.compare,
    };
    if c.what == APPLY {
        return apply(responder, regions, (segment, ring), (&command, c.payload)).map(|()| 0);
    }
    let mut value = c.value;
    let word: *mut u8 = (&raw mut value).cast();
    let place = |size| {
        if size <= size_of::<u64>() {
            Some(word)
        } else {
            segment.payload(ring, c.payload, size)
        }
    };
    // SAFETY: the place is the local word, or `size` bytes of the payload, whose bounds `payload` checks.
    unsafe { responder.execute(regions, &command, place) }?;
    Ok(value)
}

/// Executes an apply. Copies the operands first, because the origin may change them at any time. Writes the results to the
/// command's payload.
#[inline(never)]
fn apply(
    responder: &mut Responder,
    regions: &Regions,
    (segment, ring): (&Segment, &Ring),
    (c, payload): (&responder::Command, u32),
) -> Result<(), Status> {
    let carried = Carried::of(c.count);
    let size = carried.operands.max(carried.results);
    let place = segment.payload(ring, payload, size);
    let place = place.filter(|_| carried.is_possible());
    let place = place.ok_or(Status::BAD_PARAM)?;
    let mut area = Area::new();
    // SAFETY: the place has room for operands and results in the payload; `payload` checks its bounds, and no command may
    // name it.
    unsafe {
        let words = area.copy(place, carried);
        responder.apply(regions, c, words, place)
    }
}

#[cfg(test)]
mod tests;

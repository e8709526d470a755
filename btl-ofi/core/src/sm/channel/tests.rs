//! Reuse of a ring by another process: not while its target executes a command of the last owner.
//!
//! The tests play the target and read its segment directly.

use std::ptr;

use plugin_api::Status;

use super::*;
use crate::op::request::{Caller, Operands, Request};
use crate::op::responder::{self, Command};
use crate::op::tag::Tag;
use crate::peer::counters::CounterTable;
use crate::peer::endpoint::LocalPeer;
use crate::peer::liveness::ProcessId;
use crate::peer::route::{Facts, Route};
use crate::peer::table::{Endpoints, Placed};
use crate::sm::ring::{self, Answer, Slot};
use crate::sm::segment::{PAYLOAD, Place};

/// Size of a fragment of a large get. The payload holds eight fragments.
const FRAGMENT: usize = PAYLOAD / 8;
const NOTHING: Answer = Answer {
    status: 0,
    value: 0,
};

struct Target(Segment);

impl Target {
    fn new() -> Target {
        Target(Segment::make(42).unwrap())
    }

    fn place(&self) -> Place {
        Place {
            pid: std::process::id(),
            descriptor: self.0.descriptor(),
            nonce: 42,
        }
    }

    /// A slot of the first ring.
    fn slot(&self, position: u32) -> &Slot {
        self.0.ring(0).slot(position)
    }

    /// The position at which a process that claims the first ring now begins, and the number of revoked
    /// slots before it; `None` if the ring is taken.
    fn first_ring(&self) -> Option<(u32, u32)> {
        let claim = self.place().claim().unwrap();
        let found = (claim.position, claim.spent);
        // Only the first ring is used, so every other ring is at position zero.
        let first = found != (0, 0);
        claim.give_back(found.0, found.1);
        first.then_some(found)
    }

    /// Skips revoked slots, and answers them.
    fn pass_over(&self, positions: std::ops::Range<u32>) {
        for position in positions {
            let slot = self.slot(position);
            assert!(slot.is_published(position) && !slot.take(position));
            slot.answer(position, NOTHING);
        }
    }
}

/// An origin with one peer; both are in this process.
struct Origin {
    channel: Channel,
    peers: Endpoints,
    endpoint: NonNull<Endpoint>,
    counters: CounterTable,
}

impl Origin {
    fn new() -> Origin {
        let mut peers = Endpoints::new(1);
        let local = LocalPeer::new(
            0,
            0,
            ProcessId::own(),
            Route::decide(Facts::default()),
            (0, 0),
        );
        let endpoint = peers.insert(Placed::Local(local, None)).unwrap();
        Origin {
            channel: Channel::new(Segment::make(1).unwrap()),
            peers,
            endpoint,
            counters: CounterTable::new("test", 1, None).unwrap(),
        }
    }

    fn claim(&mut self, target: &Target) {
        let claim = target.place().claim().unwrap();
        let requester = Box::new(Requester::new(
            claim,
            self.endpoint,
            None,
            self.counters.reference(),
        ));
        assert!(self.channel.add(requester).is_ok());
    }

    fn requester(&mut self) -> &mut Requester {
        let ring = self.channel.of(self.endpoint).unwrap();
        // SAFETY: the requester is listed, and the reference borrows the origin.
        unsafe { &mut *ring.as_ptr() }
    }

    /// Makes a get of eight fragments. The target takes the first `begun` fragments and answers
    /// none.
    fn get_in_vain(&mut self, target: &Target, begun: u32) {
        let mut local = vec![0u8; PAYLOAD];
        let get = Request {
            command: Command {
                what: responder::GET,
                ..Command::default()
            },
            operands: Operands::Buffer(ptr::null()),
            size: PAYLOAD,
            result: local.as_mut_ptr().cast(),
        };
        let mut next = 0;
        let meanwhile = || {
            if next < begun && target.slot(next).is_published(next) {
                assert!(target.slot(next).take(next));
                next += 1;
            }
        };
        // SAFETY: the buffer has PAYLOAD bytes.
        let got = unsafe { self.requester().get_fragments(&get, PAYLOAD, meanwhile) };
        assert_eq!((got, next), (Ok(0), begun));
    }

    /// Posts an atomic with `words` as operands.
    fn post(&mut self, words: &[u64]) {
        let finished = self.finished();
        let requester = self.requester();
        let room = requester.reserve(size_of_val(words), true).ok().unwrap();
        let operands = Operands::Buffer(words.as_ptr().cast());
        let command = ring::Command::default();
        // SAFETY: the operands are copied, and there is no result.
        unsafe { requester.post(command, operands, room, ptr::null_mut(), finished) };
    }

    /// Queues a put, and posts its fragments as far as there is room.
    fn queue(&mut self, bytes: &[u8]) {
        let finished = self.finished();
        let put = Request {
            command: Command {
                what: responder::PUT,
                ..Command::default()
            },
            operands: Operands::Buffer(bytes.as_ptr().cast()),
            size: bytes.len(),
            result: ptr::null_mut(),
        };
        // SAFETY: the bytes are only read, and live until the ring is abandoned.
        unsafe { self.requester().queue(&put, finished) };
    }

    fn finished(&self) -> Finished {
        let caller = Caller {
            completion: None,
            local_address: ptr::null_mut(),
            local_handle: ptr::null_mut(),
        };
        caller.finished(Tag::new(self.endpoint, 0, 0))
    }

    /// Reads answers. No operation may complete.
    fn collect(&mut self) {
        let mut done = Done::new();
        self.channel.collect(&mut done);
        assert!(done.finished().is_empty() && done.refused.is_none());
    }

    fn disconnect(&mut self) {
        self.channel.remove(self.endpoint);
    }
}

/// The target is still copying for a get that the origin abandoned when the origin leaves. The target's late
/// writes must not reach the operands of the ring's next owner.
#[test]
fn a_late_piece_spares_the_next_owner() {
    let target = Target::new();
    let (mut first, mut second) = (Origin::new(), Origin::new());
    first.claim(&target);
    first.get_in_vain(&target, 1);
    let fragment = target.slot(0).command();
    first.disconnect();
    second.claim(&target);
    let words = [7u64; FRAGMENT / 8];
    second.post(&words);
    // The target now finishes its copy.
    let late = target
        .0
        .payload(target.0.ring(0), fragment.payload, FRAGMENT)
        .unwrap();
    // SAFETY: `late` has FRAGMENT bytes in the payload.
    unsafe { ptr::write_bytes(late, 0xaa, FRAGMENT) };
    target.slot(0).answer(0, NOTHING);
    // The target then finds the atomic of the next owner, which may have claimed any of the rings.
    let rings = [(0, 8), (1, 0)];
    let posted = |(ring, at): &(usize, u32)| target.0.ring(*ring).slot(*at).is_published(*at);
    let (ring, at) = rings.into_iter().find(posted).unwrap();
    let ring = target.0.ring(ring);
    let payload = ring.slot(at).command().payload;
    let operands = target.0.payload(ring, payload, size_of_val(&words));
    // SAFETY: the operands lie in the payload.
    let seen = unsafe { operands.unwrap().cast::<[u64; FRAGMENT / 8]>().read() };
    let wrong = seen.iter().filter(|w| **w != 7).count();
    assert_eq!(wrong, 0, "words overwritten");
}

/// A ring with a fragment that the target has taken is kept. The ring is given back after the target
/// answers.
#[test]
fn a_ring_is_given_back_once_the_target_is_out_of_it() {
    let target = Target::new();
    let mut origin = Origin::new();
    origin.claim(&target);
    origin.get_in_vain(&target, 1);
    origin.disconnect();
    assert_eq!(target.first_ring(), None);
    assert!(origin.channel.of(origin.endpoint).is_none());
    origin.collect();
    assert_eq!(target.first_ring(), None);
    // Another peer may have the same endpoint address; it gets its own ring.
    origin.claim(&target);
    origin.collect();
    target.slot(0).answer(0, NOTHING);
    target.pass_over(1..8);
    origin.collect();
    assert_eq!(target.first_ring(), Some((8, 0)));
    assert_eq!(origin.channel.requesters.len(), 1);
    assert!(origin.channel.active.is_empty());
}

/// A ring whose slots the target only has to skip is given back immediately.
#[test]
fn a_ring_with_revoked_pieces_is_given_back_at_once() {
    let target = Target::new();
    let mut origin = Origin::new();
    origin.claim(&target);
    origin.get_in_vain(&target, 0);
    origin.disconnect();
    assert_eq!(target.first_ring(), Some((8, 8)));
    assert!(origin.channel.requesters.is_empty() && origin.channel.active.is_empty());
    // A ring whose taken slot was answered meanwhile is also given back immediately.
    let (other, mut origin) = (Target::new(), Origin::new());
    origin.claim(&other);
    origin.get_in_vain(&other, 1);
    other.slot(0).answer(0, NOTHING);
    origin.disconnect();
    assert_eq!(other.first_ring(), Some((8, 7)));
}

/// The same process does not reuse the payload of a taken fragment before the fragment is answered.
#[test]
fn the_payload_of_a_taken_piece_is_not_used() {
    let target = Target::new();
    let mut origin = Origin::new();
    origin.claim(&target);
    origin.get_in_vain(&target, 1);
    let full = origin.requester().reserve(FRAGMENT, false).err();
    assert_eq!(full, Some(Status::TEMP_OUT_OF_RESOURCE));
    target.slot(0).answer(0, NOTHING);
    let mut done = Done::new();
    origin.requester().collect(&mut done);
    assert!(origin.requester().reserve(FRAGMENT, false).is_ok());
    let full = origin.requester().reserve(FRAGMENT + 1, false).err();
    assert_eq!(full, Some(Status::TEMP_OUT_OF_RESOURCE));
}

/// A closing transport does not wait: if the target may still use a slot, the ring stays taken.
#[test]
fn closing_leaves_a_ring_taken_unless_it_is_answered() {
    for answered in [false, true] {
        let target = Target::new();
        let mut origin = Origin::new();
        origin.claim(&target);
        origin.get_in_vain(&target, 1);
        if answered {
            target.slot(0).answer(0, NOTHING);
        }
        let Origin { channel, peers, .. } = origin;
        drop((channel, peers));
        assert_eq!(target.first_ring(), answered.then_some((8, 7)));
    }
}

/// The target may still execute an atomic that was reported as failed. Until the target answers, no other
/// process gets the ring, neither after a release nor after a close.
#[test]
fn an_abandoned_atomic_keeps_its_ring() {
    for released in [false, true] {
        let target = Target::new();
        let mut origin = Origin::new();
        origin.claim(&target);
        origin.post(&[1; 4]);
        origin.post(&[2; 4]);
        let endpoint = origin.endpoint;
        let mut done = Done::new();
        for _ in 0..2 {
            assert!(origin.channel.abandon(endpoint, &mut done).is_some());
        }
        assert!(origin.channel.abandon(endpoint, &mut done).is_none());
        assert!(done.finished().is_empty() && origin.channel.active.is_empty());
        if released {
            origin.disconnect();
            origin.collect();
            assert_eq!(target.first_ring(), None);
            for position in 0..2 {
                target.slot(position).answer(position, NOTHING);
            }
            origin.collect();
            assert_eq!(target.first_ring(), Some((2, 0)));
        } else {
            let Origin { channel, peers, .. } = origin;
            drop((channel, peers));
            assert_eq!(target.first_ring(), None);
        }
    }
}

/// The target may continue while its ring is abandoned. An answer to a later transfer must not end an earlier transfer
/// that was not made.
#[test]
fn an_abandoned_transfer_is_not_ended_by_the_answers_to_another() {
    let target = Target::new();
    let mut origin = Origin::new();
    origin.claim(&target);
    let bytes = [1; 2 * FRAGMENT];
    origin.queue(&bytes);
    origin.post(&[1; 4]);
    origin.queue(&bytes);
    let endpoint = origin.endpoint;
    let mut done = Done::new();
    // The atomic is the first operation to end.
    assert!(origin.channel.abandon(endpoint, &mut done).is_some());
    for position in 0..5 {
        let slot = target.slot(position);
        assert!(slot.is_published(position));
        assert_eq!(slot.take(position), position == 2, "slot {position}");
        slot.answer(position, NOTHING);
    }
    origin.collect();
    for _ in 0..2 {
        assert!(origin.channel.abandon(endpoint, &mut done).is_some());
    }
    assert!(origin.channel.abandon(endpoint, &mut done).is_none());
    assert!(done.finished().is_empty());
}

/// A target that closed its transport before or after the release owes no answer.
#[test]
fn a_ring_of_a_closed_target_is_forgotten() {
    for closed_before in [false, true] {
        let target = Target::new();
        let mut origin = Origin::new();
        origin.claim(&target);
        origin.get_in_vain(&target, 1);
        if closed_before {
            drop(target);
            origin.disconnect();
        } else {
            origin.disconnect();
            origin.channel.remove_lost();
            assert_eq!(origin.channel.requesters.len(), 1);
            drop(target);
            origin.channel.remove_lost();
        }
        assert!(origin.channel.requesters.is_empty() && origin.channel.active.is_empty());
    }
}

//! The rings of the direct atomics under the model checker: every interleaving of one initiator and
//! one target, with the bell, with watching, and while watching begins and ends; of two owners of a ring, one after the
//! other, and its target; and of the payload's blocks, which several rings share.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[allow(
    dead_code,
    reason = "the file is built again here, and not all of it is used"
)]
#[path = "../src/sm/ring.rs"]
mod ring;

#[path = "ring_model/blocks.rs"]
mod blocks;
#[allow(
    dead_code,
    reason = "the file is built again here, and not all of it is used"
)]
#[path = "../src/sm/pool.rs"]
mod pool;

/// The module path that the source files expect.
mod base {
    pub(crate) use crate::sync;
}

/// The module that `ring` and `pool` expect under this name: loom's atomics.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    pub(crate) fn model(test: impl Fn() + Send + Sync + 'static) {
        loom::model(test);
    }
}

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use ring::{Answer, Bells, Command, Slot, Watch, announce};

const SLOTS: u32 = 2;
/// The ring is not in the first word, so that `used` matters.
const RING: usize = 65;

struct Shared {
    bells: Bells,
    watch: Watch,
    slots: [Slot; SLOTS as usize],
    /// A payload for each slot; loom reports a race if the accesses of its two users are not
    /// ordered.
    payload: [UnsafeCell<u64>; SLOTS as usize],
}

// SAFETY: loom checks each access to the payload.
unsafe impl Sync for Shared {}

impl Shared {
    fn new() -> Arc<Shared> {
        let shared = Shared {
            bells: Bells::new(),
            watch: Watch::new(),
            slots: std::array::from_fn(|_| Slot::new()),
            payload: std::array::from_fn(|_| UnsafeCell::new(0)),
        };
        shared.bells.enlist(RING);
        Arc::new(shared)
    }

    fn slot(&self, position: u32) -> &Slot {
        &self.slots[(position % SLOTS) as usize]
    }

    fn payload(&self, position: u32) -> &UnsafeCell<u64> {
        &self.payload[(position % SLOTS) as usize]
    }

    fn post(&self, position: u32) {
        // SAFETY: loom checks the access.
        self.payload(position)
            .with_mut(|p| unsafe { *p = u64::from(position) + 10 });
        let command = Command {
            value: u64::from(position),
            ..Command::default()
        };
        self.slot(position).publish(position, &command);
        announce(&self.watch, &self.bells, RING);
    }

    /// Executes the published commands from `next` on.
    fn serve(&self, next: &mut u32) {
        while self.slot(*next).is_published(*next) {
            let command = self.slot(*next).command();
            assert_eq!(command.value, u64::from(*next), "out of order");
            // SAFETY: loom checks the access.
            self.payload(*next).with_mut(|p| unsafe {
                assert_eq!(*p, u64::from(*next) + 10);
                *p += 100;
            });
            let answer = Answer {
                status: 0,
                value: command.value + 1000,
            };
            self.slot(*next).answer(*next, answer);
            *next += 1;
        }
    }

    /// Checks the bell once, as the target's progress does.
    fn answer_bell(&self, next: &mut u32) {
        for word in 0..self.bells.used() {
            let rung = self.bells.take(word);
            if rung != 0 {
                assert_eq!((word, rung), (RING / 64, 1 << (RING % 64)));
                self.serve(next);
            }
        }
    }

    /// Executes or skips the published commands from `next` on; all are transfers.
    fn serve_transfers(&self, next: &mut u32) {
        while self.slot(*next).is_published(*next) {
            let command = self.slot(*next).command();
            assert_eq!(command.value, u64::from(*next), "out of order");
            if self.slot(*next).take(*next) {
                self.make(*next, 100);
            }
            let answer = Answer {
                status: 0,
                value: command.value + 1000,
            };
            self.slot(*next).answer(*next, answer);
            *next += 1;
        }
    }

    /// Makes the transfer at this position; `by` identifies the side.
    fn make(&self, position: u32, by: u64) {
        // SAFETY: loom checks the access.
        self.payload(position).with_mut(|p| unsafe {
            assert_eq!(*p, u64::from(position) + 10, "made twice");
            *p += by;
        });
    }

    fn collect(&self, position: u32) -> bool {
        let Some(answer) = self.slot(position).answered(position) else {
            return false;
        };
        assert_eq!(answer.value, u64::from(position) + 1000);
        // SAFETY: loom checks the access.
        self.payload(position)
            .with(|p| assert_eq!(unsafe { *p }, u64::from(position) + 110));
        true
    }
}

/// Posts `n` commands, with at most as many outstanding as there are slots, and takes the answers.
fn initiate(shared: &Shared, n: u32) {
    let (mut head, mut tail) = (0, 0);
    while head < n {
        while tail < n && tail - head < SLOTS {
            shared.post(tail);
            tail += 1;
        }
        if shared.collect(head) {
            head += 1;
        } else {
            thread::yield_now();
        }
    }
}

/// A thread that uses the ring.
fn spawn<T: 'static>(
    shared: &Arc<Shared>,
    run: impl FnOnce(&Shared) -> T + 'static,
) -> thread::JoinHandle<T> {
    let shared = Arc::clone(shared);
    thread::spawn(move || run(&shared))
}

fn check(test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

/// The target only checks its bell: it sees each command once, in order.
#[test]
fn the_bell_loses_no_command() {
    check(|| {
        let shared = Shared::new();
        let initiator = spawn(&shared, |shared| initiate(shared, 3));
        let mut next = 0;
        while next < 3 {
            shared.answer_bell(&mut next);
            thread::yield_now();
        }
        initiator.join().unwrap();
    });
}

/// The target watches for a while, stops, and afterwards only answers its bell. If the target
/// missed a command in between, the loop at the end would not end.
#[test]
fn ceasing_to_watch_loses_no_command() {
    check(|| {
        let shared = Shared::new();
        let initiator = spawn(&shared, |shared| initiate(shared, 2));
        let mut next = 0;
        shared.watch.begin();
        shared.serve(&mut next);
        shared.watch.end();
        shared.serve(&mut next);
        while next < 2 {
            shared.answer_bell(&mut next);
            thread::yield_now();
        }
        initiator.join().unwrap();
    });
}

/// The initiator revokes commands while the target takes them, and uses the same slots twice: exactly
/// one side makes each transfer, and the target's progress always ends.
#[test]
fn a_transfer_is_made_once() {
    check(|| {
        let shared = Shared::new();
        shared.watch.begin();
        let target = spawn(&shared, |shared| {
            let mut next = 0;
            while next < 3 {
                shared.serve_transfers(&mut next);
                thread::yield_now();
            }
        });
        let mut mine = [false; 3];
        for (head, tail) in [(0, 2), (2, 3)] {
            for position in head..tail {
                shared.post(position);
            }
            for position in (head..tail).rev() {
                let command = shared.slot(position).command();
                if shared.slot(position).revoke(position) {
                    assert_eq!(command.value, u64::from(position), "an answer");
                    shared.make(position, 200);
                    mine[position as usize] = true;
                }
            }
            for position in head..tail {
                while shared.slot(position).answered(position).is_none() {
                    thread::yield_now();
                }
                let by = if mine[position as usize] { 210 } else { 110 };
                // SAFETY: loom checks the access.
                shared
                    .payload(position)
                    .with(|p| assert_eq!(unsafe { *p }, u64::from(position) + by));
            }
        }
        target.join().unwrap();
    });
}

/// Two commands are posted while no thread takes answers, so the watch may end before the second
/// command.
#[test]
fn a_burst_into_the_end_of_watching_is_seen() {
    check(|| {
        let shared = Shared::new();
        shared.watch.begin();
        let initiator = spawn(&shared, |shared| {
            shared.post(0);
            shared.post(1);
        });
        let mut next = 0;
        shared.watch.end();
        shared.serve(&mut next);
        while next < 2 {
            shared.answer_bell(&mut next);
            thread::yield_now();
        }
        initiator.join().unwrap();
        assert!(shared.collect(0) && shared.collect(1));
    });
}

/// A ring changes its owner after the first owner revoked a transfer; the payload of the second owner begins at the
/// same place. With `kept`, the first owner keeps a ring with an unanswered command that it could not revoke. Both
/// sides check only a few times, so the ring may stay taken, or a command may be left.
fn change_owner(kept: bool) {
    check(move || {
        let (shared, given) = (Shared::new(), Arc::new(AtomicBool::new(false)));
        shared.slot(0).publish(0, &Command::default());
        let target = spawn(&shared, |shared| {
            let mut next = 0;
            for _ in 0..3 {
                if !shared.slot(next).is_published(next) {
                    continue;
                }
                if shared.slot(next).take(next) {
                    // SAFETY: loom checks the access.
                    shared.payload(0).with_mut(|p| unsafe {
                        assert_eq!(*p, u64::from(next), "another's operand");
                        *p += 100;
                    });
                }
                let answer = Answer {
                    status: 0,
                    value: 0,
                };
                shared.slot(next).answer(next, answer);
                next += 1;
            }
        });
        let second = {
            let (shared, given) = (Arc::clone(&shared), Arc::clone(&given));
            thread::spawn(move || {
                // The same check as in `Place::claim`.
                if given.load(Ordering::Acquire) {
                    // SAFETY: loom checks the access.
                    shared.payload(0).with_mut(|p| unsafe { *p = 1 });
                    shared.slot(1).publish(1, &Command::default());
                }
            })
        };
        let revoked = shared.slot(0).revoke(0);
        let held = !revoked && shared.slot(0).answered(0).is_none();
        if !(kept && held) {
            // The same store as in `Claim::give_back`.
            given.store(true, Ordering::Release);
        }
        target.join().unwrap();
        second.join().unwrap();
    });
}

/// The target skips a revoked command, before or after the change of owner; a command that was not
/// revoked is answered before the change.
#[test]
fn a_ring_changes_its_owner() {
    change_owner(true);
}

/// The model can fail: a command that the target has taken must not count as revoked.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_ring_given_away_with_a_taken_transfer_is_a_race() {
    change_owner(false);
}

/// The owner dies, with or without a revoked transfer. The next owner finds in the slots its first position, and that the
/// target has left the payload; the target may still have to skip the revoked command.
#[test]
fn a_ring_of_the_dead_is_taken_after_its_last_answer() {
    check(|| {
        let shared = Shared::new();
        shared.slot(0).publish(0, &Command::default());
        let target = spawn(&shared, |shared| {
            if shared.slot(0).take(0) {
                // SAFETY: loom checks the access.
                shared.payload(0).with_mut(|p| unsafe { *p += 100 });
            }
            let answer = Answer {
                status: 0,
                value: 0,
            };
            shared.slot(0).answer(0, answer);
        });
        let dead = spawn(&shared, |shared| shared.slot(0).revoke(0));
        if let Some((next, _)) = shared.slot(0).left_at() {
            assert_eq!(next, 1);
            // SAFETY: loom checks the access.
            shared.payload(0).with_mut(|p| unsafe { *p = 1 });
        }
        target.join().unwrap();
        dead.join().unwrap();
    });
}

//! The ring protocol between a requester, which issues atomics and ring puts and gets, and a responder, which executes
//! them: the owner of each word at each time, and the doorbell.
//!
//! A ring has one requester and one responder. Commands have consecutive positions. Position `p` uses slot `p % n`;
//! the slot's state gives the position and its progress:
//!
//! | state | owner of the slot | next step |
//! | --- | --- | --- |
//! | any older state | requester | writes a command, then `published(p)` (Release) |
//! | `published(p)` | responder, after an Acquire load | executes, writes the answer, then `answered(p)` (Release) |
//! | `answered(p)` | requester, after an Acquire load | takes the answer; the slot is free for `p + n` |
//!
//! Both sides visit the positions in order: a ring is first in, first out, and no side mistakes a state for a state of
//! another lap. One cache line holds command and answer.
//!
//! A *transfer* is a command that the requester can also execute itself, through the kernel; it does so when the
//! responder is slow. The compare-and-swap from `published(p)` decides between the two: the responder executes after
//! it stored `taken(p)`, the requester after it stored `revoked(p)`. The responder does not execute a revoked command
//! but answers it, because only an answer frees the slot for `p + n`. The requester therefore reads the command
//! before it revokes (Release; the responder's Acquire pairs with it).
//!
//! The responder learns of a command in one of two ways. The responder *watches* the few rings that were used last: it
//! polls the state of their next slots. All other rings ring the *doorbell* (`Bells`), one bit per ring, which the
//! responder reads a word at a time. A locked write to the doorbell moves a contended cache line (some 70 of 250 ns per
//! operation), so the requester of a watched ring does not write it. This leaves two races:
//!
//! - The requester rings after it publishes, and the responder clears the bit before it polls the ring. If a command
//!   is published too late for this poll, its bit stays set for the next one.
//! - A requester that finds its ring watched does not ring, while the responder may be about to stop watching. Each
//!   side writes (the command; "not watched"), executes a full fence, and reads the other side's word. Fences have
//!   one total order, so the side with the later fence sees the other side's write: either the requester rings, or
//!   the responder's last poll finds the command.
//!
//! `tests/ring_model.rs` checks the interleavings.

use crate::base::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Rings of one responder. The number exceeds the peers that shm allows (256), because rings of killed requesters
/// are never given back.
pub(crate) const RINGS: usize = 512;

const WORD: usize = 64;
const WORDS: usize = RINGS / WORD;

/// A command to the responder. `responder` defines the codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Command {
    /// Operation, datatype and kind.
    pub(crate) what: u32,
    /// Number of elements; for a transfer, number of bytes.
    pub(crate) count: u32,
    /// Location of operands and results (`segment`) if they do not fit in `value`.
    pub(crate) payload: u32,
    /// Address of the first element in the responder's address space.
    pub(crate) address: u64,
    /// Key and cookie of the region's handle.
    pub(crate) key: u64,
    pub(crate) cookie: u64,
    /// An operand of one word.
    pub(crate) value: u64,
    /// The value to compare with in a compare-and-swap.
    pub(crate) compare: u64,
}

/// The responder's answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// A value of `Status`.
    pub(crate) status: i32,
    /// The old value, or the data read, if it fits in one word; otherwise the payload holds it.
    pub(crate) value: u64,
}

/// One position of a ring. All fields are atomic, because a faulty process may write at any time. Only `state` orders
/// accesses.
#[repr(C, align(64))]
pub(crate) struct Slot {
    state: AtomicU32,
    what: AtomicU32,
    address: AtomicU64,
    key: AtomicU64,
    cookie: AtomicU64,
    value: AtomicU64,
    compare: AtomicU64,
    count: AtomicU32,
    payload: AtomicU32,
    status: AtomicU32,
}

/// Number of positions that states can distinguish.
pub(crate) const POSITIONS: u32 = 1 << 30;

#[inline]
fn published(position: u32) -> u32 {
    position.wrapping_mul(4).wrapping_add(1)
}

#[inline]
fn revoked(position: u32) -> u32 {
    position.wrapping_mul(4).wrapping_add(2)
}

#[inline]
fn taken(position: u32) -> u32 {
    position.wrapping_mul(4).wrapping_add(3)
}

#[inline]
fn answered(position: u32) -> u32 {
    position.wrapping_mul(4).wrapping_add(4)
}

impl Slot {
    #[cfg(test)]
    pub(crate) fn new() -> Slot {
        Slot {
            state: AtomicU32::new(0),
            what: AtomicU32::new(0),
            address: AtomicU64::new(0),
            key: AtomicU64::new(0),
            cookie: AtomicU64::new(0),
            value: AtomicU64::new(0),
            compare: AtomicU64::new(0),
            count: AtomicU32::new(0),
            payload: AtomicU32::new(0),
            status: AtomicU32::new(0),
        }
    }

    /// Publishes a command; only the requester calls this. The requester has taken the slot's last
    /// answer before. The caller then calls [`announce`].
    #[inline]
    pub(crate) fn publish(&self, position: u32, c: &Command) {
        self.what.store(c.what, Ordering::Relaxed);
        self.count.store(c.count, Ordering::Relaxed);
        self.payload.store(c.payload, Ordering::Relaxed);
        self.address.store(c.address, Ordering::Relaxed);
        self.key.store(c.key, Ordering::Relaxed);
        self.cookie.store(c.cookie, Ordering::Relaxed);
        self.value.store(c.value, Ordering::Relaxed);
        self.compare.store(c.compare, Ordering::Relaxed);
        // Release pairs with the Acquire in `is_published`.
        self.state.store(published(position), Ordering::Release);
    }

    /// Whether this position has a command, which may be revoked; only the responder calls this.
    #[inline]
    pub(crate) fn is_published(&self, position: u32) -> bool {
        // Acquire pairs with the Release in `publish` and `revoke`.
        let state = self.state.load(Ordering::Acquire);
        state.wrapping_sub(published(position)) <= 1
    }

    /// Takes the transfer at this position; only the responder calls this. Returns false if the transfer was
    /// revoked; the responder then answers without executing it.
    #[inline]
    pub(crate) fn take(&self, position: u32) -> bool {
        // Relaxed on success: the Acquire in `is_published` came before. Acquire on failure pairs with the Release in
        // `revoke`; the responder answers the revoked command next.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Acquire);
        self.state
            .compare_exchange(published(position), taken(position), set, fetch)
            .is_ok()
    }

    /// Revokes the transfer at this position; only the requester calls this. Returns false if the responder has taken
    /// or answered the transfer.
    #[inline]
    pub(crate) fn revoke(&self, position: u32) -> bool {
        // Release pairs with the Acquire in `is_published` and `take`: the requester has read the command before the
        // responder overwrites it with an answer.
        let (set, fetch) = (Ordering::Release, Ordering::Relaxed);
        self.state
            .compare_exchange(published(position), revoked(position), set, fetch)
            .is_ok()
    }

    /// Whether the responder may execute the command in this slot, or is about to answer it. Any process may call this.
    pub(crate) fn may_be_executed(&self) -> bool {
        // Odd states are published or taken, at any position. Acquire pairs with the Release in `answer`.
        self.state.load(Ordering::Acquire) % 2 == 1
    }

    /// Returns the position behind the last command that was posted here, without its two highest bits, and whether that
    /// command was revoked and may still have to be skipped. Any process may call this. Returns `None` while the command
    /// [may be executed](Self::may_be_executed).
    pub(crate) fn left_at(&self) -> Option<(u32, bool)> {
        // Acquire pairs with the Release in `answer` and `revoke`: nothing uses the payload of the command any more.
        let state = self.state.load(Ordering::Acquire);
        match state % 4 {
            0 => Some((state / 4, false)),
            2 => Some(((state / 4 + 1) % POSITIONS, true)),
            _ => None,
        }
    }

    /// The command. The responder reads the command after [`is_published`](Self::is_published) returned true. The
    /// requester reads this field before the answer, and therefore before it revokes. Each word is loaded once,
    /// so that the checked value is also the used value.
    #[inline]
    pub(crate) fn command(&self) -> Command {
        Command {
            what: self.what.load(Ordering::Relaxed),
            count: self.count.load(Ordering::Relaxed),
            payload: self.payload.load(Ordering::Relaxed),
            address: self.address.load(Ordering::Relaxed),
            key: self.key.load(Ordering::Relaxed),
            cookie: self.cookie.load(Ordering::Relaxed),
            value: self.value.load(Ordering::Relaxed),
            compare: self.compare.load(Ordering::Relaxed),
        }
    }

    /// Publishes the answer; only the responder calls this.
    #[inline]
    pub(crate) fn answer(&self, position: u32, answer: Answer) {
        self.value.store(answer.value, Ordering::Relaxed);
        self.status.store(answer.status as u32, Ordering::Relaxed);
        // Release pairs with the Acquire in `answered`.
        self.state.store(answered(position), Ordering::Release);
    }

    /// The answer to the command at this position; `None` while the command is outstanding. Only
    /// the requester calls this.
    #[inline]
    pub(crate) fn answered(&self, position: u32) -> Option<Answer> {
        // Acquire pairs with the Release in `answer`.
        (self.state.load(Ordering::Acquire) == answered(position)).then(|| Answer {
            status: self.status.load(Ordering::Relaxed) as i32,
            value: self.value.load(Ordering::Relaxed),
        })
    }
}

/// Whether the responder watches a ring. The responder writes the word and the requester reads it. The word has a cache
/// line of its own.
#[repr(C, align(128))]
pub(crate) struct Watch(AtomicU32);

impl Watch {
    #[cfg(test)]
    pub(crate) fn new() -> Watch {
        Watch(AtomicU32::new(0))
    }

    /// Starts to watch the ring: the responder, which calls this, polls the ring's next slot from
    /// now on.
    #[inline]
    pub(crate) fn begin(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// Stops to watch the ring; only the responder calls this. The responder must poll the ring
    /// once more after this call.
    #[inline]
    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
        // Pairs with the fence in `announce`.
        fence(Ordering::SeqCst);
    }
}

/// A responder's doorbell: one bit per ring.
#[repr(C, align(128))]
pub(crate) struct Bells {
    words: [AtomicU64; WORDS],
    /// Number of words that may have a bit set. The number rarely changes and has a cache line of its own.
    used: Used,
}

#[repr(C, align(128))]
struct Used(AtomicU32);

impl Bells {
    #[cfg(test)]
    pub(crate) fn new() -> Bells {
        Bells {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            used: Used(AtomicU32::new(0)),
        }
    }

    /// Makes the responder read the ring's word. The requester calls this before the first command of a
    /// ring. Relaxed is enough, because the responder polls repeatedly.
    pub(crate) fn enlist(&self, ring: usize) {
        self.used
            .0
            .fetch_max((ring / WORD) as u32 + 1, Ordering::Relaxed);
    }

    /// Makes the responder poll a ring.
    #[cold]
    #[inline(never)]
    pub(crate) fn ring(&self, ring: usize) {
        // Release pairs with the Acquire in `take`: a responder that sees the bit sees the command.
        self.words[ring / WORD].fetch_or(1 << (ring % WORD), Ordering::Release);
    }

    /// The number of words that the responder has to read.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        (self.used.0.load(Ordering::Relaxed) as usize).min(WORDS)
    }

    /// Takes and clears the bits of one word; only the responder calls this.
    #[inline]
    pub(crate) fn take(&self, word: usize) -> u64 {
        // A plain load keeps the cache line shared while no requester rings.
        if self.words[word].load(Ordering::Relaxed) == 0 {
            return 0;
        }
        // Acquire pairs with the Release in `ring`.
        self.words[word].swap(0, Ordering::Acquire)
    }
}

/// Notifies the responder of a published command; only the requester calls this.
#[inline(always)]
pub(crate) fn announce(watch: &Watch, bells: &Bells, ring: usize) {
    // Pairs with the fence in `Watch::end`.
    fence(Ordering::SeqCst);
    if watch.0.load(Ordering::Relaxed) == 0 {
        bells.ring(ring);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sync::model;

    #[test]
    fn states_of_different_laps_differ() {
        model(|| {
            let slot = Slot::new();
            for position in [
                0,
                128,
                u32::MAX / 4 - 127,
                u32::MAX / 2 - 127,
                u32::MAX - 127,
                0,
            ] {
                assert!(!slot.is_published(position));
                let command = Command {
                    address: u64::from(position),
                    what: 1,
                    count: 2,
                    payload: 3,
                    key: 4,
                    cookie: 5,
                    value: 6,
                    compare: 7,
                };
                slot.publish(position, &command);
                assert!(slot.is_published(position));
                assert!(!slot.is_published(position.wrapping_add(128)));
                assert_eq!(slot.command(), command);
                assert_eq!(slot.answered(position), None);
                let answer = Answer {
                    status: -4,
                    value: 8,
                };
                slot.answer(position, answer);
                assert!(!slot.is_published(position), "executed once");
                assert_eq!(slot.answered(position), Some(answer));
                assert!(!slot.take(position) && !slot.revoke(position));
            }
        });
    }

    #[test]
    fn either_side_gets_a_transfer() {
        model(|| {
            let (slot, answer) = (
                Slot::new(),
                Answer {
                    status: 0,
                    value: 0,
                },
            );
            slot.publish(7, &Command::default());
            assert!(slot.take(7) && !slot.revoke(7) && !slot.is_published(7));
            slot.answer(7, answer);
            slot.publish(135, &Command::default());
            assert!(slot.revoke(135) && !slot.take(135) && !slot.revoke(135));
            assert!(
                slot.is_published(135),
                "a revoked command awaits its answer"
            );
            assert_eq!(slot.answered(135), None);
            slot.answer(135, answer);
            assert_eq!(slot.answered(135), Some(answer));
        });
    }

    #[test]
    fn an_unwatched_ring_rings_the_doorbell() {
        model(|| {
            let (bells, watch) = (Bells::new(), Watch::new());
            bells.enlist(70);
            assert_eq!(bells.used(), 2);
            announce(&watch, &bells, 70);
            announce(&watch, &bells, 64);
            assert_eq!((bells.take(0), bells.take(1)), (0, 1 << 6 | 1));
            watch.begin();
            announce(&watch, &bells, 70);
            assert_eq!(bells.take(1), 0);
            watch.end();
            announce(&watch, &bells, 70);
            assert_eq!(bells.take(1), 1 << 6);
        });
    }
}

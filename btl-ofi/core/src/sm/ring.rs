//! The protocol between an initiator of atomics and small transfers and the process that executes them:
//! who may write which word when, and how neither sleeps through what the other did.
//!
//! A ring has one initiator and one target. Commands take consecutive positions; position `p` uses
//! slot `p % n`, and the slot's state says which position it is at and how far it is:
//!
//! | state | the slot belongs to | who goes on |
//! | --- | --- | --- |
//! | anything older | the initiator | writes a command, then `published(p)` (Release) |
//! | `published(p)` | the target, which read it with Acquire | executes, writes the answer, then `answered(p)` (Release) |
//! | `answered(p)` | the initiator, which read it with Acquire | takes the answer; the slot is free for `p + n` |
//!
//! Both sides go through the positions in order, so a ring is first in, first out, and no state is
//! mistaken for another lap's. One cache line holds command and answer.
//!
//! A *transfer* is a command that the initiator could carry out itself, and will when the target is slow.
//! Both then want the slot, and the one whose compare-and-swap finds `published(p)` has it: the target
//! executes what it made `taken(p)`, the initiator what it made `revoked(p)`. A revoked command is passed
//! over by the target, which answers it like any other, since only then the slot is free for `p + n`; so the
//! initiator knows what to do before it revokes (Release, which the target's Acquire finds).
//!
//! The target learns of a command in one of two ways. It *watches* the few rings that were used last,
//! by reading the state of their next slots; all others ring its *bell*, a bit for each ring, which
//! it reads by the word. A locked write to the bell costs each operation a transfer of a contended line
//! (some 70 ns of 250 here), so it is left out while the ring is watched. That makes two races:
//!
//! - The bell is rung after the command is published, and the target clears it before it looks. A
//!   command published too late to be seen leaves the bell rung for the next look.
//! - An initiator that finds its ring watched rings nothing, while the target may be about to stop
//!   watching. Each side writes (the command; "not watched"), passes a full fence, and reads what the
//!   other wrote. Fences have one order, so whoever passes second sees the other's write: either the
//!   initiator rings, or the last look of the target finds the command.
//!
//! `tests/ring_model.rs` goes through the interleavings.

use crate::base::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Rings that one process can be reached by: more than shm allows peers (256), so that rings of
/// killed initiators, which nobody gives back, do not run out first.
pub(crate) const RINGS: usize = 512;

const WORD: usize = 64;
const WORDS: usize = RINGS / WORD;

/// What the target is to do. The numbers mean what `responder` makes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Command {
    /// Operation, type and kind.
    pub(crate) what: u32,
    /// Elements, of a transfer bytes.
    pub(crate) count: u32,
    /// Where operands and results lie (`segment`), unless they fit in `value`.
    pub(crate) payload: u32,
    /// The first element, in the target's address space.
    pub(crate) address: u64,
    /// The key and cookie of the region's handle.
    pub(crate) key: u64,
    pub(crate) cookie: u64,
    /// The operand.
    pub(crate) value: u64,
    /// What a compare-and-swap compares with.
    pub(crate) compare: u64,
}

/// What the target says when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// A `Status`.
    pub(crate) status: i32,
    /// What was there before, or was read, unless it lies in the payload.
    pub(crate) value: u64,
}

/// One position of a ring. Everything in it is atomic, since a process that misbehaves may write at
/// any time; order comes from `state` alone.
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

    /// Initiator: hands a command over. The slot's last answer was taken before. To be followed by
    /// [`announce`].
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

    /// Target: whether there is a command at this position, be it one that was revoked.
    #[inline]
    pub(crate) fn is_published(&self, position: u32) -> bool {
        let state = self.state.load(Ordering::Acquire);
        state.wrapping_sub(published(position)) <= 1
    }

    /// Target: takes the transfer at this position; no if it was revoked, and is to be answered unexecuted.
    #[inline]
    pub(crate) fn take(&self, position: u32) -> bool {
        // Relaxed, after the Acquire in `is_published`; but one that was revoked since then is answered, which
        // pairs with the Release in `revoke`.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Acquire);
        self.state
            .compare_exchange(published(position), taken(position), set, fetch)
            .is_ok()
    }

    /// Initiator: revokes the transfer at this position; no if the target has it, or had it.
    #[inline]
    pub(crate) fn revoke(&self, position: u32) -> bool {
        // Release: what was read of the slot before was read before the target answers.
        let (set, fetch) = (Ordering::Release, Ordering::Relaxed);
        self.state
            .compare_exchange(published(position), revoked(position), set, fetch)
            .is_ok()
    }

    /// Anyone: whether the target may execute the command in this slot, or be about to answer it.
    pub(crate) fn may_be_executed(&self) -> bool {
        // Published or taken, at whatever position. Acquire pairs with the Release in `answer`.
        self.state.load(Ordering::Acquire) % 2 == 1
    }

    /// The command: for the target after [`is_published`](Self::is_published) said that there is one, for the
    /// initiator until it is answered, so before it is revoked. Each word is read once, so what is checked is what is used.
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

    /// Target: gives the answer.
    #[inline]
    pub(crate) fn answer(&self, position: u32, answer: Answer) {
        self.value.store(answer.value, Ordering::Relaxed);
        self.status.store(answer.status as u32, Ordering::Relaxed);
        // Release pairs with the Acquire in `answered`.
        self.state.store(answered(position), Ordering::Release);
    }

    /// Initiator: the answer to the command at this position, once there is one.
    #[inline]
    pub(crate) fn answered(&self, position: u32) -> Option<Answer> {
        (self.state.load(Ordering::Acquire) == answered(position)).then(|| Answer {
            status: self.status.load(Ordering::Relaxed) as i32,
            value: self.value.load(Ordering::Relaxed),
        })
    }
}

/// Whether a ring is watched: written by the target, read by the initiator, and alone on its line.
#[repr(C, align(128))]
pub(crate) struct Watch(AtomicU32);

impl Watch {
    #[cfg(test)]
    pub(crate) fn new() -> Watch {
        Watch(AtomicU32::new(0))
    }

    /// Target: from now on the ring's next slot is looked at.
    #[inline]
    pub(crate) fn begin(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// Target: from now on it is not, save once more after this call.
    #[inline]
    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
        // Pairs with the fence in `announce`.
        fence(Ordering::SeqCst);
    }
}

/// A target's bells, a bit for each ring.
#[repr(C, align(128))]
pub(crate) struct Bells {
    words: [AtomicU64; WORDS],
    /// Words that may ever have a bit set. On a line of its own, which rarely changes.
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

    /// Initiator, before the first command of a ring: has its word looked at. Relaxed, because the
    /// target looks again and again.
    pub(crate) fn enlist(&self, ring: usize) {
        self.used
            .0
            .fetch_max((ring / WORD) as u32 + 1, Ordering::Relaxed);
    }

    /// Has the target look at a ring.
    #[inline]
    pub(crate) fn ring(&self, ring: usize) {
        // Release pairs with the Acquire in `take`: who sees the bit sees the command.
        self.words[ring / WORD].fetch_or(1 << (ring % WORD), Ordering::Release);
    }

    /// Target: words to look at.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        (self.used.0.load(Ordering::Relaxed) as usize).min(WORDS)
    }

    /// Target: the rings of one word that were rung, a bit each, cleared.
    #[inline]
    pub(crate) fn take(&self, word: usize) -> u64 {
        // A plain read keeps the line shared while nobody rings.
        if self.words[word].load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.words[word].swap(0, Ordering::Acquire)
    }
}

/// Initiator: tells the target of a published command.
#[inline]
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
    fn no_lap_is_mistaken_for_another() {
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
    fn a_transfer_is_one_sides() {
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
            assert!(slot.is_published(135), "there is something to pass over");
            assert_eq!(slot.answered(135), None);
            slot.answer(135, answer);
            assert_eq!(slot.answered(135), Some(answer));
        });
    }

    #[test]
    fn bells_are_rung_unless_watched() {
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

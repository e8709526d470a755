//! Ownership of the blocks in a segment's payload pool. All requesters of a responder share the blocks.
//!
//! A block's word tells whether the block is *busy*: its operands or results are still needed. Only the ring that
//! made a block busy uses the block. Only that ring makes it idle again, after every command that names the block was
//! answered and the results were read. An idle block stays with its ring until another ring takes it; until then, its
//! ring takes it again with one compare-and-swap.
//!
//! | state of the word | next step | ordering |
//! | --- | --- | --- |
//! | idle | any ring: `take`, `retake` | Acquire, pairs with the Release in `release` |
//! | busy | its ring: `release` | Release, pairs with the Acquire in the next `take` or `retake` |
//! | busy and deserted | any ring: `take`, after `Claim::is_deserted`; its ring's next owner: `free` | Acquire, pairs with `take` and `allocated` |
//!
//! A busy block is deserted when its process is dead or has closed the ring, and no command of the ring is left to execute.
//!
//! Each take increments a counter in the word, so a compare-and-swap with an outdated word fails.
//!
//! `tests/ring_model.rs` checks the interleavings.

use crate::base::sync::{AtomicU64, Ordering};

/// Blocks of one segment.
pub(crate) const BLOCKS: usize = 64;

const BUSY: u64 = 1;
/// The block's pages are allocated, and stay allocated.
const ALLOCATED: u64 = 2;
const RING: u32 = 2;
const RING_BITS: u64 = (1 << 16) - 1;
const TAKES: u32 = 32;

/// Owner word of one block. The word has a cache line of its own, because a ring writes the word for each burst of
/// commands.
#[repr(C, align(64))]
pub(crate) struct Owner(AtomicU64);

/// A value of an [`Owner`]'s word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    /// Whether the block is busy.
    pub(crate) fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }

    /// Whether the block's pages are allocated.
    pub(crate) fn is_allocated(self) -> bool {
        self.0 & ALLOCATED != 0
    }

    /// The ring that took the block last.
    pub(crate) fn ring(self) -> usize {
        (self.0 >> RING & RING_BITS) as usize
    }

    fn taken(self, ring: usize) -> Word {
        let takes = (self.0 >> TAKES).wrapping_add(1) << TAKES;
        Word(takes | (ring as u64 & RING_BITS) << RING | self.0 & ALLOCATED | BUSY)
    }
}

impl Owner {
    #[cfg(test)]
    pub(crate) fn new() -> Owner {
        Owner(AtomicU64::new(0))
    }

    /// The current value. Acquire pairs with the Release in `change` and `allocated`: this process sees the writes
    /// that the ring made before it took the block.
    pub(crate) fn read(&self) -> Word {
        Word(self.0.load(Ordering::Acquire))
    }

    /// Takes the block if its word is still `found`: an idle block, or a busy block whose owner is dead.
    pub(crate) fn take(&self, found: Word, ring: usize) -> Option<Word> {
        self.change(found, found.taken(ring))
    }

    /// Takes the block again if no other ring has taken it since [`release`](Self::release) returned
    /// `idle`.
    #[inline]
    pub(crate) fn retake(&self, idle: Word) -> Option<Word> {
        self.change(idle, Word(idle.0.wrapping_add(1 << TAKES) | BUSY))
    }

    #[inline]
    fn change(&self, from: Word, to: Word) -> Option<Word> {
        // Acquire pairs with the Release in `release`; Release pairs with the Acquire in `read`.
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        self.0
            .compare_exchange(from.0, to.0, set, fetch)
            .is_ok()
            .then_some(to)
    }

    /// Makes the block that the last owner of a dead ring left busy idle, unless another ring takes it. The new owner
    /// of the ring calls this. Makes the block that the last owner left busy idle, unless another ring takes it.
    pub(crate) fn free(&self, ring: usize) {
        let found = self.read();
        if found.is_busy() && found.ring() == ring {
            self.change(found, Word(found.0 & !BUSY));
        }
    }

    /// Records that the block's pages are allocated; only the owning ring calls this.
    pub(crate) fn allocated(&self, busy: Word) -> Word {
        let word = Word(busy.0 | ALLOCATED);
        // Release pairs with the Acquire in `read`.
        self.0.store(word.0, Ordering::Release);
        word
    }

    /// Makes the block idle; only the owning ring calls this. All commands that name the block were
    /// answered.
    #[inline]
    pub(crate) fn release(&self, busy: Word) -> Word {
        let idle = Word(busy.0 & !BUSY);
        // Release pairs with the Acquire in `change` of the next ring: this ring has read its results.
        self.0.store(idle.0, Ordering::Release);
        idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sync::model;

    #[test]
    fn a_block_has_one_ring() {
        model(|| {
            let owner = Owner::new();
            let unused = owner.read();
            assert!(!unused.is_busy() && !unused.is_allocated());
            let busy = owner.take(unused, 511).unwrap();
            assert!(busy.is_busy() && !busy.is_allocated() && busy.ring() == 511);
            assert_eq!(owner.take(unused, 3), None, "the word has changed");
            let busy = owner.allocated(busy);
            let idle = owner.release(busy);
            assert!(!idle.is_busy() && idle.is_allocated() && idle.ring() == 511);
            let again = owner.retake(idle).unwrap();
            assert_eq!(again.ring(), 511);
            assert_eq!(owner.retake(idle), None, "the word has changed");
            let idle = owner.release(again);
            let other = owner.take(owner.read(), 3).unwrap();
            assert!(other.is_busy() && other.is_allocated() && other.ring() == 3);
            assert_eq!(owner.retake(idle), None, "another ring took it");
            // The ring's process is dead.
            let third = owner.take(owner.read(), 4).unwrap();
            assert_eq!((third.ring(), owner.read()), (4, third));
            owner.free(3);
            assert_eq!(owner.read(), third, "it is another ring's");
            owner.free(4);
            assert!(!owner.read().is_busy());
            assert_eq!(owner.take(third, 5), None, "the word has changed");
        });
    }
}

//! Who has which block of a segment's payload pool. All initiators of a target share its blocks.
//!
//! A block's word says whether it is *busy*: operands or results in it are still needed. Only the ring that
//! made it busy uses the block, and only that ring makes it idle, once every command that names the block was
//! answered and the results were read. An idle block stays with its ring, which takes it again with one
//! compare-and-swap, until another ring takes it.
//!
//! | word | who goes on | ordering |
//! | --- | --- | --- |
//! | idle | any ring: `take`, `retake` | Acquire, pairs with the Release in `release` |
//! | busy | its ring: `release` | Release, pairs with the Acquire of the next taker |
//! | busy, its process gone and nothing left to execute | any ring: `take`, after it made sure of that | as above |
//!
//! Each take counts up in the word, so a word that was read before another ring had the block is never
//! mistaken for the present one.
//!
//! `tests/ring_model.rs` goes through the interleavings.

use crate::base::sync::{AtomicU64, Ordering};

/// Blocks of one segment.
pub(crate) const BLOCKS: usize = 64;

const BUSY: u64 = 1;
/// The block's pages are there, for good.
const ALLOCATED: u64 = 2;
const RING: u32 = 2;
const RING_BITS: u64 = (1 << 16) - 1;
const TAKES: u32 = 32;

/// The word of one block, alone on its line: its ring writes it for each burst of commands.
#[repr(C, align(64))]
pub(crate) struct Owner(AtomicU64);

/// What an [`Owner`]'s word said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    /// Whether the block is in use.
    pub(crate) fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }

    /// Whether its pages were allocated.
    pub(crate) fn is_allocated(self) -> bool {
        self.0 & ALLOCATED != 0
    }

    /// The ring that had it last.
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

    /// The word now. Acquire: what its ring wrote before it took the block is seen after this.
    pub(crate) fn read(&self) -> Word {
        Word(self.0.load(Ordering::Acquire))
    }

    /// Takes the block, if its word is still the one that was `found`: idle, or busy and nobody's any more.
    pub(crate) fn take(&self, found: Word, ring: usize) -> Option<Word> {
        self.change(found, found.taken(ring))
    }

    /// Takes the block again, if no other ring did since [`release`](Self::release) gave `idle`.
    #[inline]
    pub(crate) fn retake(&self, idle: Word) -> Option<Word> {
        self.change(idle, Word(idle.0.wrapping_add(1 << TAKES) | BUSY))
    }

    #[inline]
    fn change(&self, from: Word, to: Word) -> Option<Word> {
        // Acquire pairs with the Release in `release`, Release with the Acquire in `read`.
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        self.0
            .compare_exchange(from.0, to.0, set, fetch)
            .is_ok()
            .then_some(to)
    }

    /// Its ring: notes that the block's pages are there.
    pub(crate) fn allocated(&self, busy: Word) -> Word {
        let word = Word(busy.0 | ALLOCATED);
        // Release: pairs with the Acquire in `read`.
        self.0.store(word.0, Ordering::Release);
        word
    }

    /// Its ring: lets others take the block. No command that names it may be unanswered.
    #[inline]
    pub(crate) fn release(&self, busy: Word) -> Word {
        let idle = Word(busy.0 & !BUSY);
        // Release pairs with the Acquire of the next taker: its results were read.
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
            let nobody = owner.read();
            assert!(!nobody.is_busy() && !nobody.is_allocated());
            let busy = owner.take(nobody, 511).unwrap();
            assert!(busy.is_busy() && !busy.is_allocated() && busy.ring() == 511);
            assert_eq!(owner.take(nobody, 3), None, "an old word");
            let busy = owner.allocated(busy);
            let idle = owner.release(busy);
            assert!(!idle.is_busy() && idle.is_allocated() && idle.ring() == 511);
            let again = owner.retake(idle).unwrap();
            assert_eq!(again.ring(), 511);
            assert_eq!(owner.retake(idle), None, "taken since");
            let idle = owner.release(again);
            let other = owner.take(owner.read(), 3).unwrap();
            assert!(other.is_busy() && other.is_allocated() && other.ring() == 3);
            assert_eq!(owner.retake(idle), None, "another ring's");
            // Its process is gone.
            let third = owner.take(owner.read(), 4).unwrap();
            assert_eq!((third.ring(), owner.read()), (4, third));
        });
    }
}

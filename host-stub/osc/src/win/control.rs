//! The control block: words of one window at one rank, which every rank of the window reads and
//! updates, through the transport or in the segment that all ranks share.
//!
//! Where peers use the transport, the owner never stores to a word that peers update: the transport's atomics need not be atomic with respect to
//! the processor. The owner only loads such words, and updates them through the transport like every other rank.
//! Peers use gets to read words that only the owner writes (attached regions, and the owner's messages to peers).

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use plugin_api::Handle;

use super::arena::{Arena, ArenaError, Place};
use super::lock_words::MOST_RANKS;
use super::shm::shared::Shared;
use crate::transport::Transport;

/// Words of a cache line, so that words with different users do not share one.
const LINE: usize = 8;

/// A word of the control block, counted in 64-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) usize);

/// Locks of this rank's memory ([`super::lock_words`]).
pub(super) const LOCK: Word = Word(0);
/// In a segment, the lock for updates of this rank's memory that the processor's atomics do not serve.
pub(super) const UPDATE_LOCK: Word = Word(LINE);
/// The number of access epochs that any rank completed to this one.
pub(super) const COMPLETED: Word = Word(2 * LINE);
/// Version of the table of attached regions, odd while it changes; then the number of its slots.
pub(super) const REGIONS_VERSION: Word = Word(3 * LINE);
/// Counters of puts with notification ([`COUNTERS`] words).
const NOTIFIED: usize = 4 * LINE;
/// At the master, locks of all ranks' memory ([`super::lock_words`]).
pub(super) const LOCK_OF_ALL: Word = Word(5 * LINE);
/// Barrier signals received, one word per round.
const BARRIER: usize = 6 * LINE;
/// Rounds of a barrier among the most ranks that a window has, in whole cache lines.
const ROUNDS: usize = 24;
const _: () = assert!(MOST_RANKS.ilog2() < ROUNDS as u32);
/// Words of a rank's statement to the others: the first is a number, or the length of a refusal, whose text
/// follows.
pub(super) const SAID_WORDS: usize = 32;
/// The statements of this rank to the others; only this rank writes here.
const SAID: usize = BARRIER + ROUNDS;
/// The number of exposure epochs that each rank posted to this one, one word per rank.
const POSTS: usize = SAID + 2 * SAID_WORDS;

/// Counters that each rank of a window has for puts with notification.
pub const COUNTERS: usize = LINE;

/// The places of the parts of a window's control blocks. The same on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ControlPlan {
    regions: usize,
    scratch: usize,
    words: usize,
}

impl ControlPlan {
    /// The plan for `size` ranks, `region_words` words about attached regions and `scratch_words`
    /// words that only the owner uses.
    pub(super) fn new(size: usize, region_words: usize, scratch_words: usize) -> ControlPlan {
        let regions = (POSTS + size).next_multiple_of(LINE);
        let scratch = (regions + region_words).next_multiple_of(LINE);
        ControlPlan {
            regions,
            scratch,
            words: scratch + scratch_words,
        }
    }

    /// A counter of puts with notification.
    pub(super) fn notified(&self, counter: usize) -> Word {
        Word(NOTIFIED + counter % COUNTERS)
    }

    /// The signals of one round of the barrier.
    pub(super) fn barrier(&self, round: usize) -> Word {
        Word(BARRIER + round % ROUNDS)
    }

    /// A word of the rank's statement at a turn.
    pub(super) fn said(&self, turn: u64, index: usize) -> Word {
        Word(SAID + (turn % 2) as usize * SAID_WORDS + index % SAID_WORDS)
    }

    /// The posts of one rank.
    pub(super) fn post_of(&self, rank: usize) -> Word {
        Word(POSTS + rank)
    }

    /// The `index`-th word about attached regions.
    pub(super) fn region(&self, index: usize) -> Word {
        Word(self.regions + index)
    }

    /// The `index`-th word of the owner's scratch.
    pub(super) fn scratch(&self, index: usize) -> Word {
        Word(self.scratch + index)
    }

    pub(super) fn words(&self) -> usize {
        self.words
    }

    fn bytes(&self) -> usize {
        self.words * size_of::<u64>()
    }
}

/// This rank's control block.
pub(super) struct Control {
    plan: ControlPlan,
    base: *mut u8,
    /// The handle of the memory that holds the block; null in a segment.
    handle: *mut Handle,
    /// `None` in a segment, and after the block was withdrawn.
    place: Option<Place>,
}

// SAFETY: the pointers name the block and a registration, which live as long as `place` or the window's segment; the block
// is reached by atomics only.
unsafe impl Send for Control {}
// SAFETY: as for Send.
unsafe impl Sync for Control {}

impl Control {
    /// Makes a block that other ranks reach through the transport.
    pub(super) fn new(
        arena: &Arc<Arena>,
        transport: &Transport,
        plan: ControlPlan,
    ) -> Result<Control, ArenaError> {
        let place = Arena::take(arena, transport, plan.bytes())?;
        Ok(Control {
            plan,
            base: place.base(),
            handle: place.registration().handle_ptr(),
            place: Some(place),
        })
    }

    /// The block of a rank in a segment, which the window keeps as long as the block.
    pub(super) fn in_segment(shared: &Shared, rank: usize) -> Control {
        Control {
            plan: shared.plan.control,
            base: shared.word(rank, LOCK).as_ptr().cast(),
            handle: std::ptr::null_mut(),
            place: None,
        }
    }

    /// Leaves the block to peers that may still change it: the memory is never freed, and serves no other
    /// window.
    pub(super) fn withdraw(&mut self) {
        if let Some(place) = self.place.take() {
            place.leave();
        }
    }

    pub(super) fn plan(&self) -> &ControlPlan {
        &self.plan
    }

    /// The block's address, and its handle if other ranks reach it.
    pub(super) fn card(&self) -> (u64, Vec<u8>) {
        let bytes = |place: &Place| place.registration().handle_bytes().to_vec();
        (
            self.base as u64,
            self.place.as_ref().map_or(Vec::new(), bytes),
        )
    }

    /// The handle of the block, for results in its scratch words.
    #[inline]
    pub(super) fn handle(&self) -> *mut Handle {
        self.handle
    }

    /// A word of this rank's block.
    #[inline]
    pub(super) fn word(&self, word: Word) -> &AtomicU64 {
        let index = word.0.min(self.plan.words - 1);
        // SAFETY: the index is inside the block, which is aligned to lines, began zeroed and lives as long
        // as the window. Peers write the block like any shared memory: loads are atomic and see whole
        // words, which providers write with single stores.
        unsafe { AtomicU64::from_ptr(self.base.cast::<u64>().add(index)) }
    }

    /// The address of a word of this rank's block.
    pub(super) fn address(&self, word: Word) -> *mut u64 {
        self.word(word).as_ptr()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            place.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        let plan = ControlPlan::new(5, 30, 16);
        const {
            assert!(LOCK.0 < UPDATE_LOCK.0 && UPDATE_LOCK.0 < COMPLETED.0);
            assert!(COMPLETED.0 < REGIONS_VERSION.0 && REGIONS_VERSION.0 + 1 < NOTIFIED);
        }
        assert!(plan.barrier(ROUNDS - 1).0 < plan.said(0, 0).0);
        assert!(plan.said(0, SAID_WORDS - 1).0 < plan.said(1, 0).0);
        assert!(plan.said(3, SAID_WORDS - 1).0 < plan.post_of(0).0);
        assert!(plan.post_of(4).0 < plan.region(0).0);
        assert!(plan.region(29).0 < plan.scratch(0).0);
        assert_eq!(plan.scratch(15).0 + 1, plan.words);
        assert!(plan.notified(COUNTERS - 1).0 < LOCK_OF_ALL.0);
        assert!(LOCK_OF_ALL.0 < plan.barrier(0).0);
        assert_eq!(plan.scratch(0).0 % LINE, 0);
    }
}

//! Passive-target locks, on two levels (the protocol of Gerstenberger, Besta, Hoefler, "Enabling Highly-Scalable Remote
//! Memory Access Programming with MPI-3 One Sided", SC 2013, with waiting ranks that announce themselves).
//!
//! Each rank has a word for locks of its memory, and rank 0 of the window, the master, has one more for `lock_all`. A lock
//! changes these words by additions and compare-and-swaps, wherever they lie:
//!
//! | lock | master's word | target's word |
//! | --- | --- | --- |
//! | all targets, shared | [`SHARED`] | |
//! | one target, shared | | [`SHARED`] |
//! | one target, exclusive | [`ALONE`] | [`ALONE`] |
//!
//! A lock is held when its words had nothing that excludes it: [`ALONE`] for a shared lock; for an exclusive one [`SHARED`]
//! in the master's word, anything in the target's. Exclusive locks of several targets stand beside each other in the
//! master's word.
//!
//! A rank that waits for an exclusive lock of a target has [`WAITING`] in both words and holds neither. If it held one, it
//! might wait for a second rank that waits for a third, and block the third from a lock that nobody has. While a rank waits,
//! shared lockers stand back, so that a stream of them cannot block it. They stand back for [`LockWords::PATIENCE`] only:
//! otherwise a rank with an exclusive lock of one target that wants a shared lock of another could wait behind a rank that
//! waits for it. A call that fails takes back its additions to the words.

use std::time::{Duration, Instant};

use super::error::WinResult;

/// Added for each shared holder.
const SHARED: u64 = 1;
/// Added for each rank that waits to hold alone.
const WAITING: u64 = 1 << BITS;
/// Added for each that holds alone.
const ALONE: u64 = 1 << (2 * BITS);
/// Bits of each count.
const BITS: u32 = 21;

/// Ranks whose locks the counts of a word can tell apart.
pub(super) const MOST_RANKS: usize = (1 << BITS) - 1;

/// The word of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockWord {
    /// That of the master, of locks of all targets.
    Master = 0,
    /// That of the target.
    Target = 1,
}

use LockWord::{Master, Target};

/// The words that locks of one target consist of.
pub(super) trait LockWords {
    /// How long a shared locker lets others go before.
    const PATIENCE: Duration;

    /// Adds to a word; gives what was there.
    fn add(&self, word: LockWord, operand: u64) -> WinResult<u64>;

    /// Adds to a word without waiting for the answer. If the addition fails later, ranks that wait for the word get an error.
    fn give(&self, word: LockWord, operand: u64) -> WinResult<()>;

    /// Replaces a word if it has a value; gives what was there.
    fn swap_if(&self, word: LockWord, compare: u64, value: u64) -> WinResult<u64>;

    /// Adds to the master's word and replaces the target's if it is 0, both at once. Gives what was there.
    fn add_and_swap(&self, operand: u64, value: u64) -> [WinResult<u64>; 2] {
        [self.add(Master, operand), self.swap_if(Target, 0, value)]
    }
}

const fn shared(word: u64) -> u64 {
    word & (WAITING - SHARED)
}

/// The part of a word that tells of waiting ranks.
const fn waiting(word: u64) -> u64 {
    word & (ALONE - WAITING)
}

const fn alone(word: u64) -> u64 {
    word & !(ALONE - SHARED)
}

/// Locks the target shared, or with the master's word all targets. `back_off` waits, longer with each of the tries that it
/// is told; its error ends the call.
pub(super) fn lock_shared<W: LockWords>(
    words: &W,
    word: LockWord,
    mut back_off: impl FnMut(u32) -> WinResult<()>,
) -> WinResult<()> {
    let mut since = None;
    let mut is_free = |found: u64| {
        let stands_back =
            waiting(found) != 0 && since.get_or_insert_with(Instant::now).elapsed() < W::PATIENCE;
        alone(found) == 0 && !stands_back
    };
    let mut tries = 0;
    while !is_free(words.add(word, SHARED)?) {
        words.give(word, SHARED.wrapping_neg())?;
        // Only read meanwhile: a count that comes and goes would be in the way of those that this rank lets go before.
        loop {
            back_off(tries)?;
            tries += 1;
            if is_free(words.add(word, 0)?) {
                break;
            }
        }
    }
    Ok(())
}

/// Gives back what [`lock_shared`] took.
pub(super) fn unlock_shared(words: &impl LockWords, word: LockWord) -> WinResult<()> {
    words.give(word, SHARED.wrapping_neg())
}

/// Locks the target for this rank alone. `back_off` as in [`lock_shared`].
pub(super) fn lock_alone(
    words: &impl LockWords,
    back_off: impl FnMut(u32) -> WinResult<()>,
) -> WinResult<()> {
    let mut claim = Claim {
        words,
        added: [0; 2],
    };
    let locked = claim.lock(back_off);
    if locked.is_err() {
        claim.withdraw();
    }
    locked
}

/// Gives back what [`lock_alone`] took.
pub(super) fn unlock_alone(words: &impl LockWords) -> WinResult<()> {
    // Subtracted, not overwritten: others may have added themselves meanwhile.
    let given = [Target, Master].map(|word| words.give(word, ALONE.wrapping_neg()));
    let [target, master] = given;
    target.and(master)
}

/// A lock that is being taken, and what it has added to each word so far.
struct Claim<'w, W> {
    words: &'w W,
    added: [u64; 2],
}

impl<W: LockWords> Claim<'_, W> {
    fn lock(&mut self, mut back_off: impl FnMut(u32) -> WinResult<()>) -> WinResult<()> {
        let [master, target] = self.words.add_and_swap(ALONE, ALONE);
        if master.is_ok() {
            self.added[Master as usize] = ALONE;
        }
        if matches!(target, Ok(0)) {
            self.added[Target as usize] = ALONE;
        }
        let (master, mut found) = (master?, target?);
        let mut is_shared_by_all = shared(master) != 0;
        if !is_shared_by_all && found == 0 {
            return Ok(());
        }
        let mut tries = 0;
        loop {
            self.wait_in(Master)?;
            self.wait_in(Target)?;
            while is_shared_by_all {
                back_off(tries)?;
                tries += 1;
                is_shared_by_all = shared(self.words.add(Master, 0)?) != 0;
            }
            self.take_target(found + WAITING, &mut tries, &mut back_off)?;
            let before = self.words.add(Master, ALONE - WAITING)?;
            self.added[Master as usize] = ALONE;
            is_shared_by_all = shared(before) != 0;
            if !is_shared_by_all {
                return Ok(());
            }
            found = 0;
        }
    }

    /// Holds a word no more, and is announced in it.
    fn wait_in(&mut self, word: LockWord) -> WinResult<()> {
        let added = &mut self.added[word as usize];
        self.words.give(word, WAITING.wrapping_sub(*added))?;
        *added = WAITING;
        Ok(())
    }

    /// Takes the target's word, in which this rank is announced. `found` is what may be there.
    fn take_target(
        &mut self,
        mut found: u64,
        tries: &mut u32,
        back_off: &mut impl FnMut(u32) -> WinResult<()>,
    ) -> WinResult<()> {
        loop {
            // This rank's own announcement may still be under way.
            let expected = waiting(found).max(WAITING);
            if found != expected {
                back_off(*tries)?;
                *tries += 1;
            }
            let value = expected - WAITING + ALONE;
            found = self.words.swap_if(Target, expected, value)?;
            if found == expected {
                self.added[Target as usize] = ALONE;
                return Ok(());
            }
        }
    }

    /// Takes back what was added. Otherwise shared lockers would stand back for a rank that does not wait, or wait for one
    /// that holds nothing.
    fn withdraw(&mut self) {
        for word in [Target, Master] {
            let added = std::mem::take(&mut self.added[word as usize]);
            if added != 0 {
                // Best effort: the first error is the one to return.
                let _ = self.words.give(word, added.wrapping_neg());
            }
        }
    }
}

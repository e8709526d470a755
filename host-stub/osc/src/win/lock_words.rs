//! Passive-target locks, on two levels (the protocol of Gerstenberger, Besta, Hoefler, "Enabling Highly-Scalable Remote
//! Memory Access Programming with MPI-3 One Sided", SC 2013, with waiting ranks that announce themselves).
//!
//! Each rank has a lock word for its memory. Rank 0 of the window, the master, has one more word for `lock_all`. A lock
//! changes these words by additions and compare-and-swaps, on local and remote memory alike:
//!
//! | lock | master's word | target's word |
//! | --- | --- | --- |
//! | all targets, shared | [`SHARED`] | |
//! | one target, shared | | [`SHARED`] |
//! | one target, exclusive | [`ALONE`] | [`ALONE`] |
//!
//! A rank holds a lock if its words contained nothing that excludes the lock. [`ALONE`] excludes a shared lock. [`SHARED`] in
//! the master's word excludes an exclusive lock, and so does any value in the target's word. Exclusive locks of several
//! targets coexist in the master's word.
//!
//! A rank that waits for an exclusive lock of a target has [`WAITING`] in both words and holds neither. If the waiting rank
//! held one word, it might wait for a second rank that waits for a third, and block the third from a lock that no rank has.
//! While a rank waits, shared lockers stand back, so that a stream of them cannot block it. Shared lockers stand back only
//! for [`LockWords::patience`]. Otherwise deadlock is possible: a rank that holds an exclusive lock of one target and wants a
//! shared lock of another could wait behind a rank that waits for it. A call that fails takes back its additions to the
//! words.

use std::time::{Duration, Instant};

use super::error::WinResult;

/// Added for each shared holder.
const SHARED: u64 = 1;
/// The addition to a lock word that releases a shared lock.
pub(super) const SHARED_ENDS: u64 = SHARED.wrapping_neg();
/// Added for each rank that waits for an exclusive lock.
const WAITING: u64 = 1 << BITS;
/// Added for each rank that holds an exclusive lock.
const ALONE: u64 = 1 << (2 * BITS);
/// Bits of each count.
const BITS: u32 = 21;

/// Maximum number of ranks whose locks the counts of a word can hold.
pub(super) const MOST_RANKS: usize = (1 << BITS) - 1;

/// The word of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockWord {
    /// The master's word, of locks of all targets.
    Master = 0,
    /// The target's word.
    Target = 1,
}

use LockWord::{Master, Target};

/// The words that make up the locks of one target.
pub(super) trait LockWords {
    /// The time for which a shared locker stands back for other ranks.
    fn patience(&self) -> Duration;

    /// Adds to a word; returns the old value.
    fn add(&self, word: LockWord, operand: u64) -> WinResult<u64>;

    /// Adds to a word without waiting for the answer. If the addition fails later, ranks that wait for the word get an error.
    fn give(&self, word: LockWord, operand: u64) -> WinResult<()>;

    /// Replaces a word if it has the expected value; returns the old value.
    fn swap_if(&self, word: LockWord, compare: u64, value: u64) -> WinResult<u64>;

    /// Adds to the master's word and replaces the target's word if it is 0, both at once. Returns the old values.
    fn add_and_swap(&self, operand: u64, value: u64) -> [WinResult<u64>; 2] {
        [self.add(Master, operand), self.swap_if(Target, 0, value)]
    }
}

const fn shared(word: u64) -> u64 {
    word & (WAITING - SHARED)
}

/// The part of a word that counts waiting ranks.
const fn waiting(word: u64) -> u64 {
    word & (ALONE - WAITING)
}

const fn alone(word: u64) -> u64 {
    word & !(ALONE - SHARED)
}

/// Takes a shared lock of the target, or of all targets with the master's word. `back_off` waits, longer for a higher number
/// of tries; its error ends the call.
pub(super) fn lock_shared<W: LockWords>(
    words: &W,
    word: LockWord,
    mut back_off: impl FnMut(u32) -> WinResult<()>,
) -> WinResult<()> {
    let mut since = None;
    let mut is_free = |found: u64| {
        let stands_back = waiting(found) != 0
            && since.get_or_insert_with(Instant::now).elapsed() < words.patience();
        alone(found) == 0 && !stands_back
    };
    let mut tries = 0;
    while !is_free(words.add(word, SHARED)?) {
        words.give(word, SHARED_ENDS)?;
        // Only reads the word here: a count that comes and goes would disturb the ranks that this rank lets go first.
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

/// Releases the lock that [`lock_shared`] took.
pub(super) fn unlock_shared(words: &impl LockWords, word: LockWord) -> WinResult<()> {
    words.give(word, SHARED_ENDS)
}

/// Takes an exclusive lock of the target. `back_off` as in [`lock_shared`].
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

/// Releases the lock that [`lock_alone`] took.
pub(super) fn unlock_alone(words: &impl LockWords) -> WinResult<()> {
    // Subtracted, not overwritten: other ranks may have added to the words since.
    let given = [Target, Master].map(|word| words.give(word, ALONE.wrapping_neg()));
    let [target, master] = given;
    target.and(master)
}

/// A lock in acquisition, and the amounts added to each word so far.
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

    /// Stops holding a word, and is announced in the word as waiting.
    fn wait_in(&mut self, word: LockWord) -> WinResult<()> {
        let added = &mut self.added[word as usize];
        self.words.give(word, WAITING.wrapping_sub(*added))?;
        *added = WAITING;
        Ok(())
    }

    /// Takes the target's word, in which this rank is announced. `found` is the value that the word may have.
    fn take_target(
        &mut self,
        mut found: u64,
        tries: &mut u32,
        back_off: &mut impl FnMut(u32) -> WinResult<()>,
    ) -> WinResult<()> {
        loop {
            // This rank's own announcement may still be outstanding.
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

    /// Takes back the added amounts. Otherwise shared lockers would stand back for a rank that does not wait, or wait for a
    /// rank that holds nothing.
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

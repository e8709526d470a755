//! Context numbers: each rank knows which it has in use, and the ranks of a new communicator take
//! the lowest that all have free.
//!
//! While one thread agrees on a number, others of the same process have none to offer; they offer
//! an empty mask, find nothing, and try again. Of several threads the one whose parent communicator
//! has the lowest context goes first, on every rank, so that one always gets through (Gropp and
//! Thakur, "Thread-Safety in an MPI Implementation: Requirements and Analysis", 2007).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::schedule::CONTEXTS;

const WORDS: usize = CONTEXTS / 64;
/// Bytes of a mask on its way.
pub(super) const MASK: usize = WORDS * 8;

struct Inner {
    free: [u64; WORDS],
    /// The context of the parent over which somebody agrees now.
    taken_by: Option<u16>,
    /// Contexts of parents over which threads want to agree, and how many.
    waiting: BTreeMap<u16, usize>,
}

/// The context numbers of this process.
pub(super) struct Contexts(Mutex<Inner>);

impl Default for Contexts {
    fn default() -> Self {
        let mut free = [u64::MAX; WORDS];
        // The world's.
        free[0] &= !1;
        Contexts(Mutex::new(Inner {
            free,
            taken_by: None,
            waiting: BTreeMap::new(),
        }))
    }
}

impl Contexts {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread wants to agree over a parent.
    pub(super) fn queue(&self, parent: u16) {
        *self.lock().waiting.entry(parent).or_insert(0) += 1;
    }

    /// It no longer does.
    pub(super) fn leave(&self, parent: u16) {
        let mut inner = self.lock();
        if let Some(count) = inner.waiting.get_mut(&parent) {
            *count -= 1;
            if *count == 0 {
                inner.waiting.remove(&parent);
            }
        }
    }

    /// The mask to offer: what is free, or, while it is another's turn, nothing. What was taken is
    /// given back with [`settle`](Self::settle).
    pub(super) fn offer(&self, parent: u16) -> Option<[u8; MASK]> {
        let mut inner = self.lock();
        let first = inner.waiting.keys().next().copied();
        if inner.taken_by.is_some() || first != Some(parent) {
            return None;
        }
        inner.taken_by = Some(parent);
        let mut mask = [0; MASK];
        for (bytes, word) in mask.chunks_exact_mut(8).zip(inner.free) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Some(mask)
    }

    /// Ends a turn; a number that was agreed on is in use from now.
    pub(super) fn settle(&self, agreed: Option<u16>) {
        let mut inner = self.lock();
        inner.taken_by = None;
        if let Some(number) = agreed {
            inner.free[usize::from(number) / 64] &= !(1 << (number % 64));
        }
    }

    /// A number is no longer in use.
    pub(super) fn release(&self, number: u16) {
        self.lock().free[usize::from(number) / 64] |= 1 << (number % 64);
    }
}

/// The lowest number that all masks have.
pub(super) fn lowest_common<'a>(masks: impl Iterator<Item = &'a [u8]>) -> Option<u16> {
    let mut common = [u8::MAX; MASK];
    for mask in masks {
        for (byte, other) in common.iter_mut().zip(mask) {
            *byte &= other;
        }
    }
    let byte = common.iter().position(|byte| *byte != 0)?;
    Some((byte * 8) as u16 + common[byte].trailing_zeros() as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_once_and_come_back() {
        let contexts = Contexts::default();
        let take = || {
            contexts.queue(0);
            let mask = contexts.offer(0).unwrap();
            let number = lowest_common(std::iter::once(&mask[..]));
            contexts.settle(number);
            contexts.leave(0);
            number
        };
        assert_eq!((take(), take()), (Some(1), Some(2)));
        contexts.release(1);
        assert_eq!((take(), take()), (Some(1), Some(3)));
        for _ in 0..CONTEXTS - 4 {
            assert!(take().is_some());
        }
        assert_eq!(take(), None);
    }

    #[test]
    fn the_lowest_parent_goes_first() {
        let contexts = Contexts::default();
        contexts.queue(5);
        contexts.queue(3);
        assert!(contexts.offer(5).is_none());
        assert!(contexts.offer(3).is_some());
        assert!(contexts.offer(3).is_none(), "one at a time");
        contexts.settle(None);
        contexts.leave(3);
        assert!(contexts.offer(5).is_some());
    }

    #[test]
    fn only_what_all_have_is_common() {
        let (mut a, mut b) = ([0; MASK], [0; MASK]);
        a[3] = 0b0110_0000;
        b[3] = 0b0100_0001;
        assert_eq!(lowest_common([&a[..], &b[..]].into_iter()), Some(30));
        b[3] = 1;
        assert_eq!(lowest_common([&a[..], &b[..]].into_iter()), None);
    }
}

//! Context numbers: each rank knows the numbers that it uses, and the ranks of a new communicator take the lowest
//! number that is free on all of them.
//!
//! Threads of one process agree with other ranks at the same time, on numbers for different communicators and in
//! different orders. Only one thread at a time offers the numbers of the process, during one exchange; the others offer
//! an empty mask. If any rank has offered an empty mask, all ranks of the agreement try again. The thread with the
//! lowest turn goes first, on every rank (Gropp and Thakur, "Thread-Safety in an MPI Implementation: Requirements and
//! Analysis", 2007). No thread queues or takes the numbers before a first exchange has shown that all ranks have begun
//! the agreement. So every agreement ends:
//!
//! 1. A thread in the first exchange may wait for the program of another process, which may wait for another thread of this
//!    process. The first thread holds no numbers and is in no queue, so it delays no other thread.
//! 2. Once all ranks have begun an agreement, each rank goes from exchange to exchange and waits for nothing between them.
//!    So every further exchange ends, and the numbers are returned.
//! 3. Consider the agreements that all their ranks have begun. The one with the lowest turn becomes the first in the queue at
//!    each of its ranks. From then on no other agreement takes the numbers there, and taken numbers are returned (2). So in some
//!    exchange all its ranks offer their numbers, and this exchange ends the agreement. Then the same holds for the next turn.
//!
//! An agreement with a lower turn that begins later goes first. A program begins only finitely many
//! such agreements.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::schedule::CONTEXTS;

const WORDS: usize = CONTEXTS / 64;
/// Bytes of a mask on its way.
const MASK: usize = WORDS * 8;

/// The order of several agreements: the lowest turn goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn(u16);

impl Turn {
    /// The turn of the ranks of a communicator, which make only one agreement at a time.
    pub(super) fn of(context: u16) -> Turn {
        Turn(context)
    }
}

struct Inner {
    free: [u64; WORDS],
    /// Whether an agreement has taken the numbers.
    taken: bool,
    /// Agreements that want the numbers, with a count for each turn.
    waiting: BTreeMap<Turn, usize>,
}

/// The context numbers of this process.
pub(super) struct Contexts(Mutex<Inner>);

impl Default for Contexts {
    fn default() -> Self {
        let mut free = [u64::MAX; WORDS];
        // Context 0 belongs to the world.
        free[0] &= !1;
        Contexts(Mutex::new(Inner {
            free,
            taken: false,
            waiting: BTreeMap::new(),
        }))
    }
}

impl Contexts {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Agrees with other ranks on a number that is free on all of them, if there is one. A rank for which the new
    /// communicator is `wanted` starts to use the number. `exchange` is an allgather, which all ranks call in the same way.
    /// In its first round each rank sends `said`. From the values `said` of all ranks, `decide` computes the value that is
    /// returned with the number, or an error; the result is the same on every rank.
    pub(super) fn agree<T, E>(
        &self,
        turn: Turn,
        (said, wanted): (&[u8], bool),
        mut exchange: impl FnMut(&[u8]) -> Result<Vec<Vec<u8>>, E>,
        decide: impl FnOnce(&[Vec<u8>]) -> Result<T, E>,
    ) -> Result<(T, Option<u16>), E> {
        let decided = decide(&exchange(said)?)?;
        // The agreement is not queued earlier, because other agreements wait for the queue.
        self.queue(turn);
        let agreed = loop {
            let mask = self.offer(turn);
            let masks = exchange(mask.as_ref().map_or(&[], |mask| mask.as_slice()));
            let ended = match &masks {
                // Some rank offered its numbers to another agreement.
                Ok(masks) if masks.iter().any(|mask| mask.len() != MASK) => None,
                Ok(masks) => Some(lowest_common(masks.iter().map(Vec::as_slice))),
                Err(_) => None,
            };
            if mask.is_some() {
                self.settle(ended.flatten().filter(|_| wanted));
            }
            match (masks, ended) {
                (Err(error), _) => break Err(error),
                (Ok(_), Some(number)) => break Ok(number),
                (Ok(_), None) => std::thread::yield_now(),
            }
        };
        self.leave(turn);
        Ok((decided, agreed?))
    }

    /// Records that all ranks of an agreement have begun it.
    fn queue(&self, turn: Turn) {
        *self.lock().waiting.entry(turn).or_insert(0) += 1;
    }

    /// Records that an agreement has ended.
    fn leave(&self, turn: Turn) {
        let mut inner = self.lock();
        if let Some(count) = inner.waiting.get_mut(&turn) {
            *count -= 1;
            if *count == 0 {
                inner.waiting.remove(&turn);
            }
        }
    }

    /// Takes the mask of free contexts for an offer; `None` if it is another agreement's turn.
    /// [`settle`](Self::settle) gives the mask back.
    fn offer(&self, turn: Turn) -> Option<[u8; MASK]> {
        let mut inner = self.lock();
        let first = inner.waiting.keys().next().copied();
        if inner.taken || first != Some(turn) {
            return None;
        }
        inner.taken = true;
        let mut mask = [0; MASK];
        for (bytes, word) in mask.chunks_exact_mut(8).zip(inner.free) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Some(mask)
    }

    /// Gives the numbers back. The agreed number is in use from now on.
    fn settle(&self, agreed: Option<u16>) {
        let mut inner = self.lock();
        inner.taken = false;
        if let Some(number) = agreed {
            inner.free[usize::from(number) / 64] &= !(1 << (number % 64));
        }
    }

    /// Ends the use of a number.
    pub(super) fn release(&self, number: u16) {
        self.lock().free[usize::from(number) / 64] |= 1 << (number % 64);
    }
}

/// The lowest number that is in all masks.
fn lowest_common<'a>(masks: impl Iterator<Item = &'a [u8]>) -> Option<u16> {
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
    use std::sync::Condvar;
    use std::sync::mpsc::channel;

    use super::*;

    /// Exchanges of two ranks. The number of exchanges is limited, so that an agreement that never ends fails the
    /// test.
    #[derive(Default)]
    struct Pair {
        said: Mutex<[Vec<Vec<u8>>; 2]>,
        changed: Condvar,
    }

    const ROUNDS: usize = 10_000;

    impl Pair {
        /// The exchanges of a rank.
        fn exchange(&self, rank: usize) -> impl FnMut(&[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
            let mut round = 0;
            move |data| {
                if round == ROUNDS {
                    return Err("tried in vain");
                }
                let mut said = self.said.lock().unwrap();
                said[rank].push(data.to_vec());
                self.changed.notify_all();
                let both = |said: &mut [Vec<Vec<u8>>; 2]| said.iter().any(|s| s.len() <= round);
                let said = self.changed.wait_while(said, both).unwrap();
                let all = said.iter().map(|said| said[round].clone()).collect();
                round += 1;
                Ok(all)
            }
        }
    }

    #[test]
    fn an_agreement_that_has_not_begun_everywhere_is_in_nobodys_way() {
        let (ours, theirs) = (Contexts::default(), Contexts::default());
        let (low, high) = (Pair::default(), Pair::default());
        let all = |number| Turn::of(number);
        let agree = |contexts: &Contexts, turn, pair: &Pair, rank| {
            contexts.agree(turn, (&[], true), pair.exchange(rank), |_| Ok(()))
        };
        let (begun, has_begun) = channel();
        let numbers = std::thread::scope(|scope| {
            let (ours, low) = (&ours, &low);
            // Begins first, and waits for the other process, which is making the other agreement.
            let first = scope.spawn(move || {
                let mut exchange = low.exchange(0);
                let exchange = |data: &[u8]| {
                    begun.send(()).unwrap();
                    exchange(data)
                };
                ours.agree(all(3), (&[], true), exchange, |_| Ok(()))
            });
            has_begun.recv().unwrap();
            let second = scope.spawn(|| agree(ours, all(5), &high, 0));
            let there = [
                agree(&theirs, all(5), &high, 1),
                agree(&theirs, all(3), low, 1),
            ];
            let here = [second.join().unwrap(), first.join().unwrap()];
            drop(has_begun);
            [here, there]
        });
        let numbers = numbers.map(|each| each.map(|agreed| agreed.map(|(_, number)| number)));
        assert_eq!(numbers, [[Ok(Some(1)), Ok(Some(2))]; 2]);
    }

    #[test]
    fn numbers_are_used_once_and_come_back() {
        let contexts = Contexts::default();
        let take = || {
            let alone = |data: &[u8]| Ok::<_, ()>(vec![data.to_vec()]);
            let agreed = contexts.agree(Turn::of(0), (&[], true), alone, |_| Ok(()));
            agreed.unwrap().1
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
    fn the_lowest_turn_goes_first() {
        let contexts = Contexts::default();
        let turns = [3, 5, 7].map(Turn::of);
        turns.iter().rev().for_each(|turn| contexts.queue(*turn));
        for (index, turn) in turns.iter().enumerate() {
            for later in &turns[index + 1..] {
                assert!(contexts.offer(*later).is_none());
            }
            assert!(contexts.offer(*turn).is_some());
            assert!(contexts.offer(*turn).is_none(), "one at a time");
            contexts.settle(None);
            contexts.leave(*turn);
        }
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

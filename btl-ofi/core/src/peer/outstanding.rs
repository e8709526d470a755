//! Counts of outstanding operations. A flush can wait for the operations issued before it, and for no others.
//!
//! A count has a phase number and pairs of counters. An operation counts in one pair, in the counter of the phase in
//! which it is issued (phase modulo 2). The phase may advance from `f` to `f + 1` only while the counters that `f + 1`
//! will use are zero, that is, when all operations of phase `f - 1` are done. So a flush that began in phase `f` is
//! over once the phase is `f + 2`: the advance to `f + 1` proves that phase `f - 1` is empty, and the advance to
//! `f + 2` proves that phase `f` is empty. Operations issued meanwhile count in later phases and do not prolong the
//! flush. (The scheme is that of the two indices of sleepable RCU, which has a pair for each processor.)
//!
//! A thread that raises a counter reads the phase again. If the phase has advanced meanwhile, the thread lowers that counter
//! and raises the other one. Otherwise the thread could count in a counter that was already seen as zero for the next advance,
//! and the thread's own flush would end too early. This holds for each pair by itself, so it does not matter that the pairs of
//! a count are read one after the other.

use std::marker::PhantomData;

use crate::base::sync::{AtomicU32, Ordering};

/// The counter that counts an operation: 0 or 1.
pub(crate) type Phase = u32;

/// Counts of outstanding operations, by phase.
#[derive(Debug)]
pub(crate) struct Pair([AtomicU32; 2]);

/// The outstanding operations of one context or one peer: the phase, and a pair of counters. A peer may have other
/// pairs elsewhere (`peer::share`); then the pair here is not used.
#[derive(Debug)]
pub(crate) struct OutstandingCount {
    phase: AtomicU32,
    pair: Pair,
}

/// The phase and all pairs of a count.
#[derive(Clone, Copy)]
pub(crate) struct Total<'a> {
    phase: &'a AtomicU32,
    first: *const Pair,
    number: usize,
    /// Distance in bytes from one pair to the next.
    stride: usize,
    pairs: PhantomData<&'a Pair>,
}

/// The phase in which a flush began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u32);

/// The operations outstanding in the older one of the two phases. No operation is added to that phase, so its count
/// falls with every completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backlog {
    phase: u32,
    count: u32,
}

impl Backlog {
    /// Whether an operation completed between `earlier` and `self`.
    pub(crate) fn is_less_than(self, earlier: Backlog) -> bool {
        // The phase advances only after all operations of the older phase are done.
        self.phase != earlier.phase || self.count < earlier.count
    }
}

impl Pair {
    pub(crate) fn new() -> Self {
        Pair([AtomicU32::new(0), AtomicU32::new(0)])
    }

    /// Counts `n` operations of `phase` as done. Called after the operations' callbacks.
    #[inline]
    pub(crate) fn lower(&self, phase: Phase, n: u32, threaded: bool) {
        let count = &self.0[(phase & 1) as usize];
        // Release pairs with the loads in `outstanding_in` and `settle`: a flush that reads the lower count also sees the
        // writes of the callback.
        if threaded {
            count.fetch_sub(n, Ordering::Release);
        } else {
            count.store(
                count.load(Ordering::Relaxed).wrapping_sub(n),
                Ordering::Relaxed,
            );
        }
    }

    /// Number of operations outstanding in one phase.
    #[inline]
    pub(crate) fn outstanding_in(&self, phase: Phase) -> u32 {
        // Acquire pairs with the Release in `lower`: this thread sees the writes of the callbacks.
        self.0[(phase & 1) as usize].load(Ordering::Acquire)
    }

    /// Number of operations outstanding now: the sum of two separate reads.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding_in(0).wrapping_add(self.outstanding_in(1))
    }
}

impl OutstandingCount {
    pub(crate) fn new() -> Self {
        OutstandingCount {
            phase: AtomicU32::new(0),
            pair: Pair::new(),
        }
    }

    /// Number of operations outstanding in the count's own pair.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.pair.outstanding()
    }

    /// The count's own pair.
    #[inline(always)]
    pub(crate) fn pair(&self) -> &Pair {
        &self.pair
    }

    /// Counts an operation that is about to be posted. The caller later passes the result to [`Pair::lower`] of the same
    /// pair. `threaded` is false if calls never overlap; then no locked instruction is used.
    #[inline]
    pub(crate) fn raise(&self, pair: &Pair, threaded: bool) -> Phase {
        if threaded {
            return self.raise_among_others(pair);
        }
        let phase = self.phase.load(Ordering::Relaxed) & 1;
        let count = &pair.0[phase as usize];
        count.store(
            count.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        phase
    }

    #[inline]
    fn raise_among_others(&self, pair: &Pair) -> Phase {
        // SeqCst on the phase and the counters, here and in `settle`: either `settle` sees this count before it advances the
        // phase, or the second load sees the advanced phase.
        let mut phase = self.phase.load(Ordering::SeqCst);
        loop {
            pair.0[(phase & 1) as usize].fetch_add(1, Ordering::SeqCst);
            let now = self.phase.load(Ordering::SeqCst);
            if now == phase {
                return phase & 1;
            }
            pair.lower(phase, 1, true);
            phase = now;
        }
    }

    /// The phase and the count's own pair.
    #[inline(always)]
    pub(crate) fn total(&self) -> Total<'_> {
        // SAFETY: the pair lives as long as the count.
        unsafe { self.total_of(&self.pair, 1, 0) }
    }

    /// The phase and `number` pairs at distances of `stride` bytes.
    ///
    /// # Safety
    /// The pairs live at least as long as the count.
    #[inline(always)]
    pub(crate) unsafe fn total_of(
        &self,
        first: *const Pair,
        number: usize,
        stride: usize,
    ) -> Total<'_> {
        Total {
            phase: &self.phase,
            first,
            number,
            stride,
            pairs: PhantomData,
        }
    }
}

impl<'a> Total<'a> {
    /// All pairs.
    #[inline(always)]
    pub(crate) fn pairs(self) -> impl Iterator<Item = &'a Pair> {
        // SAFETY: the caller of `total_of` guarantees this number of pairs.
        (0..self.number).map(move |i| unsafe { &*self.first.byte_add(i * self.stride) })
    }

    /// Number of operations outstanding now: the sum of separate reads.
    #[inline]
    pub(crate) fn outstanding(self) -> u32 {
        self.pairs()
            .fold(0, |sum: u32, pair| sum.wrapping_add(pair.outstanding()))
    }

    /// The operations outstanding in the phase before the current one.
    pub(crate) fn backlog(self) -> Backlog {
        // Acquire pairs with the exchange in `settle`.
        let phase = self.phase.load(Ordering::Acquire);
        let before = phase.wrapping_add(1);
        let counts = self.pairs().map(|pair| pair.outstanding_in(before));
        Backlog {
            phase,
            count: counts.fold(0, u32::wrapping_add),
        }
    }

    /// Whether no operation is outstanding, neither of those that the calling thread issued before nor any other. This is
    /// the common case of [`settle`](Self::settle).
    #[inline]
    pub(crate) fn is_idle(self) -> bool {
        // The caller's operations were counted in one of a pair's two phases before this read.
        self.pairs()
            .all(|pair| pair.outstanding_in(0) == 0 && pair.outstanding_in(1) == 0)
    }

    /// Begins a flush.
    #[inline]
    pub(crate) fn mark(self) -> Mark {
        // Acquire pairs with the exchange in `settle`.
        Mark(self.phase.load(Ordering::Acquire))
    }

    /// Whether all operations that the calling thread issued before `mark` are done. Advances the phase if possible.
    /// If the result is false, the caller makes progress and calls again.
    #[inline]
    pub(crate) fn settle(self, mark: Mark) -> bool {
        if self.is_idle() {
            return true;
        }
        loop {
            // SeqCst on the phase and the counters, for the same reason as in `raise_among_others`.
            let phase = self.phase.load(Ordering::SeqCst);
            if phase.wrapping_sub(mark.0) >= 2 {
                return true;
            }
            let next = phase.wrapping_add(1);
            let count = |pair: &Pair| pair.0[(next & 1) as usize].load(Ordering::SeqCst);
            if self.pairs().any(|pair| count(pair) != 0) {
                return false;
            }
            // If the exchange fails, another flush advanced the phase, and the loop reads the phase again. The exchange
            // releases this thread's view of callbacks to threads that read the new phase.
            let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
            let _ = self.phase.compare_exchange(phase, next, set, fetch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sync::model;

    #[test]
    fn waits_for_what_was_issued_before() {
        model(|| {
            let t = OutstandingCount::new();
            let early = t.raise(t.pair(), true);
            let mark = t.total().mark();
            assert!(!t.total().settle(mark));
            let late = t.raise(t.pair(), true);
            assert_ne!(
                early, late,
                "an operation issued after the flush counts elsewhere"
            );
            t.pair().lower(early, 1, true);
            assert!(
                t.total().settle(mark),
                "later operations must not prolong the flush"
            );
            let second = t.total().mark();
            assert!(!t.total().settle(second));
            t.pair().lower(late, 1, true);
            assert!(t.total().settle(second));
            assert_eq!(t.total().outstanding(), 0);
        });
    }

    #[test]
    fn a_backlog_tells_progress_from_silence() {
        model(|| {
            let t = OutstandingCount::new();
            let (a, b) = (t.raise(t.pair(), true), t.raise(t.pair(), true));
            let mark = t.total().mark();
            assert!(
                !t.total().settle(mark),
                "moves new operations to the other phase"
            );
            let before = t.total().backlog();
            let c = t.raise(t.pair(), true);
            assert!(
                !t.total().backlog().is_less_than(before),
                "nothing completed"
            );
            t.pair().lower(a, 1, true);
            assert!(t.total().backlog().is_less_than(before));
            let before = t.total().backlog();
            t.pair().lower(b, 1, true);
            assert!(t.total().settle(mark));
            assert!(!t.total().settle(t.total().mark()));
            assert!(t.total().backlog().is_less_than(before));
            t.pair().lower(c, 1, true);
        });
    }

    #[test]
    fn is_not_starved() {
        model(|| {
            let t = OutstandingCount::new();
            let mut open = vec![t.raise(t.pair(), true)];
            let mark = t.total().mark();
            let mut turns = 0;
            while !t.total().settle(mark) {
                open.push(t.raise(t.pair(), true));
                let oldest = open.remove(0);
                t.pair().lower(oldest, 1, true);
                turns += 1;
                assert!(
                    turns < 10,
                    "a steady stream of operations starves the flush"
                );
            }
            assert!(t.total().outstanding() > 0);
        });
    }

    #[test]
    fn unthreaded_counts_alike() {
        model(|| {
            let t = OutstandingCount::new();
            let a = t.raise(t.pair(), false);
            let b = t.raise(t.pair(), false);
            assert_eq!(t.total().outstanding(), 2);
            t.pair().lower(a, 1, false);
            t.pair().lower(b, 1, false);
            assert!(t.total().settle(t.total().mark()));
        });
    }
}

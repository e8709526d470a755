//! Counts of outstanding operations. A flush can wait for the operations issued before it, and for no others.
//!
//! An [`OutstandingCount`] has a phase number and two counters. An operation counts in the counter of the phase in
//! which it is issued (phase modulo 2). The phase may advance from `f` to `f + 1` only while the counter that `f + 1`
//! will use is zero, that is, when all operations of phase `f - 1` are done. So a flush that began in phase `f` is
//! over once the phase is `f + 2`: the advance to `f + 1` proves that phase `f - 1` is empty, and the advance to
//! `f + 2` proves that phase `f` is empty. Operations issued meanwhile count in later phases and do not prolong the
//! flush. (The scheme is that of the two indices of sleepable RCU.)
//!
//! A thread that raises a counter reads the phase again. If the phase has advanced meanwhile, it lowers that counter and
//! raises the other one. Otherwise it could count in a counter that was already seen as zero for the next advance, and its
//! own flush would end too early.

use crate::base::sync::{AtomicU32, Ordering};

/// The counter in which an operation counts: 0 or 1.
pub(crate) type Phase = u32;

/// Outstanding operations of one context or one peer.
#[derive(Debug)]
pub(crate) struct OutstandingCount {
    phase: AtomicU32,
    outstanding: [AtomicU32; 2],
}

/// The phase in which a flush began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u32);

/// The operations outstanding in the older of the two phases. No operation is added to that phase, so its count falls
/// with every completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backlog {
    phase: u32,
    count: u32,
}

impl Backlog {
    /// Whether an operation completed between `earlier` and `self`.
    pub(crate) fn is_less_than(self, earlier: Backlog) -> bool {
        // The phase advances only when all operations of the older phase are done.
        self.phase != earlier.phase || self.count < earlier.count
    }
}

impl OutstandingCount {
    pub(crate) fn new() -> Self {
        OutstandingCount {
            phase: AtomicU32::new(0),
            outstanding: [AtomicU32::new(0), AtomicU32::new(0)],
        }
    }

    /// Counts an operation that is about to be posted. The caller later passes the result to [`lower`](Self::lower).
    /// `threaded` is false where calls never overlap; then no locked instruction is used.
    #[inline]
    pub(crate) fn raise(&self, threaded: bool) -> Phase {
        if threaded {
            return self.raise_among_others();
        }
        let phase = self.phase.load(Ordering::Relaxed) & 1;
        let count = &self.outstanding[phase as usize];
        count.store(
            count.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        phase
    }

    #[inline]
    fn raise_among_others(&self) -> Phase {
        // SeqCst on the phase and the counters, here and in `settle`: either `settle` sees this count before it advances the
        // phase, or the second load sees the advanced phase.
        let mut phase = self.phase.load(Ordering::SeqCst);
        loop {
            self.outstanding[(phase & 1) as usize].fetch_add(1, Ordering::SeqCst);
            let now = self.phase.load(Ordering::SeqCst);
            if now == phase {
                return phase & 1;
            }
            self.lower(phase, 1, true);
            phase = now;
        }
    }

    /// Counts `n` operations of `phase` as done. Called after their callbacks.
    #[inline]
    pub(crate) fn lower(&self, phase: Phase, n: u32, threaded: bool) {
        let count = &self.outstanding[(phase & 1) as usize];
        // Release pairs with the loads in `drained`, `settle`, `outstanding_in` and `outstanding`: a flush that reads the
        // lower count also sees the writes of the callback.
        if threaded {
            count.fetch_sub(n, Ordering::Release);
        } else {
            count.store(
                count.load(Ordering::Relaxed).wrapping_sub(n),
                Ordering::Relaxed,
            );
        }
    }

    /// Operations outstanding now: the sum of two separate reads.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        // Acquire pairs with the Release in `lower`.
        self.outstanding[0]
            .load(Ordering::Acquire)
            .wrapping_add(self.outstanding[1].load(Ordering::Acquire))
    }

    /// Operations outstanding in one phase.
    pub(crate) fn outstanding_in(&self, phase: Phase) -> u32 {
        // Acquire pairs with the Release in `lower`.
        self.outstanding[(phase & 1) as usize].load(Ordering::Acquire)
    }

    /// Operations outstanding in the phase before the current one.
    pub(crate) fn backlog(&self) -> Backlog {
        // Acquire pairs with the exchange in `settle`.
        let phase = self.phase.load(Ordering::Acquire);
        Backlog {
            phase,
            count: self.outstanding_in(phase.wrapping_add(1)),
        }
    }

    fn drained(&self, phase: Phase) -> bool {
        // Acquire pairs with the Release in `lower`: this thread sees the writes of the callbacks.
        self.outstanding[(phase & 1) as usize].load(Ordering::Acquire) == 0
    }

    /// Begins a flush.
    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        // Acquire pairs with the exchange in `settle`.
        Mark(self.phase.load(Ordering::Acquire))
    }

    /// Whether all operations that the calling thread issued before `mark` are done. Advances the phase if possible.
    /// If false, the caller makes progress and calls again.
    #[inline]
    pub(crate) fn settle(&self, mark: Mark) -> bool {
        // The common case: no operation is outstanding. The caller's operations were raised in one of these two
        // phases before this read.
        if self.drained(0) && self.drained(1) {
            return true;
        }
        loop {
            // SeqCst on the phase and the counter: as in `raise_among_others`.
            let phase = self.phase.load(Ordering::SeqCst);
            if phase.wrapping_sub(mark.0) >= 2 {
                return true;
            }
            let next = phase.wrapping_add(1);
            if self.outstanding[(next & 1) as usize].load(Ordering::SeqCst) != 0 {
                return false;
            }
            // If the exchange fails, another flush advanced the phase; the loop reads it again. It releases what this thread
            // saw of callbacks to those that read the new phase.
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
            let early = t.raise(true);
            let mark = t.mark();
            assert!(!t.settle(mark));
            let late = t.raise(true);
            assert_ne!(
                early, late,
                "an operation issued after the flush counts elsewhere"
            );
            t.lower(early, 1, true);
            assert!(
                t.settle(mark),
                "later operations must not prolong the flush"
            );
            let second = t.mark();
            assert!(!t.settle(second));
            t.lower(late, 1, true);
            assert!(t.settle(second));
            assert_eq!(t.outstanding(), 0);
        });
    }

    #[test]
    fn a_backlog_tells_progress_from_silence() {
        model(|| {
            let t = OutstandingCount::new();
            let (a, b) = (t.raise(true), t.raise(true));
            let mark = t.mark();
            assert!(!t.settle(mark), "moves new operations to the other phase");
            let before = t.backlog();
            let c = t.raise(true);
            assert!(!t.backlog().is_less_than(before), "nothing completed");
            t.lower(a, 1, true);
            assert!(t.backlog().is_less_than(before));
            let before = t.backlog();
            t.lower(b, 1, true);
            assert!(t.settle(mark));
            assert!(!t.settle(t.mark()));
            assert!(t.backlog().is_less_than(before));
            t.lower(c, 1, true);
        });
    }

    #[test]
    fn is_not_starved() {
        model(|| {
            let t = OutstandingCount::new();
            let mut open = vec![t.raise(true)];
            let mark = t.mark();
            let mut turns = 0;
            while !t.settle(mark) {
                open.push(t.raise(true));
                let oldest = open.remove(0);
                t.lower(oldest, 1, true);
                turns += 1;
                assert!(
                    turns < 10,
                    "a steady stream of operations starves the flush"
                );
            }
            assert!(t.outstanding() > 0);
        });
    }

    #[test]
    fn unthreaded_counts_alike() {
        model(|| {
            let t = OutstandingCount::new();
            let a = t.raise(false);
            let b = t.raise(false);
            assert_eq!(t.outstanding(), 2);
            t.lower(a, 1, false);
            t.lower(b, 1, false);
            assert!(t.settle(t.mark()));
        });
    }
}

//! How many operations are outstanding, in a form that lets a flush wait for those issued before it
//! and for no others.
//!
//! A count has a phase number and two counts. An operation counts in the phase of the phase in which
//! it was issued (phase modulo 2). The phase may advance from `f` to `f + 1` only while the phase
//! that `f + 1` will use is empty, that is, when everything of phase `f - 1` is done. So a flush
//! that began in phase `f` is over once the phase has reached `f + 2`: advancing to `f + 1` proved
//! phase `f - 1` empty, advancing to `f + 2` proved phase `f` empty. Operations issued meanwhile
//! count in later phases and do not prolong it. (The scheme is that of sleepable RCU's two indices.)
//!
//! A thread may read the phase, be delayed, and raise a phase late. That operation was not issued
//! before the flush of any other thread in a sense that thread could know, and a thread's own
//! operations are raised before its flush begins, so no promise is broken.

use crate::base::sync::{AtomicU32, Ordering};

/// Which phase an operation counted in: 0 or 1.
pub(crate) type Phase = u32;

/// Outstanding operations of one context or one peer.
#[derive(Debug)]
pub(crate) struct OutstandingCount {
    phase: AtomicU32,
    outstanding: [AtomicU32; 2],
}

/// A flush under way: where the count stood when it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u32);

/// What is outstanding of the older of two phases. Nothing is added to it, so it grows less with every
/// completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backlog {
    phase: u32,
    count: u32,
}

impl Backlog {
    /// Whether something completed between `earlier` and this.
    pub(crate) fn is_less_than(self, earlier: Backlog) -> bool {
        // The phase advances only when the older one's operations are all done.
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

    /// Counts an operation about to be posted; give the phase back to [`lower`](Self::lower).
    /// `threaded` is false where calls never overlap; then no locked instruction is used.
    #[inline]
    pub(crate) fn raise(&self, threaded: bool) -> Phase {
        // Acquire pairs with the AcqRel of `settle`: whoever sees the new phase also sees that the
        // phase was empty.
        let phase = self.phase.load(Ordering::Acquire) & 1;
        let count = &self.outstanding[phase as usize];
        if threaded {
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            count.store(
                count.load(Ordering::Relaxed).wrapping_add(1),
                Ordering::Relaxed,
            );
        }
        phase
    }

    /// Counts `n` operations of `phase` as done, after their callbacks ran.
    #[inline]
    pub(crate) fn lower(&self, phase: Phase, n: u32, threaded: bool) {
        let count = &self.outstanding[(phase & 1) as usize];
        // Release pairs with the Acquire in `drained`: a flush that sees the count fall also sees
        // what the callback wrote.
        if threaded {
            count.fetch_sub(n, Ordering::Release);
        } else {
            count.store(
                count.load(Ordering::Relaxed).wrapping_sub(n),
                Ordering::Relaxed,
            );
        }
    }

    /// Operations outstanding now; a sum of two reads.
    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding[0]
            .load(Ordering::Acquire)
            .wrapping_add(self.outstanding[1].load(Ordering::Acquire))
    }

    /// Operations outstanding in one phase.
    pub(crate) fn in_slot(&self, phase: Phase) -> u32 {
        self.outstanding[(phase & 1) as usize].load(Ordering::Acquire)
    }

    /// What is outstanding of the phase before the one that counts new operations.
    pub(crate) fn backlog(&self) -> Backlog {
        let phase = self.phase.load(Ordering::Acquire);
        Backlog {
            phase,
            count: self.in_slot(phase.wrapping_add(1)),
        }
    }

    fn drained(&self, phase: Phase) -> bool {
        self.outstanding[(phase & 1) as usize].load(Ordering::Acquire) == 0
    }

    /// Begins a flush.
    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.phase.load(Ordering::Acquire))
    }

    /// Whether everything the calling thread issued before `mark` is done. Advances the phase where
    /// it can; call it again after progress until it says so.
    #[inline]
    pub(crate) fn settle(&self, mark: Mark) -> bool {
        // The common case: nothing is outstanding at all. Each of the caller's operations was
        // raised in one of the phases before this read of it.
        if self.drained(0) && self.drained(1) {
            return true;
        }
        loop {
            let phase = self.phase.load(Ordering::Acquire);
            if phase.wrapping_sub(mark.0) >= 2 {
                return true;
            }
            if !self.drained(phase.wrapping_add(1)) {
                return false;
            }
            // Losing the exchange means that another flush advanced it: look again.
            let _ = self.phase.compare_exchange(
                phase,
                phase.wrapping_add(1),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
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

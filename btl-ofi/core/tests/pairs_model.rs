//! The flush rule for a count with several pairs, as a peer has with several contexts, under the model checker.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "outstanding_model/effect.rs"]
mod effect;
#[allow(
    dead_code,
    reason = "the file is built again here, and not all of it is used"
)]
#[path = "../src/peer/outstanding.rs"]
mod outstanding;

/// The module path that the source file expects.
mod base {
    pub(crate) use crate::sync;
}

/// The module that `outstanding` expects under this name: loom's atomics, with fences for SeqCst. loom knows SeqCst for
/// fences only, and treats other accesses as AcqRel. AcqRel is too weak here: the thread that reads a pair only loads its
/// counters, so no read-modify-write orders it behind the thread that raises them.
mod sync {
    pub(crate) use loom::sync::atomic::Ordering;
    use loom::sync::atomic::{self, fence};

    #[derive(Debug)]
    pub(crate) struct AtomicU32(atomic::AtomicU32);

    fn fence_of(order: Ordering) {
        if order == Ordering::SeqCst {
            fence(Ordering::SeqCst);
        }
    }

    impl AtomicU32 {
        pub(crate) fn new(value: u32) -> AtomicU32 {
            AtomicU32(atomic::AtomicU32::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> u32 {
            fence_of(order);
            self.0.load(order)
        }

        pub(crate) fn store(&self, value: u32, order: Ordering) {
            self.0.store(value, order);
            fence_of(order);
        }

        pub(crate) fn fetch_add(&self, n: u32, order: Ordering) -> u32 {
            let before = self.0.fetch_add(n, order);
            fence_of(order);
            before
        }

        pub(crate) fn fetch_sub(&self, n: u32, order: Ordering) -> u32 {
            let before = self.0.fetch_sub(n, order);
            fence_of(order);
            before
        }

        pub(crate) fn compare_exchange(
            &self,
            old: u32,
            new: u32,
            set: Ordering,
            fetch: Ordering,
        ) -> Result<u32, u32> {
            let found = self.0.compare_exchange(old, new, set, fetch);
            fence_of(set);
            found
        }
    }

    pub(crate) fn model(test: impl Fn() + Send + Sync + 'static) {
        loom::model(test);
    }
}

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use effect::Effect;
use outstanding::{OutstandingCount, Pair, Total};

/// A count with two pairs, as a peer has with two contexts.
struct Shared {
    count: OutstandingCount,
    pairs: [Pair; 2],
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared {
            count: OutstandingCount::new(),
            pairs: [Pair::new(), Pair::new()],
        })
    }

    fn total(&self) -> Total<'_> {
        let first = self.pairs.as_ptr();
        // SAFETY: the pairs lie in the array, and live as long as the count.
        unsafe { self.count.total_of(first, 2, size_of::<Pair>()) }
    }

    fn raise(&self, pair: usize) -> u32 {
        self.count.raise(&self.pairs[pair], true)
    }
}

/// Runs a test through the interleavings with up to three preemptions.
fn check(test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

/// Thread A issues by the first pair and flushes. Thread B issues by the second pair, completes both, and flushes, too.
/// Neither flush ends before its operation is complete, although the pairs are read one after the other, and both threads
/// see the value that the callback wrote.
#[test]
fn pairs_are_flushed_as_one_count() {
    check(|| {
        let shared = Shared::new();
        let effect = Arc::new(Effect(UnsafeCell::new(0)));
        let first = shared.raise(0);
        let completer = {
            let (shared, effect) = (Arc::clone(&shared), Arc::clone(&effect));
            thread::spawn(move || {
                let second = shared.raise(1);
                let mark = shared.total().mark();
                assert!(!shared.total().settle(mark), "its operation is outstanding");
                // SAFETY: loom checks each access.
                effect.0.with_mut(|e| unsafe { *e = 1 });
                shared.pairs[0].lower(first, 1, true);
                assert!(!shared.total().settle(mark), "its operation is outstanding");
                shared.pairs[1].lower(second, 1, true);
                while !shared.total().settle(mark) {
                    thread::yield_now();
                }
            })
        };
        let mark = shared.total().mark();
        while !shared.total().settle(mark) {
            thread::yield_now();
        }
        // SAFETY: loom checks each access.
        assert_eq!(effect.0.with(|e| unsafe { *e }), 1);
        completer.join().unwrap();
        assert_eq!(shared.total().outstanding(), 0);
    });
}

/// A thread is delayed while it raises the counter of one pair, and another thread advances the phase through the other
/// pair.
#[test]
fn an_operation_raised_late_in_another_pair_is_waited_for() {
    check(|| {
        let shared = Shared::new();
        let early = shared.raise(0);
        let advancing = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mark = shared.total().mark();
                shared.total().settle(mark);
                shared.pairs[0].lower(early, 1, true);
                shared.total().settle(mark);
                let again = shared.raise(0);
                shared.total().settle(mark);
                shared.pairs[0].lower(again, 1, true);
            })
        };
        let phase = shared.raise(1);
        let mark = shared.total().mark();
        assert!(!shared.total().settle(mark), "its operation is outstanding");
        advancing.join().unwrap();
        assert!(!shared.total().settle(mark), "its operation is outstanding");
        shared.pairs[1].lower(phase, 1, true);
        assert!(shared.total().settle(mark));
    });
}

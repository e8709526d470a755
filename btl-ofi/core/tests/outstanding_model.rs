//! The flush rule under the model checker: every interleaving of posting, completing and flushing.

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

/// The module that `outstanding` expects under this name: loom's atomics.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

    pub(crate) fn model(test: impl Fn() + Send + Sync + 'static) {
        loom::model(test);
    }
}

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use effect::Effect;
use outstanding::OutstandingCount;

/// Thread A issues and flushes; thread B completes A's operation; thread C issues and completes an
/// operation at any time. A's flush returns only after B's callback, and A sees the value that the
/// callback wrote.
#[test]
fn a_flush_sees_what_the_callback_wrote() {
    // Three threads without a bound take minutes, with the bound seconds. Most errors of this kind
    // occur with two preemptions already (loom's documentation).
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let count = Arc::new(OutstandingCount::new());
        let effect = Arc::new(Effect(UnsafeCell::new(0)));
        let phase = count.raise(count.pair(), true);
        let completer = {
            let (count, effect) = (Arc::clone(&count), Arc::clone(&effect));
            thread::spawn(move || {
                // SAFETY: loom checks each access.
                effect.0.with_mut(|e| unsafe { *e = 1 });
                count.pair().lower(phase, 1, true);
            })
        };
        let other = {
            let count = Arc::clone(&count);
            thread::spawn(move || {
                let phase = count.raise(count.pair(), true);
                count.pair().lower(phase, 1, true);
            })
        };
        let mark = count.total().mark();
        while !count.total().settle(mark) {
            thread::yield_now();
        }
        // SAFETY: loom checks each access.
        assert_eq!(effect.0.with(|e| unsafe { *e }), 1);
        completer.join().unwrap();
        other.join().unwrap();
        assert_eq!(count.total().outstanding(), 0);
    });
}

/// Two threads flush at the same time, each its own operation; neither misses that the other
/// advances the phase.
#[test]
fn two_flushes_at_once_both_end() {
    loom::model(|| {
        let count = Arc::new(OutstandingCount::new());
        let done = Arc::new(AtomicU32::new(0));
        let flusher = |count: Arc<OutstandingCount>, done: Arc<AtomicU32>| {
            move || {
                let phase = count.raise(count.pair(), true);
                done.fetch_add(1, Ordering::Relaxed);
                count.pair().lower(phase, 1, true);
                let mark = count.total().mark();
                while !count.total().settle(mark) {
                    thread::yield_now();
                }
            }
        };
        let a = thread::spawn(flusher(Arc::clone(&count), Arc::clone(&done)));
        flusher(Arc::clone(&count), Arc::clone(&done))();
        a.join().unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 2);
        assert_eq!(count.total().outstanding(), 0);
    });
}

/// A thread is delayed while it raises a counter, and two other threads advance the phase meanwhile. The delayed thread's
/// flush does not end before its operation.
#[test]
fn an_operation_raised_late_is_waited_for() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let count = Arc::new(OutstandingCount::new());
        let early = count.raise(count.pair(), true);
        let advancing = {
            let count = Arc::clone(&count);
            thread::spawn(move || {
                let mark = count.total().mark();
                count.total().settle(mark);
                count.pair().lower(early, 1, true);
                count.total().settle(mark);
            })
        };
        let other = {
            let count = Arc::clone(&count);
            thread::spawn(move || {
                let phase = count.raise(count.pair(), true);
                count.pair().lower(phase, 1, true);
            })
        };
        let phase = count.raise(count.pair(), true);
        let mark = count.total().mark();
        assert!(!count.total().settle(mark), "its operation is outstanding");
        advancing.join().unwrap();
        other.join().unwrap();
        assert!(!count.total().settle(mark), "its operation is outstanding");
        count.pair().lower(phase, 1, true);
        assert!(count.total().settle(mark));
    });
}

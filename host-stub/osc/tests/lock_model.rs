//! The locks of windows under the model checker.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]
#![allow(
    dead_code,
    reason = "the file is built again here, and not all of it is used"
)]

/// The source under test, with the modules that it uses.
#[path = "../src/win"]
mod win {
    pub(super) mod lock_words;

    pub(super) mod error {
        /// A wait that was given up.
        pub(in crate::win) type WinResult<T> = Result<T, ()>;
    }

    mod models {
        use std::time::Duration;

        use loom::cell::UnsafeCell;
        use loom::sync::Arc;
        use loom::sync::atomic::{AtomicU64, Ordering};
        use loom::thread;

        use super::error::WinResult;
        use super::lock_words::LockWord::{Master, Target};
        use super::lock_words::{
            LockWord, LockWords, lock_alone, lock_shared, unlock_alone, unlock_shared,
        };

        /// The words, as a segment has them, and the data that they guard. loom reports two concurrent accesses if one
        /// of them writes.
        struct Guarded {
            words: [AtomicU64; 2],
            memory: UnsafeCell<u32>,
        }

        // SAFETY: loom checks each access.
        unsafe impl Sync for Guarded {}

        impl LockWords for Guarded {
            /// Zero, so that the steps of a thread do not depend on the clock.
            fn patience(&self) -> Duration {
                Duration::ZERO
            }

            fn add(&self, word: LockWord, operand: u64) -> WinResult<u64> {
                Ok(self.words[word as usize].fetch_add(operand, Ordering::AcqRel))
            }

            fn give(&self, word: LockWord, operand: u64) -> WinResult<()> {
                self.words[word as usize].fetch_add(operand, Ordering::Release);
                Ok(())
            }

            fn swap_if(&self, word: LockWord, compare: u64, value: u64) -> WinResult<u64> {
                let word = &self.words[word as usize];
                let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
                let swapped = word.compare_exchange(compare, value, order, failed);
                Ok(swapped.unwrap_or_else(|found| found))
            }
        }

        /// Gives a wait up after its first pause.
        fn pause(tries: u32) -> WinResult<()> {
            thread::yield_now();
            if tries == 0 { Ok(()) } else { Err(()) }
        }

        impl Guarded {
            fn read(&self, word: LockWord) {
                if lock_shared(self, word, pause).is_ok() {
                    // SAFETY: loom checks each access.
                    self.memory.with(|memory| unsafe { *memory });
                    unlock_shared(self, word).unwrap();
                }
            }

            fn write(&self) {
                if lock_alone(self, pause).is_ok() {
                    // SAFETY: loom checks each access.
                    self.memory.with_mut(|memory| unsafe { *memory += 1 });
                    unlock_alone(self).unwrap();
                }
            }
        }

        /// Threads exclude each other as the locks require, and restore the words, also if they give up.
        fn check<const N: usize>(parts: [fn(&Guarded); N]) {
            let mut model = loom::model::Builder::new();
            model.preemption_bound = Some(3);
            model.check(move || {
                let guarded = Arc::new(Guarded {
                    words: [AtomicU64::new(0), AtomicU64::new(0)],
                    memory: UnsafeCell::new(0),
                });
                let threads = parts.map(|part| {
                    let guarded = Arc::clone(&guarded);
                    thread::spawn(move || part(&guarded))
                });
                for thread in threads {
                    thread.join().unwrap();
                }
                for word in &guarded.words {
                    assert_eq!(word.load(Ordering::Relaxed), 0);
                }
            });
        }

        #[test]
        fn one_alone_and_one_shared() {
            check([Guarded::write, |guarded| guarded.read(Target)]);
        }

        #[test]
        fn one_alone_and_one_of_all() {
            check([Guarded::write, |guarded| guarded.read(Master)]);
        }

        #[test]
        fn two_alone() {
            check([Guarded::write, Guarded::write]);
        }

        #[test]
        fn one_of_each() {
            check([
                Guarded::write,
                |guarded| guarded.read(Master),
                |guarded| guarded.read(Target),
            ]);
        }
    }
}

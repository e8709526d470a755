//! Tests of locks with real threads and with words that fail; `tests/lock_model.rs` runs the model checker.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::error::{WinError, WinResult};
use super::lock_words::LockWord::{Master, Target};
use super::lock_words::*;

const SHARED: u64 = 1;
const WAITING: u64 = 1 << 21;
const ALONE: u64 = 1 << 42;

fn failed() -> Box<WinError> {
    Box::new(WinError::Job {
        call: "lock",
        reason: String::new(),
    })
}

fn give_up(_: u32) -> WinResult<()> {
    Err(failed())
}

fn spin(_: u32) -> WinResult<()> {
    std::thread::yield_now();
    Ok(())
}

/// Words in this process, the operations on them, and the number of operations that wait for an answer and succeed before one
/// fails without effect.
struct Local {
    words: [Cell<u64>; 2],
    left: Cell<u32>,
    waits: Cell<u32>,
    given: Cell<u32>,
}

impl Local {
    fn new(words: [u64; 2]) -> Local {
        Local {
            words: words.map(Cell::new),
            left: Cell::new(u32::MAX),
            waits: Cell::new(0),
            given: Cell::new(0),
        }
    }

    fn failing(words: [u64; 2], left: u32) -> Local {
        let local = Local::new(words);
        local.left.set(left);
        local
    }

    fn now(&self) -> [u64; 2] {
        self.words.each_ref().map(Cell::get)
    }

    fn count(&self) -> WinResult<()> {
        self.left
            .set(self.left.get().checked_sub(1).ok_or_else(failed)?);
        self.waits.set(self.waits.get() + 1);
        Ok(())
    }

    fn change(&self, word: LockWord, change: impl FnOnce(u64) -> u64) -> u64 {
        let word = &self.words[word as usize];
        word.replace(change(word.get()))
    }
}

impl LockWords for Local {
    fn patience(&self) -> Duration {
        Duration::from_millis(5)
    }

    fn add(&self, word: LockWord, operand: u64) -> WinResult<u64> {
        self.count()?;
        Ok(self.change(word, |found| found.wrapping_add(operand)))
    }

    fn give(&self, word: LockWord, operand: u64) -> WinResult<()> {
        self.given.set(self.given.get() + 1);
        self.change(word, |found| found.wrapping_add(operand));
        Ok(())
    }

    fn swap_if(&self, word: LockWord, compare: u64, value: u64) -> WinResult<u64> {
        self.count()?;
        let swapped = |found| match found == compare {
            true => value,
            false => found,
        };
        Ok(self.change(word, swapped))
    }
}

/// Words of one process whose threads are the ranks.
#[derive(Default)]
struct Words([AtomicU64; 2]);

impl Words {
    fn now(&self) -> [u64; 2] {
        self.0.each_ref().map(|word| word.load(Ordering::Relaxed))
    }
}

impl LockWords for &Words {
    fn patience(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn add(&self, word: LockWord, operand: u64) -> WinResult<u64> {
        Ok(self.0[word as usize].fetch_add(operand, Ordering::AcqRel))
    }

    fn give(&self, word: LockWord, operand: u64) -> WinResult<()> {
        self.add(word, operand).map(drop)
    }

    fn swap_if(&self, word: LockWord, compare: u64, value: u64) -> WinResult<u64> {
        let word = &self.0[word as usize];
        let swapped = word.compare_exchange(compare, value, Ordering::AcqRel, Ordering::Acquire);
        Ok(swapped.unwrap_or_else(|found| found))
    }
}

#[test]
fn free_locks_take_one_operation_on_each_word() {
    let words = Local::new([0, 0]);
    lock_shared(&words, Master, give_up).unwrap();
    lock_shared(&words, Target, give_up).unwrap();
    assert_eq!((words.now(), words.waits.get()), ([SHARED; 2], 2));
    unlock_shared(&words, Master).unwrap();
    unlock_shared(&words, Target).unwrap();
    lock_alone(&words, give_up).unwrap();
    assert_eq!((words.now(), words.waits.get()), ([ALONE; 2], 4));
    unlock_alone(&words).unwrap();
    assert_eq!((words.now(), words.waits.get()), ([0; 2], 4));
    assert_eq!(words.given.get(), 4);
}

#[test]
fn each_lock_keeps_out_what_excludes_it() {
    for (held, shared_of_all, shared, alone) in [
        // All targets are locked: shared.
        ([SHARED, 0], true, true, false),
        // This target is locked: shared; exclusive.
        ([0, SHARED], true, true, false),
        ([ALONE, ALONE], false, false, false),
        // Another target is locked: exclusive.
        ([ALONE, 0], false, true, true),
    ] {
        let words = || Local::new(held);
        assert_eq!(
            lock_shared(&words(), Master, give_up).is_ok(),
            shared_of_all
        );
        assert_eq!(lock_shared(&words(), Target, give_up).is_ok(), shared);
        assert_eq!(lock_alone(&words(), give_up).is_ok(), alone);
    }
}

/// The words of a lock that is held, so that a lock of each kind waits, in turn or at once.
const HELD: [[u64; 2]; 6] = [
    [SHARED, 0],
    [0, SHARED],
    [SHARED, SHARED],
    [ALONE, ALONE],
    [ALONE + WAITING, ALONE + WAITING],
    [SHARED, ALONE],
];

#[test]
fn a_wait_that_is_given_up_leaves_nothing_behind() {
    for held in HELD {
        for most in 0..4 {
            let pause = |tries| match tries < most {
                true => Ok(()),
                false => Err(failed()),
            };
            let words = Local::new(held);
            assert!(lock_alone(&words, pause).is_err());
            assert_eq!(words.now(), held, "after {most} pauses");
        }
    }
    for word in [Master, Target] {
        let words = Local::new([ALONE; 2]);
        assert!(lock_shared(&words, word, give_up).is_err());
        assert_eq!(words.now(), [ALONE; 2]);
    }
}

/// Releases the lock that the words held.
fn let_go(words: &Local, held: [u64; 2]) {
    for (word, held) in words.words.iter().zip(held) {
        word.set(word.get() - held);
    }
}

#[test]
fn an_operation_that_fails_leaves_nothing_behind() {
    for held in HELD.into_iter().chain([[0; 2]]) {
        let mut left = 0;
        loop {
            let words = Local::failing(held, left);
            let gone = Cell::new(false);
            // The lock is released here, so each step is reached.
            let pause = |tries| {
                if tries == 2 {
                    let_go(&words, held);
                    gone.set(true);
                }
                Ok(())
            };
            let locked = lock_alone(&words, pause).is_ok();
            let mine = if locked { ALONE } else { 0 };
            let others = if gone.get() { [0; 2] } else { held };
            let expected = others.map(|others| others + mine);
            assert_eq!(words.now(), expected, "{held:?}, {left} succeed");
            if locked {
                break;
            }
            left += 1;
        }
        assert!(left > 1);
    }
}

#[test]
fn a_rank_that_waits_holds_nothing_until_the_lock_is_given_back() {
    for held in HELD {
        let words = Local::new(held);
        let others = Cell::new(held);
        let pause = |tries| {
            let announced = others.get().map(|others| others + WAITING);
            assert_eq!(words.now(), announced, "{tries}");
            if tries == 2 {
                let_go(&words, held);
                others.set([0; 2]);
            }
            Ok(())
        };
        lock_alone(&words, pause).unwrap();
        assert_eq!(words.now(), [ALONE; 2]);
    }
    // Another rank that waits stays announced.
    let words = Local::new([WAITING; 2]);
    lock_alone(&words, spin).unwrap();
    assert_eq!(words.now(), [ALONE + WAITING; 2]);
}

#[test]
fn shared_lockers_stand_back_for_a_while() {
    for word in [Master, Target] {
        let words = Local::new([WAITING; 2]);
        let mut pauses = 0;
        lock_shared(&words, word, |_| {
            pauses += 1;
            // Only read meanwhile.
            assert_eq!(words.now(), [WAITING; 2]);
            Ok(())
        })
        .unwrap();
        assert!(pauses > 0);
        assert_eq!(words.now()[word as usize], WAITING + SHARED);
    }
}

#[test]
fn a_stream_of_shared_lockers_does_not_keep_out_who_wants_it_alone() {
    for word in [Master, Target] {
        let words = Words::default();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    // This thread usually takes the lock again before another holder releases it.
                    while !done.load(Ordering::Relaxed) {
                        lock_shared(&&words, word, spin).unwrap();
                        std::thread::yield_now();
                        unlock_shared(&&words, word).unwrap();
                    }
                });
            }
            for _ in 0..50 {
                lock_alone(&&words, spin).unwrap();
                unlock_alone(&&words).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(words.now(), [0; 2]);
    }
}

#[test]
fn one_at_a_time() {
    let words = Words::default();
    let (inside, total) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for rank in 0..4 {
            let (words, inside, total) = (&words, &inside, &total);
            scope.spawn(move || {
                for round in 0..500 {
                    if round % 2 == 0 {
                        lock_alone(&words, spin).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        total.store(total.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        inside.fetch_sub(1, Ordering::Relaxed);
                        unlock_alone(&words).unwrap();
                    } else {
                        let word = [Master, Target][(rank + round / 2) % 2];
                        lock_shared(&words, word, spin).unwrap();
                        assert_eq!(inside.load(Ordering::Relaxed), 0);
                        unlock_shared(&words, word).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(total.load(Ordering::Relaxed), 1000);
    assert_eq!(words.now(), [0; 2]);
}

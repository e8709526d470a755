//! A value with one user at a time; the user may keep it across a wait.
//!
//! A mutex is not suitable. Two tasks may share a thread, so a task that blocks on the mutex keeps its
//! holder from running. A task may also continue on another thread than the one that locked. No task
//! blocks on a turn: a task that does not get the turn waits in the engine and tries again.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// A value with one user at a time.
#[derive(Debug, Default)]
pub struct Turns<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a `Turn` only, and the flag allows one `Turn` at a time; so it
// goes from thread to thread, and is never used by two at once.
unsafe impl<T: Send> Sync for Turns<T> {}

/// The turn of one user; any thread may end it by dropping it.
pub struct Turn<'a, T> {
    turns: &'a Turns<T>,
    /// The turn behaves like an exclusive reference, so it is `Sync` only if the value is.
    _value: PhantomData<&'a mut T>,
}

impl<T> Turns<T> {
    /// A value that no thread uses.
    pub fn new(value: T) -> Turns<T> {
        Turns {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the turn if no thread has it.
    #[inline]
    pub fn try_take(&self) -> Option<Turn<'_, T>> {
        // Acquire: pairs with the Release at the end of the turn before.
        let free = !self.taken.swap(true, Ordering::Acquire);
        // The `Turn` is made only if the value is free, because dropping a `Turn` ends the turn.
        free.then(|| Turn {
            turns: self,
            _value: PhantomData,
        })
    }

    /// Whether no thread has the turn at this moment.
    pub fn is_free(&self) -> bool {
        !self.taken.load(Ordering::Relaxed)
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the flag is set for this turn alone, so no other thread reaches the value.
        unsafe { &*self.turns.value.get() }
    }
}

impl<T> DerefMut for Turn<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the flag is set for this turn alone, which is borrowed exclusively.
        unsafe { &mut *self.turns.value.get() }
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the next turn.
        self.turns.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_turn_and_may_end_it_on_another_thread() {
        let turns = Turns::new(1);
        let mut turn = turns.try_take().unwrap();
        *turn += 1;
        assert!(turns.try_take().is_none() && !turns.is_free());
        std::thread::scope(|scope| scope.spawn(move || *turn += 1).join().unwrap());
        assert!(turns.is_free());
        assert_eq!(*turns.try_take().unwrap(), 3);
    }

    #[test]
    fn turns_exclude_each_other() {
        let turns = Turns::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let mut turn = loop {
                            match turns.try_take() {
                                Some(turn) => break turn,
                                None => std::thread::yield_now(),
                            }
                        };
                        let before = *turn;
                        std::hint::spin_loop();
                        *turn = before + 1;
                    }
                });
            }
        });
        assert_eq!(*turns.try_take().unwrap(), 4000);
    }
}

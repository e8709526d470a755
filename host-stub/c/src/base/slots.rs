//! Handles for short-lived objects: the number of a slot and of its use. A handle is looked up and
//! never dereferenced, so an invented handle, or one of an earlier use, is only an error.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::base::error::{Error, Result};

/// Slots of the first chunk; each further chunk has twice as many as the previous one.
const FIRST: usize = 64;
const CHUNKS: usize = 24;

/// States of a slot, in the low bits of its word; the bits above have the number of its former
/// uses.
const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held by a call.
const LIFTED: u32 = 2;
const USE: u32 = 4;

struct Slot<T> {
    word: AtomicU32,
    thing: UnsafeCell<MaybeUninit<T>>,
}

struct Free {
    slots: Vec<u32>,
    used: u32,
}

/// All objects of one kind that C programs hold.
pub(crate) struct Slots<T> {
    what: &'static str,
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
    free: Mutex<Free>,
}

// SAFETY: only two threads access a slot's object: the thread that adds it, before it stores the
// word, and the thread that changes the word from held to lifted.
unsafe impl<T: Send> Sync for Slots<T> {}

/// The parts of a handle: slot and use.
fn parts(handle: usize) -> Option<(usize, u32)> {
    let slot = (handle & 0xffff_ffff).checked_sub(1)?;
    Some((slot, (handle >> 32) as u32))
}

fn handle(slot: u32, word: u32) -> usize {
    ((word / USE) as usize) << 32 | (slot as usize + 1)
}

impl<T> Slots<T> {
    pub(crate) const fn new(what: &'static str) -> Slots<T> {
        Slots {
            what,
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::new(Free {
                slots: Vec::new(),
                used: 0,
            }),
        }
    }

    /// The slot of a number, which may never have been used.
    fn slot(&self, slot: usize) -> Option<&Slot<T>> {
        let chunk = (slot / FIRST + 1).ilog2() as usize;
        let before = FIRST * ((1 << chunk) - 1);
        self.chunks.get(chunk)?.get()?.get(slot - before)
    }

    /// Reserves a slot for a new object. `None` if there are too many.
    fn reserve(&self) -> Option<u32> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = free.slots.pop() {
            return Some(slot);
        }
        let slot = free.used;
        let chunk = (slot as usize / FIRST + 1).ilog2() as usize;
        self.chunks.get(chunk)?.get_or_init(|| {
            let slot = |_| Slot {
                word: AtomicU32::new(FREE),
                thing: UnsafeCell::new(MaybeUninit::uninit()),
            };
            (0..FIRST << chunk).map(slot).collect()
        });
        free.used += 1;
        Some(slot)
    }

    /// A new handle; returns the object if there are too many.
    pub(crate) fn add<H>(&self, thing: T) -> std::result::Result<*mut H, T> {
        let Some(number) = self.reserve() else {
            return Err(thing);
        };
        let Some(slot) = self.slot(number as usize) else {
            return Err(thing);
        };
        // SAFETY: the slot is reserved for this call.
        unsafe { (*slot.thing.get()).write(thing) };
        let word = slot.word.load(Ordering::Relaxed) + HELD;
        // Release: pairs with the Acquire in `lift`.
        slot.word.store(word, Ordering::Release);
        Ok(std::ptr::without_provenance_mut(handle(number, word)))
    }

    fn unknown(&self, call: &str, handle: usize) -> Error {
        let what = self.what;
        match handle {
            0 => Error::argument(call, &format!("the {what} is NULL")),
            _ => Error::argument(
                call,
                &format!(
                    "{handle:#x} is no {what}: it has ended, is in use by another thread, or never was one"
                ),
            ),
        }
    }

    /// Takes an object out of its slot. The slot stays reserved for it until
    /// [`put_back`](Self::put_back) or [`end`](Self::end).
    pub(crate) fn lift<H>(&self, call: &str, handle: *mut H) -> Result<T> {
        let found = parts(handle.addr()).and_then(|(slot, uses)| {
            let word = uses.checked_mul(USE)?;
            let slot = self.slot(slot)?;
            let (held, lifted) = (word + HELD, word + LIFTED);
            // Acquire: pairs with the Release in `add` and `put_back`.
            slot.word
                .compare_exchange(held, lifted, Ordering::Acquire, Ordering::Relaxed)
                .ok()?;
            Some(slot)
        });
        let Some(slot) = found else {
            return Err(self.unknown(call, handle.addr()));
        };
        // SAFETY: the slot was held, so it has an object, and no other thread lifts the object now.
        Ok(unsafe { (*slot.thing.get()).assume_init_read() })
    }

    /// Puts a lifted object back under its handle.
    pub(crate) fn put_back<H>(&self, handle: *mut H, thing: T) {
        if let Some((slot, uses)) = parts(handle.addr())
            && let Some(slot) = self.slot(slot)
        {
            // SAFETY: the caller lifted the object, so the slot is empty, and no other thread owns
            // it.
            unsafe { (*slot.thing.get()).write(thing) };
            slot.word.store(uses * USE + HELD, Ordering::Release);
        }
    }

    /// Ends the handle of a lifted object.
    pub(crate) fn end<H>(&self, handle: *mut H) {
        if let Some((number, uses)) = parts(handle.addr())
            && let Some(slot) = self.slot(number)
        {
            let next = (uses + 1) & (u32::MAX / USE);
            slot.word.store(next * USE + FREE, Ordering::Relaxed);
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.slots.push(number as u32);
        }
    }

    /// Takes an object out and ends its handle.
    pub(crate) fn take<H>(&self, call: &str, handle: *mut H) -> Result<T> {
        let thing = self.lift(call, handle)?;
        self.end(handle);
        Ok(thing)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    #[test]
    fn handles_of_earlier_uses_and_made_up_ones_are_refused() {
        let slots = Slots::new("thing");
        let first: *mut u8 = slots.add(1u64).unwrap();
        assert_eq!(slots.take("f", first).ok(), Some(1));
        let second: *mut u8 = slots.add(2).unwrap();
        assert_ne!(first, second);
        for wrong in [
            first,
            std::ptr::null_mut(),
            std::ptr::without_provenance_mut(1 << 20),
            std::ptr::without_provenance_mut(usize::MAX),
            std::ptr::without_provenance_mut(second.addr() + (1 << 32)),
            std::ptr::from_ref(&slots).cast_mut().cast(),
        ] {
            assert!(slots.lift("f", wrong).is_err(), "{wrong:p}");
        }
        assert_eq!(slots.lift("f", second).ok(), Some(2));
        assert!(slots.lift("f", second).is_err());
        slots.put_back(second, 3);
        assert_eq!(slots.take("f", second).ok(), Some(3));
        assert!(slots.take("f", second).is_err());
    }

    #[test]
    fn slots_grow_and_are_used_again() {
        let slots = Slots::new("thing");
        for round in 0..3 {
            let handles: Vec<*mut u8> = (0..1000).map(|n| slots.add(n + round).unwrap()).collect();
            for (n, handle) in handles.iter().enumerate() {
                assert_eq!(slots.take("f", *handle).ok(), Some(n + round));
            }
        }
        assert_eq!(slots.free.lock().unwrap().used, 1000);
    }
}

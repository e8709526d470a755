//! Handles that are numbers, not addresses: no memory is read through a handle, so a handle that is
//! NULL, invented or ended is only an error. No number is used twice.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::base::error::{Error, Result};

struct Inner<T> {
    live: BTreeMap<usize, T>,
    made: usize,
}

/// All objects of one kind that C programs hold.
pub(crate) struct Handles<T> {
    what: &'static str,
    /// The remedy, told to a program that passes NULL.
    hint: &'static str,
    inner: RwLock<Inner<T>>,
}

impl<T> Handles<T> {
    pub(crate) const fn new(what: &'static str) -> Handles<T> {
        Handles {
            what,
            hint: "",
            inner: RwLock::new(Inner {
                live: BTreeMap::new(),
                made: 0,
            }),
        }
    }

    /// The same handles, with a hint for programs that pass NULL.
    pub(crate) const fn hinted(mut self, hint: &'static str) -> Handles<T> {
        self.hint = hint;
        self
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner<T>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner<T>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self, call: &str, handle: usize) -> Error {
        let what = self.what;
        match handle {
            0 => Error::argument(call, &format!("the {what} is NULL{}", self.hint)),
            _ => Error::argument(
                call,
                &format!("{handle:#x} is no {what}; it has ended, or never was one"),
            ),
        }
    }

    /// A new handle.
    pub(crate) fn add<H>(&self, thing: T) -> *mut H {
        let mut inner = self.write();
        inner.made += 1;
        // A multiple of 16, aligned like an address.
        let number = inner.made * 16;
        inner.live.insert(number, thing);
        std::ptr::without_provenance_mut(number)
    }

    /// Puts an object back under its former handle.
    pub(crate) fn put_back<H>(&self, handle: *mut H, thing: T) {
        self.write().live.insert(handle.addr(), thing);
    }

    /// Removes a handle and returns its object. The handle is no longer valid.
    pub(crate) fn take<H>(&self, call: &str, handle: *mut H) -> Result<T> {
        let taken = self.write().live.remove(&handle.addr());
        taken.ok_or_else(|| self.unknown(call, handle.addr()))
    }

    /// Calls `look` with the object of a handle; `look` must not use these handles.
    pub(crate) fn with<H, R>(
        &self,
        call: &str,
        handle: *mut H,
        look: impl FnOnce(&T) -> R,
    ) -> Result<R> {
        let inner = self.read();
        let thing = inner.live.get(&handle.addr());
        thing
            .map(look)
            .ok_or_else(|| self.unknown(call, handle.addr()))
    }

    /// Calls `change` with the object of a handle; `change` must not use these handles.
    pub(crate) fn change<H, R>(
        &self,
        call: &str,
        handle: *mut H,
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R> {
        let mut inner = self.write();
        let thing = inner.live.get_mut(&handle.addr());
        thing
            .map(change)
            .ok_or_else(|| self.unknown(call, handle.addr()))
    }

    /// The first handle that satisfies the predicate.
    pub(crate) fn find<H>(&self, is: impl Fn(&T) -> bool) -> Option<*mut H> {
        let inner = self.read();
        let (number, _) = inner.live.iter().find(|(_, thing)| is(thing))?;
        Some(std::ptr::without_provenance_mut(*number))
    }

    /// Removes and returns all objects.
    pub(crate) fn clear(&self) -> Vec<T> {
        std::mem::take(&mut self.write().live)
            .into_values()
            .collect()
    }
}

/// The place for an answer.
///
/// # Safety
/// `place` is NULL or writable.
pub(crate) unsafe fn place<'p, T>(call: &str, place: *mut T) -> Result<&'p mut T> {
    // SAFETY: the caller guarantees the place.
    unsafe { place.as_mut() }
        .ok_or_else(|| Error::argument(call, "the place for the answer is NULL"))
}

/// A string of the program.
///
/// # Safety
/// `text` is NULL or a text that ends with a zero byte.
pub(crate) unsafe fn text<'t>(call: &str, what: &str, text: *const c_char) -> Result<&'t str> {
    if text.is_null() {
        return Err(Error::argument(call, &format!("the {what} is NULL")));
    }
    // SAFETY: the caller guarantees a text that ends with a zero byte.
    unsafe { CStr::from_ptr(text) }
        .to_str()
        .map_err(|_| Error::argument(call, &format!("the {what} is not UTF-8")))
}

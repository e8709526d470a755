//! Handles that are numbers, not addresses: nothing is read through one, so that one which is NULL,
//! made up or ended already is an error and nothing worse. No number comes twice.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::base::error::{Error, Result};

struct Inner<T> {
    live: BTreeMap<usize, T>,
    made: usize,
}

/// All things of one kind that C programs hold.
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

    /// The same, where a program that passes NULL is told what to do.
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
        // Aligned as an address would be.
        let number = inner.made * 16;
        inner.live.insert(number, thing);
        std::ptr::without_provenance_mut(number)
    }

    /// Puts back what was taken, under the handle that it had.
    pub(crate) fn put_back<H>(&self, handle: *mut H, thing: T) {
        self.write().live.insert(handle.addr(), thing);
    }

    /// Removes a handle and returns its object. The handle is no longer valid.
    pub(crate) fn take<H>(&self, call: &str, handle: *mut H) -> Result<T> {
        let taken = self.write().live.remove(&handle.addr());
        taken.ok_or_else(|| self.unknown(call, handle.addr()))
    }

    /// Looks at what a handle stands for; `look` must not come back here.
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

    /// Changes what a handle stands for; `change` must not come back here.
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

    /// Takes everything out.
    pub(crate) fn clear(&self) -> Vec<T> {
        std::mem::take(&mut self.write().live)
            .into_values()
            .collect()
    }
}

/// The place that an answer goes to.
///
/// # Safety
/// It is NULL or writable.
pub(crate) unsafe fn place<'p, T>(call: &str, place: *mut T) -> Result<&'p mut T> {
    // SAFETY: the caller guarantees it.
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

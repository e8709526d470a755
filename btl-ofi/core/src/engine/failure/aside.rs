//! Posts under the lock of a compound operation, or of the driver of staged ones. No callback runs under such a lock. So a post
//! there polls nothing, and what it finds of a failed peer is put aside until the lock is released.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use plugin_api::Status;

use super::{Cause, Reporting};
use crate::engine::context::Context;
use crate::engine::transport::Transport;
use crate::peer::endpoint::Endpoint;

thread_local! {
    /// The [`Quiet`] of this thread, or NULL.
    static QUIET: Cell<*const c_void> = const { Cell::new(ptr::null()) };
}

/// What a thread puts aside that holds a lock of a transport's operations.
struct Quiet<'a> {
    transport: &'a Transport,
    aside: RefCell<Vec<(Reporting<'a>, Aside)>>,
}

/// What was put aside.
pub(in crate::engine) enum Aside {
    /// The peers are to be checked ([`Transport::check_peers`]).
    Check(Option<NonNull<Endpoint>>),
    /// The peers are to be checked if that is due ([`Transport::check_peers_now_and_then`]).
    CheckIfDue,
    /// A peer has failed, and is marked so. The rest is to be done ([`Transport::end_failed`]).
    Failed(NonNull<Endpoint>, Cause, Status, String),
}

/// Restores [`QUIET`].
struct Restore<'a>(&'a Transport, *const c_void);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        QUIET.set(self.1);
        self.0.failures.quiet.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Transport {
    /// Runs `posts`, which takes a lock of operations and releases it. Then does what was put aside meanwhile.
    pub(crate) fn quietly<R>(&self, posts: impl FnOnce() -> R) -> R {
        if self.quiet().is_some() {
            // Inside another lock, whose release is waited for.
            return posts();
        }
        let quiet = Quiet {
            transport: self,
            aside: RefCell::default(),
        };
        let result = {
            self.failures.quiet.fetch_add(1, Ordering::Relaxed);
            let _restore = Restore(self, QUIET.replace(ptr::from_ref(&quiet).cast()));
            posts()
        };
        for (_reporting, aside) in quiet.aside.take() {
            match aside {
                Aside::Check(suspect) => self.check_peers(suspect),
                Aside::CheckIfDue => self.check_peers_now_and_then(),
                Aside::Failed(endpoint, cause, status, why) => {
                    self.end_failed(endpoint, cause, status, &why);
                }
            }
        }
        result
    }

    /// What this thread puts aside, if it holds a lock of operations of this transport.
    #[inline]
    fn quiet(&self) -> Option<&Quiet<'_>> {
        // Relaxed: this thread sees what it has added itself.
        if self.failures.quiet.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // SAFETY: `quietly` set the pointer to a value on this thread's stack, and restores what was there before the value ends.
        let quiet = unsafe { QUIET.get().cast::<Quiet<'_>>().as_ref() };
        quiet.filter(|quiet| ptr::eq(quiet.transport, self))
    }

    /// Whether posts of this thread must not poll: callbacks of the context run, and would nest, or a lock is held under which none
    /// may run.
    #[inline]
    pub(crate) fn must_not_poll(&self, context: &Context) -> bool {
        context.delivering.is_set() || self.quiet().is_some()
    }

    /// Puts something aside if a lock is held. Returns whether that is so.
    pub(in crate::engine) fn put_aside(&self, aside: impl FnOnce() -> Aside) -> bool {
        let Some(quiet) = self.quiet() else {
            return false;
        };
        // Until it is done: a release meanwhile keeps the endpoint, and a flush that sees the failure waits for the callbacks.
        let kept = (Reporting::begin(quiet.transport), aside());
        quiet.aside.borrow_mut().push(kept);
        true
    }
}

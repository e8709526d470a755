//! Posts under the lock of a compound operation, or of the driver of staged ones. No callback runs under such a lock, so a post
//! there polls nothing.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering;

use crate::core::context::Context;
use crate::core::slow::SlowWork;
use crate::core::state::Core;

thread_local! {
    /// The address of the transport whose operation lock this thread holds, or NULL.
    static QUIET: Cell<*const Core> = const { Cell::new(ptr::null()) };
}

/// Restores [`QUIET`] when it is dropped.
struct Restore<'a>(&'a SlowWork, *const Core);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        QUIET.set(self.1);
        self.0.quiet.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Core {
    /// Runs `posts`, which takes a lock on operations and releases it.
    pub(crate) fn quietly<R>(&self, posts: impl FnOnce() -> R) -> R {
        if self.is_quiet() {
            return posts();
        }
        self.slow.quiet.fetch_add(1, Ordering::Relaxed);
        let _restore = Restore(&self.slow, QUIET.replace(ptr::from_ref(self)));
        posts()
    }

    /// Whether this thread holds a lock on operations of this transport.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        // Relaxed: a thread always sees its own addition.
        self.slow.quiet.load(Ordering::Relaxed) != 0 && ptr::eq(QUIET.get(), self)
    }

    /// Whether posts of this thread must not poll: callbacks of the context run and would nest, or the thread holds a lock
    /// under which no callback may run.
    #[inline]
    pub(crate) fn must_not_poll(&self, context: &Context) -> bool {
        context.delivering.is_set() || self.is_quiet()
    }
}

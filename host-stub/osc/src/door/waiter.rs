//! Waiting of calls.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::completion::Completion;
use super::pace::Pace;
use crate::win::{WinError, WinResult};

/// The condition for which a call waits.
pub trait Until: Sync {
    /// Whether the wait is over. Any thread that makes progress calls this function, often: the
    /// function must be quick and never block.
    fn is_done(&self) -> bool;

    /// Called now and then: an error ends the wait.
    fn look(&self) -> WinResult<()>;

    /// The error for a failure of the transport's progress.
    fn progress_failed(&self, code: i32) -> Box<WinError>;
}

/// The door's waiting and progress for calls. Any thread calls, within the context's thread level.
pub trait Waiter: Send + Sync {
    /// Makes progress once. Returns the number of completions, more if peers were served, or a negative
    /// status.
    fn progress(&self) -> i32;

    /// Number of things under way that need progress besides the transport. While the number is zero,
    /// [`progress`](Self::progress) makes the transport's progress only. `None`: it may always make other progress.
    fn others(&self) -> Option<Arc<AtomicUsize>> {
        None
    }

    /// Progress inside a loop of another kind, such as one that waits for the program's other processes.
    fn visit(&self);

    /// Waits until `what` is done.
    fn wait(&self, what: &dyn Until) -> WinResult<()>;

    /// As [`wait`](Self::wait), for a request, whose completion can wake a sleeping waiter.
    fn wait_request(&self, what: &dyn Until, completion: &Completion) -> WinResult<()> {
        let _ = completion;
        self.wait(what)
    }

    /// One visit of a loop that tries something again, such as a post that found no room.
    fn step(&self, pace: &mut Pace, what: &dyn Until) -> WinResult<()>;

    /// A caller waits for a completion without making progress itself.
    fn awaited(&self) {}

    /// Sets whether the waits of the calling thread run no other code that may wait, such as other tasks; returns the
    /// former setting. A call sets this while it keeps a resource that other tasks may need.
    fn set_alone(&self, alone: bool) -> bool {
        let _ = alone;
        false
    }
}

/// Runs `part` so that its waits run no other task on this thread: such a task could wait for this one.
pub(crate) fn alone<R>(waiter: &dyn Waiter, part: impl FnOnce() -> R) -> R {
    struct Before<'a>(&'a dyn Waiter, bool);
    impl Drop for Before<'_> {
        fn drop(&mut self) {
            self.0.set_alone(self.1);
        }
    }
    let _before = Before(waiter, waiter.set_alone(true));
    part()
}

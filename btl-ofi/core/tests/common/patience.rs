//! The longest time that a test waits for an event: only a bound on hangs. On a busy machine a wall-clock deadline would fail
//! a wait for an event that is merely late.

use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::worked;

/// The processor time of the waiting thread after which a polling wait has failed. Threads share processors evenly, so the
/// thread that causes the event had about the same processor time.
const POLLING: Duration = Duration::from_secs(20);
/// The bound of waits that sleep or block, which use almost no processor time.
pub(crate) const BLOCKED: Duration = Duration::from_secs(600);

/// The bound of one wait, or of several consecutive waits.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    thread: ThreadId,
    worked: Duration,
    begun: Instant,
    times: u32,
}

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience::times(1)
    }

    /// A bound that is `times` times as long.
    pub(crate) fn times(times: u32) -> Patience {
        Patience {
            thread: thread::current().id(),
            worked: worked(),
            begun: Instant::now(),
            times,
        }
    }

    /// Whether to continue to wait. Only the thread that began the wait may ask, because its processor
    /// time counts.
    pub(crate) fn lasts(&self) -> bool {
        assert_eq!(self.thread, thread::current().id(), "another thread's");
        worked() - self.worked < self.times * POLLING && self.begun.elapsed() < self.times * BLOCKED
    }
}

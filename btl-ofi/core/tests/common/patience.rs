//! How long a test waits for an event: only a bound on hangs. On a busy machine a wall-clock deadline would fail a wait for an
//! event that is merely late.

use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::worked;

/// Processor time of the waiting thread after which a wait that polls has failed. Threads share processors evenly, so whoever
/// has to make the event come had about as much.
const POLLING: Duration = Duration::from_secs(20);
/// Bounds waits that sleep or block, which need next to no processor time.
pub(crate) const BLOCKED: Duration = Duration::from_secs(600);

/// The bound of one wait, or of several one after the other.
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

    /// For what takes as many times as long.
    pub(crate) fn times(times: u32) -> Patience {
        Patience {
            thread: thread::current().id(),
            worked: worked(),
            begun: Instant::now(),
            times,
        }
    }

    /// Whether to go on waiting. Only the thread that began may ask, because its processor time counts.
    pub(crate) fn lasts(&self) -> bool {
        assert_eq!(self.thread, thread::current().id(), "another thread's");
        worked() - self.worked < self.times * POLLING && self.begun.elapsed() < self.times * BLOCKED
    }
}

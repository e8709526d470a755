//! Pacing of a loop that makes progress: spin, then let others run, then sleep.

use std::time::Duration;

/// Visits without a completion before a loop yields the processor at each visit: enough time for
/// the answer of a peer on another core, but little against a time slice, because the peer may need
/// this core.
const SPINS: u32 = 32;
/// Yields in vain before a loop sleeps between its visits, if processes outnumber processors. The
/// awaited thread may need more time than a yield gives it.
const YIELDS: u32 = 16;
/// The length of its sleep; the system's timers make that some 50 microseconds.
const NAP: Duration = Duration::from_micros(1);
/// Visits between two checks of the job.
const LOOKS: u32 = 1024;

/// The state of one loop.
#[derive(Default)]
pub struct Pace {
    idle: u32,
    visits: u32,
}

impl Pace {
    /// Called after one visit, for a program that decides itself when it yields the processor; a yield on a busy machine can
    /// last milliseconds. True if it is time to check the job.
    #[inline]
    pub fn spin(&mut self) -> bool {
        self.visits = self.visits.wrapping_add(1);
        std::hint::spin_loop();
        self.visits.is_multiple_of(LOOKS)
    }

    /// Called after one visit: yields or sleeps if that is due. True if it is time to check the
    /// job.
    #[inline]
    pub fn after(&mut self, moved: bool, oversubscribed: bool) -> bool {
        if moved {
            self.idle = 0;
        } else {
            self.idle = self.idle.saturating_add(1);
        }
        self.visits = self.visits.wrapping_add(1);
        if self.idle <= SPINS {
            std::hint::spin_loop();
        } else if self.idle <= SPINS + YIELDS || !oversubscribed {
            std::thread::yield_now();
        } else {
            std::thread::sleep(NAP);
        }
        self.visits.is_multiple_of(LOOKS)
    }
}

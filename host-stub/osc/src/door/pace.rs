//! Pacing of a loop that makes progress: spin, then let others run, then sleep.

use std::time::Duration;

/// Visits in which nothing completes before a loop yields the processor at each. Long enough for a
/// peer that runs on another core to answer, short against a time slice, because the peer may need
/// this core.
const SPINS: u32 = 32;
/// Yields in vain before a loop sleeps between its visits, where processes outnumber processors:
/// what it waits for may be a thread that yielding alone does not let run for long.
const YIELDS: u32 = 16;
/// The length of its sleep; the system's timers make that some 50 microseconds.
const NAP: Duration = Duration::from_micros(1);
/// Visits between two looks at the job.
const LOOKS: u32 = 1024;

/// The state of one loop.
#[derive(Default)]
pub struct Pace {
    idle: u32,
    visits: u32,
}

impl Pace {
    /// After one visit of a program that gives the processor away itself, by rules of its own, and otherwise keeps it: what it gives
    /// away on a busy machine comes back after milliseconds. True when it is time to look at the job.
    #[inline]
    pub fn spin(&mut self) -> bool {
        self.visits = self.visits.wrapping_add(1);
        std::hint::spin_loop();
        self.visits.is_multiple_of(LOOKS)
    }

    /// After one visit: waits as long as is due. True when it is time to look at the job.
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

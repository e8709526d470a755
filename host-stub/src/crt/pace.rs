//! Pacing of a loop over shared memory: it polls, then yields the processor, then sleeps.

use std::time::{Duration, Instant};

/// Idle visits to a word of shared memory before the loop yields the processor, if every rank has its
/// own processor.
const NEAR_SPINS: u32 = 1000;
/// The same if ranks outnumber processors: the awaited peer may need this processor.
const NEAR_SPINS_OVERSUBSCRIBED: u32 = 2;
/// Idle visits between two reads of the clock.
const CLOCK: u32 = 256;
/// Idle time after which the loop naps between visits.
const AWAKE: Duration = Duration::from_millis(20);
const NEAR_NAP: Duration = Duration::from_micros(50);
/// Time between two checks of the job.
const NEAR_LOOK: Duration = Duration::from_millis(250);

/// The state of a loop over a word that another process writes. Each visit is a load, and the answer
/// comes within microseconds if that process has a processor.
pub(super) struct NearPace {
    oversubscribed: bool,
    idle: u32,
    /// The time of the first clock reading since the last event.
    since: Option<Instant>,
    napping: bool,
    /// The time of the last check of the job, or of the first clock reading.
    looked: Option<Instant>,
}

impl NearPace {
    pub(super) fn new(oversubscribed: bool) -> NearPace {
        NearPace {
            oversubscribed,
            idle: 0,
            since: None,
            napping: false,
            looked: None,
        }
    }

    /// Paces the loop after an idle visit. True if the job must be checked now.
    #[inline]
    pub(super) fn after(&mut self) -> bool {
        let spins = if self.oversubscribed {
            NEAR_SPINS_OVERSUBSCRIBED
        } else {
            NEAR_SPINS
        };
        self.idle = self.idle.wrapping_add(1).max(1);
        if self.idle <= spins {
            std::hint::spin_loop();
            return false;
        }
        if self.napping {
            std::thread::sleep(NEAR_NAP);
        } else {
            std::thread::yield_now();
            if !self.idle.is_multiple_of(CLOCK) {
                return false;
            }
        }
        self.read_clock()
    }

    /// Whether the loop naps between visits.
    pub(super) fn naps(&self) -> bool {
        self.napping
    }

    /// Records that progress served a peer, which probably asks again soon. Visits then follow each other without pause
    /// again, unless ranks outnumber processors, because other ranks may need this processor. True if the job must be
    /// checked now, even if peers never stop asking.
    pub(super) fn served(&mut self) -> bool {
        if !self.oversubscribed {
            self.idle = 0;
            self.since = None;
            self.napping = false;
        }
        self.is_look_due(Instant::now())
    }

    #[cold]
    fn read_clock(&mut self) -> bool {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        self.napping = now.duration_since(since) > AWAKE;
        self.is_look_due(now)
    }

    fn is_look_due(&mut self, now: Instant) -> bool {
        let looked = self.looked.get_or_insert(now);
        let due = now.duration_since(*looked) >= NEAR_LOOK;
        if due {
            *looked = now;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These checks end a wait for a dead rank.
    #[test]
    fn peers_that_never_stop_asking_do_not_postpone_looks() {
        for oversubscribed in [false, true] {
            let mut pace = NearPace::new(oversubscribed);
            let begun = Instant::now();
            let mut looks = 0;
            while begun.elapsed() < 4 * NEAR_LOOK {
                looks += u32::from(pace.after()) + u32::from(pace.served());
            }
            assert!(looks >= 1, "oversubscribed: {oversubscribed}");
        }
    }
}

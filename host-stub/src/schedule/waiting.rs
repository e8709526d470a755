//! How a loop waits for other ranks: spin, then let others run, then sleep.

use std::time::{Duration, Instant};

use crate::job::Job;

/// Idle visits before the processor is offered to others, where every rank has one of its own.
const SPINS: u32 = 1000;
/// The same where ranks outnumber processors: whoever is waited for may need this one.
const CROWDED_SPINS: u32 = 2;
/// Idle visits between two looks at the clock.
const CLOCK: u32 = 256;
/// Time without anything happening after which visits are a nap apart.
const AWAKE: Duration = Duration::from_millis(20);
const NAP: Duration = Duration::from_micros(50);
/// Time without anything happening between two looks at the other ranks.
const LOOK: Duration = Duration::from_millis(250);

/// Whether the node of this rank has more ranks than processors.
pub(crate) fn is_crowded(job: &Job) -> bool {
    let bootstrap = job.bootstrap();
    let here = bootstrap.node(job.rank());
    let ranks = (0..job.size())
        .filter(|rank| bootstrap.node(*rank) == here)
        .count();
    std::thread::available_parallelism().is_ok_and(|processors| ranks > processors.get())
}

/// The state of one waiting loop.
pub(crate) struct Patience {
    spins: u32,
    idle: u32,
    since: Option<Instant>,
    napping: bool,
    looks: u32,
}

impl Patience {
    pub(crate) fn new(crowded: bool) -> Patience {
        Patience {
            spins: if crowded { CROWDED_SPINS } else { SPINS },
            idle: 0,
            since: None,
            napping: false,
            looks: 0,
        }
    }

    /// Nothing happened. True when it is time to see whether the others are still there.
    #[inline]
    pub(crate) fn idle(&mut self) -> bool {
        self.idle = self.idle.wrapping_add(1).max(1);
        if self.idle <= self.spins {
            std::hint::spin_loop();
            return false;
        }
        if self.napping {
            std::thread::sleep(NAP);
        } else {
            std::thread::yield_now();
            if !self.idle.is_multiple_of(CLOCK) {
                return false;
            }
        }
        self.read_clock()
    }

    #[cold]
    fn read_clock(&mut self) -> bool {
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        self.napping = waited > AWAKE;
        if waited >= LOOK * (self.looks + 1) {
            self.looks += 1;
            return true;
        }
        false
    }
}

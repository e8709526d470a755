//! Waiting for what was issued before.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plugin_api::Status;

use crate::engine::transport::Transport;
use crate::peer::endpoint::Endpoint;
use crate::peer::outstanding::OutstandingCount;

/// How long to poll without completion before the processor is yielded: a peer may need it to complete
/// us. An answer over shm takes about a microsecond, which a yield would double.
const SPIN: Duration = Duration::from_micros(20);
/// Polls between looks at the clock while spinning. A poll takes from 10 ns (shm) to 1 us (tcp).
const LOOK: u32 = 32;
/// Polls after which the clock is looked at, completions or not: they may be another thread's.
const CLOCK: u32 = 1024;

impl Transport {
    /// Waits until every operation that this thread issued before is complete and its callback has
    /// run: those to `endpoint`, or all. Not to be called from callbacks.
    ///
    /// Returns [`Status::UNREACH`] when a peer it would wait for is gone, and [`Status::ERROR`] when
    /// operations without callback failed since the last flush.
    pub fn flush(&self, endpoint: Option<&Endpoint>) -> Status {
        self.flush_until(endpoint, None)
    }

    pub(crate) fn flush_until(
        &self,
        endpoint: Option<&Endpoint>,
        deadline: Option<Instant>,
    ) -> Status {
        if let Some(peer) = endpoint {
            let status = self.wait(&peer.count, deadline, || peer.failure());
            let lost = peer.lost.swap(0, Ordering::Relaxed);
            if lost == 0 {
                return status;
            }
            // A flush of everything in another thread may have taken them from the sum already.
            let rest = |sum: u32| Some(sum.saturating_sub(lost));
            let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
            let _ = self.lost.fetch_update(set, fetch, rest);
            // Why, if they were lost with the peer.
            let why = peer.failure().unwrap_or(Status::ERROR);
            return status.ok().map_or(status, |_| why);
        }
        let mut status = Status::SUCCESS;
        for context in &self.contexts {
            let degraded = || {
                self.degraded
                    .load(Ordering::Relaxed)
                    .then_some(Status::UNREACH)
            };
            if self.wait(&context.count, deadline, degraded) == Status::UNREACH {
                status = self.flush_living(deadline);
                break;
            }
        }
        if status.is_ok() && self.degraded.load(Ordering::Relaxed) {
            // A peer that was given up may have left nothing outstanding.
            status = Status(self.last_failure.swap(0, Ordering::Relaxed));
        }
        if self.lost.load(Ordering::Relaxed) > 0 && self.lost.swap(0, Ordering::Relaxed) > 0 {
            self.forget_losses();
            return status.ok().map_or(status, |_| Status::ERROR);
        }
        status
    }

    /// This flush tells of every peer's losses, so that no later one of a peer tells of them again.
    #[cold]
    fn forget_losses(&self) {
        for peer in self.lock_peers().known.iter() {
            peer.lost.store(0, Ordering::Relaxed);
        }
    }

    /// With a peer gone, counts over all peers no longer fall to zero: wait for each that lives. The
    /// failure itself is reported by the first flush after it.
    #[cold]
    fn flush_living(&self, deadline: Option<Instant>) -> Status {
        let living: Vec<_> = {
            let peers = self.lock_peers();
            peers.known.iter().map(std::ptr::NonNull::from).collect()
        };
        for endpoint in living {
            // SAFETY: endpoints are released by the host, which does not do so during its flush.
            let peer = unsafe { endpoint.as_ref() };
            if peer.failure().is_none() {
                self.wait(&peer.count, deadline, || peer.failure());
            }
        }
        self.wait_until_told();
        match self.last_failure.swap(0, Ordering::Relaxed) {
            0 if self.broken.load(Ordering::Relaxed) => Status::FATAL,
            0 => Status::SUCCESS,
            code => Status(code),
        }
    }

    /// Progresses until a count has settled or `give_up` says with what status to stop.
    fn wait(
        &self,
        count: &OutstandingCount,
        deadline: Option<Instant>,
        give_up: impl Fn() -> Option<Status>,
    ) -> Status {
        let mark = count.mark();
        if count.settle(mark) {
            return Status::SUCCESS;
        }
        let (mut turns, mut idle) = (0u32, 0u32);
        let mut quiet_since: Option<Instant> = None;
        let mut yielding = false;
        loop {
            let done = self.progress();
            if count.settle(mark) {
                return Status::SUCCESS;
            }
            if let Some(status) = give_up() {
                self.wait_until_told();
                return status;
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(CLOCK) {
                self.check_peers_now_and_then();
                if deadline.is_some_and(|d| Instant::now() >= d) {
                    return Status::TIMEOUT;
                }
            }
            if done > 0 {
                idle = 0;
                quiet_since = None;
                yielding = false;
                continue;
            }
            idle = idle.wrapping_add(1);
            // No pause between polls: reading a queue is pause enough, and one more delays the answer.
            if !yielding {
                if !idle.is_multiple_of(LOOK)
                    || quiet_since.get_or_insert_with(Instant::now).elapsed() < SPIN
                {
                    continue;
                }
                yielding = true;
            }
            std::thread::yield_now();
        }
    }
}

//! Flush: waits for operations that were issued earlier.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::Instant;

use plugin_api::Status;
use plugin_api::counters::PeerCounters;

use crate::base::sys;
use crate::engine::transport::Transport;
use crate::peer::counters::add;
use crate::peer::endpoint::Endpoint;
use crate::peer::outstanding::Total;

/// The time to poll without a completion before the thread yields the processor, in nanoseconds. A peer
/// may need the processor in order to answer. An answer over shm takes about 1 us; a yield would double
/// that.
const SPIN: u64 = 20_000;
/// Polls between two clock reads while spinning. A poll takes 10 ns (shm) to 1 us (tcp).
const SPIN_CLOCK_POLLS: u32 = 32;
/// Polls between two clock reads even if completions arrive, because the completions may belong to
/// another thread.
const CLOCK_POLLS: u32 = 1024;

/// A flush. A flush counts as a wait after the first [`SPIN_CLOCK_POLLS`] polls without a completion. Times are
/// nanoseconds of `CLOCK_MONOTONIC`.
struct Waiting<'a> {
    counters: &'a PeerCounters,
    /// The counters include the wait up to this time; `None` until the wait begins.
    counted: Option<u64>,
}

impl Waiting<'_> {
    #[cold]
    #[inline(never)]
    fn begin(&mut self, now: u64) {
        self.counted = Some(now);
        add(&self.counters.waits, 1, true);
    }

    /// Counts the time since the last call, so that readers of the counters see a wait while it lasts.
    #[cold]
    #[inline(never)]
    fn count(&mut self) {
        if let Some(counted) = &mut self.counted {
            let now = sys::monotonic();
            let more = now.saturating_sub(*counted);
            add(&self.counters.waited, more, true);
            *counted = now;
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.counted.is_some() {
            self.count();
        }
    }
}

/// Counts a thread in `Failures::flushing`.
struct Flushing<'a>(&'a Transport);

impl Flushing<'_> {
    fn begin(transport: &Transport) -> Flushing<'_> {
        let flushing = &transport.failures.flushing;
        flushing.fetch_add(1, Ordering::Relaxed);
        Flushing(transport)
    }
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `disconnect`: this thread has left the endpoints.
        self.0.failures.flushing.fetch_sub(1, Ordering::Release);
    }
}

impl Transport {
    /// Waits until every operation that this thread issued before, to `endpoint` or to all peers, is complete and its
    /// callback has returned. Callbacks must not call `flush`.
    ///
    /// Returns [`Status::UNREACH`] if a peer that this flush waits for failed, or [`Status::FATAL`] if the module can no
    /// longer be used. Returns [`Status::ERROR`] if operations without callback failed since the last flush.
    pub fn flush(&self, endpoint: Option<&Endpoint>) -> Status {
        if self.policy.two_sided {
            return self.flush_with_sends(endpoint);
        }
        self.flush_until(endpoint, None)
    }

    /// A flush on a transport with two-sided messages.
    #[cold]
    fn flush_with_sends(&self, endpoint: Option<&Endpoint>) -> Status {
        // A host that only flushes may never call progress, and a peer may wait for a send in a batch
        // that is not full.
        if self.send_gathered() {
            // The sends that are left wait for an answer.
            self.poll(&self.contexts[0]);
        }
        self.flush_until(endpoint, None)
    }

    pub(crate) fn flush_until(
        &self,
        endpoint: Option<&Endpoint>,
        deadline: Option<Instant>,
    ) -> Status {
        if let Some(peer) = endpoint {
            let status = self.wait_for(peer, deadline);
            let lost = match peer.lost.load(Ordering::Relaxed) {
                // A swap would take the cache line from threads that post to this peer.
                0 => 0,
                _ => peer.lost.swap(0, Ordering::Relaxed),
            };
            if lost == 0 {
                return status;
            }
            // A flush of all peers in another thread may already have reset the total.
            let rest = |sum: u32| Some(sum.saturating_sub(lost));
            let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
            let _ = self.failures.lost.fetch_update(set, fetch, rest);
            // Returns the peer's failure if the operations failed with it.
            self.act_on_failures();
            let why = peer.failure().unwrap_or(Status::ERROR);
            return status.ok().map_or(status, |_| why);
        }
        let mut status = Status::SUCCESS;
        for context in &self.contexts {
            let degraded = || {
                self.failures
                    .degraded
                    .load(Ordering::Relaxed)
                    .then_some(Status::UNREACH)
            };
            let count = context.count.total();
            if count.is_idle() {
                continue;
            }
            match self.wait_long((count, self.counters.common()), deadline, degraded) {
                Status::UNREACH => {
                    status = self.flush_living(deadline);
                    break;
                }
                Status::FATAL => return Status::FATAL,
                Status::TIMEOUT => status = Status::TIMEOUT,
                _ => {}
            }
        }
        if status.is_ok() && self.failures.degraded.load(Ordering::Relaxed) {
            // The failed peer may have left nothing outstanding. Callbacks for its earlier operations may still run in
            // another thread.
            status = self.last_failure(deadline);
        }
        if self.failures.lost.load(Ordering::Relaxed) > 0 {
            // The operations may have failed together with a peer.
            if self.act_on_failures() > 0 && status.is_ok() {
                status = self.last_failure(deadline);
            }
            // The counts of the peers are cleared first: a loss in between is reported twice, but never lost.
            self.clear_failures();
            if self.failures.lost.swap(0, Ordering::Relaxed) == 0 {
                return status;
            }
            return status.ok().map_or(status, |_| Status::ERROR);
        }
        status
    }

    /// Clears the lost counts of all peers, because this flush reports their losses and later flushes of one peer must
    /// not report them again.
    #[cold]
    fn clear_failures(&self) {
        for peer in self.lock_peers().known.iter() {
            peer.lost.store(0, Ordering::Relaxed);
        }
    }

    /// Flushes each living peer that has operations outstanding. After a peer failed, the counts over all peers no longer
    /// reach zero. The first flush after the failure reports the failure.
    #[cold]
    fn flush_living(&self, deadline: Option<Instant>) -> Status {
        if self.is_copy() {
            return self.refuse_copy();
        }
        let is_busy = |peer: &&Endpoint| !peer.is_idle() && peer.failure().is_none();
        let (busy, flushing): (Vec<_>, _) = {
            let peers = self.lock_peers();
            let busy = peers.known.iter().filter(is_busy);
            (busy.map(NonNull::from).collect(), Flushing::begin(self))
        };
        let mut settled = Status::SUCCESS;
        for endpoint in busy {
            // SAFETY: a release keeps the endpoint while this thread is counted as flushing.
            let peer = unsafe { endpoint.as_ref() };
            if self.wait_for(peer, deadline) == Status::TIMEOUT {
                settled = Status::TIMEOUT;
            }
        }
        drop(flushing);
        self.wait_for_reports(deadline);
        match self.failures.last_failure.swap(0, Ordering::Relaxed) {
            0 if self.failures.broken.load(Ordering::Relaxed) => Status::FATAL,
            0 => settled,
            code => Status(code),
        }
    }

    /// Waits until every operation posted to a peer is complete, the deadline passes, or the peer
    /// fails.
    #[inline]
    fn wait_for(&self, peer: &Endpoint, deadline: Option<Instant>) -> Status {
        if peer.is_idle() {
            if peer.failure().is_some() {
                self.wait_for_reports(deadline);
            }
            return Status::SUCCESS;
        }
        let count = (peer.total(), self.quick.counters.of_first(peer));
        let status = self.wait_long(count, deadline, || peer.failure());
        match peer.failure() {
            Some(why) if status.is_ok() => {
                // All operations are over because the peer failed. The callbacks of these operations may still run in
                // another thread.
                self.wait_for_reports(deadline);
                why
            }
            _ => status,
        }
    }

    /// Makes progress until the count settles, the deadline passes, or `stop` returns a status. In a child of fork, returns
    /// [`Status::FATAL`]. This is a separate function, so that a flush with nothing outstanding saves no registers.
    ///
    /// The first call of progress comes before the phase advances. This call often ends all operations, and threads that
    /// post to the peer read the phase.
    #[inline(never)]
    fn wait_long(
        &self,
        (count, counters): (Total<'_>, &PeerCounters),
        deadline: Option<Instant>,
        stop: impl Fn() -> Option<Status>,
    ) -> Status {
        let mark = count.mark();
        let (mut turns, mut idle) = (0u32, 0u32);
        let mut quiet_since: Option<u64> = None;
        let mut waiting = Waiting {
            counters,
            counted: None,
        };
        let mut yielding = false;
        loop {
            let done = self.progress();
            if count.settle(mark) {
                return Status::SUCCESS;
            }
            if let Some(status) = stop() {
                self.wait_for_reports(deadline);
                return status;
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(CLOCK_POLLS) {
                self.check_peers_now_and_then();
                waiting.count();
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
            // There is no pause between polls: reading a queue takes long enough, and a pause would delay
            // the answer.
            if !yielding {
                if !idle.is_multiple_of(SPIN_CLOCK_POLLS) {
                    continue;
                }
                let now = sys::monotonic();
                let quiet = *quiet_since.get_or_insert(now);
                if waiting.counted.is_none() {
                    if self.is_copy() {
                        return self.refuse_copy();
                    }
                    waiting.begin(now);
                }
                if now.saturating_sub(quiet) < SPIN {
                    continue;
                }
                yielding = true;
            }
            // A process that computes may keep the processor for milliseconds after each yield.
            if idle.is_multiple_of(SPIN_CLOCK_POLLS) {
                waiting.count();
            }
            std::thread::yield_now();
        }
    }

    /// Returns the failure of a peer that no flush has returned yet, after its reports are over.
    #[cold]
    fn last_failure(&self, deadline: Option<Instant>) -> Status {
        self.wait_for_reports(deadline);
        Status(self.failures.last_failure.swap(0, Ordering::Relaxed))
    }
}

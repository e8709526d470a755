//! Rails: further interfaces of this node that carry parts of large transfers (`engine::compound::stripes`). Each rail is a
//! transport of its own that makes only puts and gets, by its provider. A rail's peers are those peers of this transport that
//! have a rail on the same network.
//!
//! Each process with rails has two words for each rail. A peer writes [`CLOSED`] into the first word to ask this process to
//! close the rail, and reads from the second word whether the rail is closed (reason: `engine::compound::stripes`).

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use plugin_api::{Access, ThreadLevel};

use crate::base::error::Error;
use crate::base::params::{Options, Place};
use crate::base::ticks;
use crate::engine::transport::Transport;
use crate::fabric::region::Region;
use crate::fabric::registration::Registrar;
use crate::mem::handle::Target;
use crate::peer::rails::{CLOSED, FURTHER, Fence, Tracks};

/// Smallest transfer that is divided: below it, two pieces take as long as one.
const SMALLEST: usize = 128 * 1024;
/// Polls of the first interface for each poll of one rail, while no transfer of this process uses them. A peer's transfer may
/// use them, and many providers serve it only in a poll. If the host polls seldom, each of its polls also polls the rails: a
/// peer takes a rail for broken if the rail moves nothing while the first interface answers.
const INTERVAL: u32 = 4;

/// The rails of a transport beyond its own interface.
#[derive(Default)]
pub(crate) struct Rails {
    rails: Vec<Transport>,
    /// The ways to each peer, by process number, and where it is asked to close its rails.
    pub(super) tracks: RwLock<HashMap<u64, (Tracks, Target)>>,
    fence: Box<Fence>,
    polls: Polls,
}

/// Polls of the first interface: their number, and the time of the last one in [`ticks`].
#[derive(Default)]
struct Polls {
    number: AtomicU32,
    last: AtomicU64,
}

impl Polls {
    /// Notes a poll. Returns whether the rails are due.
    fn is_due(&self, now: u64) -> bool {
        let number = self.number.load(Ordering::Relaxed).wrapping_add(1);
        self.number.store(number, Ordering::Relaxed);
        let since = now.wrapping_sub(self.last.load(Ordering::Relaxed));
        self.last.store(now, Ordering::Relaxed);
        since > ticks::LONG || number.is_multiple_of(INTERVAL)
    }
}

impl Rails {
    /// Opens a transport for each place. Goes without those that cannot be opened, and, where peers find rails by number, without
    /// those behind.
    ///
    /// # Safety
    /// As for [`Transport::open_at`].
    pub(crate) unsafe fn open(
        options: &Options,
        level: ThreadLevel,
        places: &[Place],
        registrar: &Arc<Registrar>,
    ) -> Result<(Rails, Option<Region>), Error> {
        let mut rails = Rails::default();
        for place in places {
            let options = options.for_rail(place);
            // SAFETY: the caller guarantees that calls of the rails do not overlap below MULTIPLE.
            match unsafe { Transport::open_at(&options, level) } {
                Ok(rail) => rails.rails.push(rail),
                Err(e) => {
                    tracing::warn!("rail {} is not used: {e}", place.domain);
                    if options.is_found_by_number() {
                        break;
                    }
                }
            }
        }
        if rails.is_empty() {
            return Ok((rails, None));
        }
        let (base, access) = (rails.fence.as_ptr().cast_mut(), Access::all());
        let words = registrar.register_own(base.cast(), size_of::<Fence>(), access)?;
        Ok((rails, Some(words)))
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.rails.is_empty()
    }

    /// What they publish.
    pub(crate) fn published(&self) -> Vec<Vec<u8>> {
        let each = self.rails.iter();
        each.map(|rail| rail.address().to_vec()).collect()
    }

    /// The rail with a number.
    pub(crate) fn get(&self, rail: usize) -> Option<&Transport> {
        self.rails.get(rail)
    }

    /// The largest transfer that is never divided, of those up to `limit`.
    pub(crate) fn quick_limit(&self, limit: usize) -> usize {
        match self.rails.is_empty() {
            true => limit,
            false => limit.min(SMALLEST - 1),
        }
    }

    /// Whether a transfer of `size` bytes may go over several rails.
    pub(crate) fn divide(&self, size: usize) -> bool {
        size >= SMALLEST && !self.rails.is_empty()
    }

    /// The largest piece that every rail moves.
    pub(crate) fn piece_limit(&self) -> usize {
        let each = self.rails.iter();
        let each = each.map(|rail| rail.setup.put_limit.min(rail.setup.get_limit));
        each.min().unwrap_or(usize::MAX)
    }

    /// Registers memory with the rails, in order. Transfers to it do not use those from the first one on that refuses.
    pub(crate) fn register(&self, base: *mut c_void, length: usize, access: Access) -> Vec<Region> {
        let each = self.rails.iter().map_while(|rail| {
            let region = rail.registrar.register_own(base, length, access);
            region
                .inspect_err(|e| tracing::info!("{}{e}", rail.failures.of))
                .ok()
        });
        each.collect()
    }

    /// The ways to a peer that work.
    pub(crate) fn tracks(&self, proc: u64) -> Option<(Tracks, Target)> {
        let tracks = self.tracks.read().unwrap_or_else(PoisonError::into_inner);
        let (mut found, fence) = *tracks.get(&proc)?;
        for track in &mut found {
            // SAFETY: endpoints in the table are connected, and the lock is held.
            *track = track.filter(|t| unsafe { t.endpoint.as_ref() }.failure().is_none());
        }
        Some((found, fence))
    }

    /// The transports.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Transport> {
        self.rails.iter()
    }

    /// Closes them; the error is the first one.
    pub(crate) fn close(self) -> Result<(), Error> {
        let closed = self.rails.into_iter().map(Transport::close);
        closed.fold(Ok(()), Result::and)
    }

    /// Removes and returns the tracks of a peer that is released. With operations `outstanding`, each rail also removes the peer
    /// from its own peers, because it gives the peer up. The caller holds the lock under which the peer is released, so a
    /// thread that connects the process again makes new tracks.
    pub(crate) fn take_tracks(&self, proc: u64, outstanding: bool) -> Option<Tracks> {
        let taken = {
            let mut tracks = self.tracks.write().unwrap_or_else(PoisonError::into_inner);
            tracks.remove(&proc).map(|(tracks, _)| tracks)
        };
        for track in taken.into_iter().flatten().flatten() {
            if outstanding && let Some(rail) = self.get(track.rail) {
                // Operations still name it there.
                rail.lock_peers().remove(proc, true);
                rail.detector.lock().abandon(proc);
            }
        }
        taken
    }

    /// Polls the rails: always while transfers go over them (`in_use`), or if the host polls seldom, else at intervals.
    pub(crate) fn progress(&self, in_use: bool) -> usize {
        let Rails { rails, polls, .. } = self;
        if rails.is_empty() {
            return 0;
        }
        let due = polls.is_due(ticks::now());
        if !in_use && !due {
            return 0;
        }
        self.close_asked();
        rails.iter().map(Transport::progress).sum()
    }

    /// Closes the rails that peers ask for.
    fn close_asked(&self) {
        let Rails { rails, fence, .. } = self;
        for (number, rail) in rails.iter().enumerate() {
            let (asked, closed) = (&fence[number], &fence[FURTHER + number]);
            let is = |word: &AtomicU64| word.load(Ordering::Relaxed) == CLOSED;
            if is(asked) && !is(closed) && rail.close_rail("a peer says that it failed") {
                // Release: a peer that reads this finds nothing written over the rail later.
                closed.store(CLOSED, Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls by a host that computes between two of them, and by one that does not.
    #[test]
    fn who_polls_seldom_polls_rails_each_time() {
        for (pause, due) in [(ticks::LONG + 1, 100), (ticks::LONG / 100, 25)] {
            let (polls, mut now) = (Polls::default(), 0);
            let times = (0..100).filter(|_| {
                now += pause;
                polls.is_due(now)
            });
            assert_eq!(times.count(), due);
        }
    }
}

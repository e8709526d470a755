//! Rails: further interfaces of this node that carry parts of large transfers (`engine::compound::stripes`). Each rail is a
//! separate transport that makes only puts and gets, by its provider. The peers of a rail are the peers of this transport
//! that have a rail on the same network.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use plugin_api::{Access, ThreadLevel};

use crate::base::error::Error;
use crate::base::params::{Options, Place};
use crate::base::ticks;
use crate::engine::transport::Transport;
use crate::fabric::region::Region;
use crate::peer::rails::Tracks;

/// Smallest transfer that is divided. Below this size, two fragments take as long as the whole transfer.
const SMALLEST: usize = 128 * 1024;
/// Polls of the first interface for each poll of one rail, while no transfer of this process uses them. A transfer of a
/// peer may use the rails, and many providers serve it only in a poll. If the host polls seldom, each of its polls also
/// polls the rails.
const INTERVAL: u32 = 4;

/// The rails of a transport beyond its own interface.
#[derive(Default)]
pub(crate) struct Rails {
    rails: Vec<Transport>,
    /// The paths to each peer by its process number.
    pub(super) tracks: RwLock<HashMap<u64, Tracks>>,
    polls: Polls,
}

/// Polls of the first interface: their number, and the time of the last one in [`ticks`].
#[derive(Default)]
struct Polls {
    number: AtomicU32,
    last: AtomicU64,
}

impl Polls {
    /// Counts a poll. Returns whether the rails must be polled, too.
    fn is_due(&self, now: u64) -> bool {
        let number = self.number.load(Ordering::Relaxed).wrapping_add(1);
        self.number.store(number, Ordering::Relaxed);
        let since = now.wrapping_sub(self.last.load(Ordering::Relaxed));
        self.last.store(now, Ordering::Relaxed);
        since > ticks::LONG || number.is_multiple_of(INTERVAL)
    }
}

impl Rails {
    /// Opens a transport for each place. Skips a place whose transport cannot be opened. If peers find rails by number,
    /// also skips all places after it.
    ///
    /// # Safety
    /// The conditions of [`Transport::open_at`].
    pub(crate) unsafe fn open(options: &Options, level: ThreadLevel, places: &[Place]) -> Rails {
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
        rails
    }

    /// Whether there are no further rails.
    pub(crate) fn is_empty(&self) -> bool {
        self.rails.is_empty()
    }

    /// The addresses that the rails publish.
    pub(crate) fn published(&self) -> Vec<Vec<u8>> {
        let each = self.rails.iter();
        each.map(|rail| rail.address().to_vec()).collect()
    }

    /// The rail with a number.
    pub(crate) fn get(&self, rail: usize) -> Option<&Transport> {
        self.rails.get(rail)
    }

    /// The largest transfer, up to `limit`, that is never divided.
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

    /// Size of the largest fragment that every rail supports.
    pub(crate) fn piece_limit(&self) -> usize {
        let each = self.rails.iter();
        let each = each.map(|rail| rail.setup.put_limit.min(rail.setup.get_limit));
        each.min().unwrap_or(usize::MAX)
    }

    /// Registers memory with the rails, in order, until a rail refuses. Transfers to this memory use only the rails
    /// before that one.
    pub(crate) fn register(&self, base: *mut c_void, length: usize, access: Access) -> Vec<Region> {
        let each = self.rails.iter().map_while(|rail| {
            let region = rail.registrar.register_own(base, length, access);
            region
                .inspect_err(|e| tracing::info!("{}{e}", rail.failures.of))
                .ok()
        });
        each.collect()
    }

    /// The working paths to a peer.
    pub(crate) fn tracks(&self, proc: u64) -> Option<Tracks> {
        let tracks = self.tracks.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = *tracks.get(&proc)?;
        for track in &mut found {
            // SAFETY: endpoints in the table are connected, and the lock is held.
            *track = track.filter(|t| unsafe { t.endpoint.as_ref() }.failure().is_none());
        }
        Some(found)
    }

    /// The transports of the rails.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Transport> {
        self.rails.iter()
    }

    /// Closes the rails, and returns the first error.
    pub(crate) fn close(self) -> Result<(), Error> {
        let closed = self.rails.into_iter().map(Transport::close);
        closed.fold(Ok(()), Result::and)
    }

    /// Removes and returns the tracks of a peer that is released. With operations `outstanding`, each rail also removes the
    /// peer from its own peers, because the rail gives the peer up. The caller holds the lock under which the peer is
    /// released, so a thread that connects the process again makes new tracks.
    pub(crate) fn take_tracks(&self, proc: u64, outstanding: bool) -> Option<Tracks> {
        let taken = {
            let mut tracks = self.tracks.write().unwrap_or_else(PoisonError::into_inner);
            tracks.remove(&proc)
        };
        for track in taken.into_iter().flatten().flatten() {
            if outstanding && let Some(rail) = self.get(track.rail) {
                // Operations on the rail still name the endpoint.
                rail.lock_peers().remove(proc, true);
                rail.detector.lock().abandon(proc);
            }
        }
        taken
    }

    /// Polls the rails. Polls every time if transfers go over the rails (`in_use`) or if the host polls seldom,
    /// otherwise at intervals.
    pub(crate) fn progress(&self, in_use: bool) -> usize {
        let Rails { rails, polls, .. } = self;
        if rails.is_empty() {
            return 0;
        }
        let due = polls.is_due(ticks::now());
        if !in_use && !due {
            return 0;
        }
        rails.iter().map(Transport::progress).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first host computes between two polls, the second does not.
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

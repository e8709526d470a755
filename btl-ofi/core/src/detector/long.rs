//! Long transfers: how much longer a peer may be silent because of them.
//!
//! The provider reports only the completion of a transfer, not its progress. Over a slow link a long transfer therefore
//! looks like silence, and the limit grows with the bytes that may be outstanding. The completion of an operation without a
//! callback does not say how many bytes it had. Therefore bytes are forgotten when the outstanding count shows that all
//! operations posted before are complete.

use std::collections::HashMap;

use crate::peer::endpoint::Endpoint;
use crate::peer::outstanding::Mark;

/// Smallest transfer that counts. With a peer timeout, the fast paths post only smaller transfers.
pub(crate) const LONG: usize = 64 * 1024;
/// The slowest link that a peer gets time for, in bytes per millisecond: some 30 Mbit/s.
const PACE: u64 = 4096;

/// Long transfers that may be outstanding to one peer.
#[derive(Debug)]
struct Flight {
    mark: Mark,
    /// Bytes posted before `mark`, and bytes posted since. When `mark` is settled, the bytes before
    /// it are complete.
    before: u64,
    since: u64,
}

impl Flight {
    fn time(&self) -> u64 {
        (self.before + self.since) / PACE
    }
}

/// The peers to which long transfers may be outstanding, by process number.
#[derive(Debug, Default)]
pub(crate) struct LongTransfers(HashMap<u64, Flight>);

impl LongTransfers {
    /// Counts a transfer that was posted.
    pub(crate) fn add(&mut self, peer: &Endpoint, bytes: usize) {
        let flight = self.0.entry(peer.proc).or_insert_with(|| Flight {
            mark: peer.total().mark(),
            before: 0,
            since: 0,
        });
        flight.since += bytes as u64;
    }

    /// Milliseconds that a slow link needs for the bytes that may be outstanding to a peer.
    pub(super) fn time_of(&mut self, peer: &Endpoint) -> u64 {
        let Some(flight) = self.0.get_mut(&peer.proc) else {
            return 0;
        };
        if peer.total().settle(flight.mark) {
            *flight = Flight {
                mark: peer.total().mark(),
                before: flight.since,
                since: 0,
            };
        }
        let time = flight.time();
        if flight.before + flight.since == 0 {
            self.remove(peer.proc);
        }
        time
    }

    /// Milliseconds that a slow link needs for the bytes that may be outstanding to all peers
    /// together.
    pub(super) fn time_of_all(&self) -> u64 {
        self.0.values().map(Flight::time).sum()
    }

    /// Removes peers that have no outstanding transfers. `is_busy` returns whether a peer has some.
    pub(super) fn retain(&mut self, is_busy: impl Fn(u64) -> bool) {
        self.0.retain(|proc, _| is_busy(*proc));
    }

    pub(super) fn remove(&mut self, proc: u64) {
        self.0.remove(&proc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::route::{Facts, Route};
    use crate::peer::share::Share;

    const SIZE: usize = 1 << 20;
    const TIME: u64 = SIZE as u64 / PACE;

    #[test]
    fn bytes_count_until_they_are_complete() {
        let peer = Endpoint::new(0, 7, Route::decide(Facts::default()));
        let mut long = LongTransfers::default();
        assert_eq!(long.time_of(&peer), 0);
        let first = peer.raise(Share::ONLY, false);
        long.add(&peer, SIZE);
        for _ in 0..4 {
            assert_eq!(long.time_of(&peer), TIME, "it is outstanding");
        }
        let second = peer.raise(Share::ONLY, false);
        long.add(&peer, SIZE);
        assert_eq!(
            (long.time_of(&peer), long.time_of_all()),
            (2 * TIME, 2 * TIME)
        );
        peer.pair(Share::ONLY, false).lower(first, 1, false);
        for _ in 0..4 {
            assert!(long.time_of(&peer) >= TIME, "the second one is outstanding");
        }
        peer.pair(Share::ONLY, false).lower(second, 1, false);
        long.time_of(&peer);
        long.time_of(&peer);
        assert!(long.0.is_empty());
    }

    /// Under a steady stream of transfers, the bytes of completed transfers do not add up.
    #[test]
    fn complete_bytes_are_forgotten() {
        let peer = Endpoint::new(0, 7, Route::decide(Facts::default()));
        let mut long = LongTransfers::default();
        let mut outstanding = std::collections::VecDeque::new();
        for _ in 0..1000 {
            outstanding.push_back(peer.raise(Share::ONLY, false));
            long.add(&peer, SIZE);
            if outstanding.len() > 4
                && let Some(oldest) = outstanding.pop_front()
            {
                peer.pair(Share::ONLY, false).lower(oldest, 1, false);
            }
            assert!(long.time_of(&peer) <= 16 * TIME);
        }
    }
}

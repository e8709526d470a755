//! Shares: each of several contexts counts its operations to a peer in its own share.
//!
//! If threads counted at one place, the place's cache line would move between cores with each operation. So with
//! several contexts each context has a share of every peer, on cache lines that no other context writes for each
//! operation. A share consists of a [`Pair`] of outstanding counts behind the chunk of memory with the peer's endpoint
//! (`peer::table`), and a slot of counters (`plugin_api::counters`). With one context, or if calls never overlap, there
//! is one share, and the pair lies in the endpoint.
//!
//! ```text
//! chunk of endpoints        pairs of share 0          pairs of share 1
//! 64 KiB                    32 KiB and two lines      32 KiB and two lines
//! at a multiple of 64 KiB   8 bytes for each 16 bytes of the chunk
//! ```

use std::ptr;

use plugin_api::counters;

use crate::peer::endpoint::Endpoint;
use crate::peer::outstanding::Pair;

/// Distance in bytes from a chunk of endpoints to the pairs of share 0. This distance is also the alignment of the chunk.
pub(crate) const CHUNK: usize = 64 << 10;
/// Distance in bytes from one share's pairs to the next share's. The distance exceeds the size of the pairs by two
/// cache lines, so that the pairs of a peer do not all fall into one set of a processor's cache.
pub(crate) const PAIRS: usize = CHUNK / align_of::<Endpoint>() * size_of::<Pair>() + 128;

/// The number of shares of a transport with `contexts` contexts. `threaded` says that calls may overlap.
pub(crate) fn number(contexts: usize, threaded: bool) -> usize {
    if threaded { contexts } else { 1 }
}

/// A context's share of every peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Distance in bytes from a chunk of endpoints to this share's pairs; 0 if the pairs lie in the
    /// endpoints.
    pairs: usize,
    /// Distance in bytes from the first share of the counters to this share.
    counters: usize,
}

impl Share {
    /// The only share, which serves all calls.
    pub(crate) const ONLY: Share = Share {
        pairs: 0,
        counters: 0,
    };

    /// One of several shares.
    pub(crate) const fn of_several(number: usize) -> Share {
        Share {
            pairs: CHUNK + number * PAIRS,
            counters: number * size_of::<counters::Share>(),
        }
    }

    /// The share's number, from 0 on.
    pub(crate) fn number(self) -> usize {
        self.counters / size_of::<counters::Share>()
    }

    /// Distance in bytes from the first share of the counters to this share.
    #[inline(always)]
    pub(crate) fn counters(self) -> usize {
        self.counters
    }

    /// This share's pair of a peer; `None` if the pair lies in the endpoint.
    ///
    /// # Safety
    /// The peer lies in a table with this share.
    #[inline(always)]
    pub(crate) unsafe fn pair_of(self, peer: &Endpoint) -> Option<&Pair> {
        let at = ptr::from_ref(peer).addr();
        let within = at % CHUNK;
        let pair = at - within + self.pairs + within / align_of::<Endpoint>() * size_of::<Pair>();
        // SAFETY: the caller guarantees the share. The table exposed the provenance of the chunk and of its
        // pairs.
        (self.pairs != 0).then(|| unsafe { &*ptr::with_exposed_provenance(pair) })
    }
}

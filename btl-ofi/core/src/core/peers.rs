//! The connected peers, and what the failure detector knows of them.

use std::collections::HashMap;
use std::os::fd::AsRawFd;

use crate::detector::Watches;
use crate::mem::handle::Target;
use crate::peer::endpoint::Endpoint;
use crate::peer::reach::Probe;
use crate::peer::table::Endpoints;

/// The connected peers and their state.
pub(crate) struct Peers {
    pub(crate) known: Endpoints,
    /// State of the last liveness check.
    pub(crate) watches: Watches,
    /// Where reads that confirm puts go, by process number, where puts go by order.
    pub(crate) words: HashMap<u64, Target>,
}

impl Peers {
    /// No peers yet, for a transport with so many shares (`peer::share`).
    pub(crate) fn new(shares: usize) -> Peers {
        Peers {
            known: Endpoints::new(shares),
            watches: Watches::default(),
            words: HashMap::new(),
        }
    }

    /// The probe that identifies a peer's memory.
    pub(crate) fn probe(&self, peer: &Endpoint) -> Option<Probe> {
        self.known.probe(peer.proc)
    }

    /// This process's file descriptor of a peer's segment.
    pub(crate) fn segment(&self, peer: &Endpoint) -> Option<u32> {
        Some(self.known.segment(peer.proc)?.as_raw_fd() as u32)
    }
}

//! The connected peers, and the data about them.

use std::collections::HashMap;
use std::os::fd::AsRawFd;

use crate::mem::handle::Target;
use crate::peer::endpoint::Endpoint;
use crate::peer::reach::Probe;
use crate::peer::table::Endpoints;
use crate::peer::trial::Trial;

/// The connected peers and their state.
pub(crate) struct Peers {
    pub(crate) known: Endpoints,
    /// Trial connections to peers for which the provider took no message, by process number.
    pub(crate) trials: HashMap<u64, Trial>,
    /// The targets of reads that confirm puts, by process number, if puts go by order.
    pub(crate) words: HashMap<u64, Target>,
}

impl Peers {
    /// An empty table, for a transport with `shares` shares (`peer::share`).
    pub(crate) fn new(shares: usize) -> Peers {
        Peers {
            known: Endpoints::new(shares),
            trials: HashMap::new(),
            words: HashMap::new(),
        }
    }

    /// Removes a peer that is released. The peer's memory is reused unless `late` completions may still name it.
    pub(crate) fn remove(&mut self, proc: u64, late: bool) {
        self.trials.remove(&proc);
        self.words.remove(&proc);
        self.known.remove(proc, late);
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

//! The ranks of this node whose device memory can perhaps be [opened](super::opened) here.

use std::sync::OnceLock;

use crate::door::OpenedMemory;

/// A rank of this node whose memory can perhaps be opened.
pub(super) struct Neighbour {
    rank: usize,
    pub(super) exported: Vec<u8>,
    /// Set when the attempt to open the memory has succeeded or failed.
    pub(super) opened: OnceLock<Option<Box<dyn OpenedMemory>>>,
}

/// The neighbours of a window, in the order of their ranks.
#[derive(Default)]
pub(in crate::win) struct Neighbours(Vec<Neighbour>);

impl Neighbours {
    /// Adds a rank above all others, unless it exported nothing.
    pub(in crate::win) fn add(&mut self, rank: usize, exported: Vec<u8>) {
        if !exported.is_empty() {
            self.0.push(Neighbour {
                rank,
                exported,
                opened: OnceLock::new(),
            });
        }
    }

    pub(super) fn find(&self, rank: usize) -> Option<&Neighbour> {
        let at = self
            .0
            .binary_search_by_key(&rank, |neighbour| neighbour.rank);
        self.0.get(at.ok()?)
    }

    pub(in crate::win) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Closes all memory. Later puts and gets go by the transport.
    pub(in crate::win) fn close(&mut self) {
        self.0.clear();
    }
}

//! The paths to a peer over further rails, and the words by which peers ask a process to close a rail.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use crate::mem::handle::{MAX_RAILS, Target};
use crate::peer::endpoint::Endpoint;

/// The path to a peer over one rail.
#[derive(Clone, Copy)]
pub(crate) struct Track {
    /// Index of the rail among the rails of this transport.
    pub(crate) rail: usize,
    /// Index of the rail among the peer's rails. The index selects the rail's key in the peer's handles.
    pub(crate) theirs: usize,
    /// The peer's endpoint on the rail.
    pub(crate) endpoint: NonNull<Endpoint>,
}

// SAFETY: an endpoint is shared by all threads that use its transport; it lives until it is disconnected.
unsafe impl Send for Track {}
// SAFETY: all threads that use a transport share its endpoints, which live until they are disconnected;
// the other fields are plain numbers.
unsafe impl Sync for Track {}

/// The paths to a peer over further rails.
pub(crate) type Tracks = [Option<Track>; MAX_RAILS - 1];

/// The value of a word of [`Fence`] that requests a close, or confirms it.
pub(crate) const CLOSED: u64 = 1;

/// Maximum number of rails beyond the first.
pub(crate) const FURTHER: usize = MAX_RAILS - 1;

/// The words of all rails. The first half request to close a rail, and peers write them. The second half confirm
/// that a rail is closed, and peers read them.
pub(crate) type Fence = [AtomicU64; 2 * FURTHER];

/// Address of the word that asks a peer to close a rail.
pub(crate) fn asked_at(fence: Target, rail: usize) -> Target {
    Target {
        address: fence.address + (8 * rail) as u64,
        ..fence
    }
}

/// Address of the word with which a peer confirms that a rail is closed.
pub(crate) fn closed_at(fence: Target, rail: usize) -> Target {
    asked_at(fence, FURTHER + rail)
}

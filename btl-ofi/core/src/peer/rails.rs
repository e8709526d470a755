//! The paths to a peer over further rails.

use std::ptr::NonNull;

use crate::mem::handle::MAX_RAILS;
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

//! A peer as the transport sees it.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use libfabric_sys::fi_addr_t;
use plugin_api::Status;

use crate::liveness::ProcessId;
use crate::tally::Tally;

/// A peer: 64 bytes, at an address that is a multiple of 64 so that operations can carry it with
/// tag bits in their context pointer. Endpoints belong to the transport and live until it closes;
/// a released one is kept aside, because a late completion may still name it.
#[repr(C, align(64))]
pub struct Endpoint {
    /// Where the provider finds it.
    pub(crate) address: fi_addr_t,
    /// The process in the host's numbering.
    pub(crate) proc: u64,
    /// Operations to it.
    pub(crate) tally: Tally,
    /// Operations without callback that failed since the last flush.
    pub(crate) lost: AtomicU32,
    /// 0, or the status that every further operation gets because the peer is gone.
    pub(crate) failed: AtomicI32,
    /// How often it was connected and not yet released. Guarded by the peers' lock.
    pub(crate) connected: AtomicU32,
    /// The process behind it, when it runs on this node.
    pub(crate) process: Option<ProcessId>,
    /// Its process, if puts and gets reach into that directly (`direct`).
    pub(crate) direct: Option<NonZeroU32>,
    /// Whether it is this process, and puts and gets to it are copies (`Policy::self_by_copy`).
    pub(crate) copied: bool,
    /// Whether it has been read from, where fetching atomics need that (`Policy::fetch_alone`).
    pub(crate) met: AtomicBool,
    /// Whether its address was taken out of the provider's vector.
    pub(crate) removed: AtomicBool,
}

const _: () = assert!(
    size_of::<Endpoint>() == 64,
    "NOTES promises 64 bytes per peer"
);

impl Endpoint {
    /// The process in the host's numbering.
    pub fn proc(&self) -> u64 {
        self.proc
    }

    /// The status that operations to this peer get because it is gone.
    #[inline]
    pub fn failure(&self) -> Option<Status> {
        match self.failed.load(Ordering::Relaxed) {
            0 => None,
            code => Some(Status(code)),
        }
    }
}

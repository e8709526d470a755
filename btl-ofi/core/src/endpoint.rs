//! A peer as the transport sees it.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};

use libfabric_sys::fi_addr_t;
use plugin_api::Status;

use crate::liveness::ProcessId;
use crate::outbound::Outbound;
use crate::tally::Tally;

/// Which way atomics to a peer go. Settled before the first is posted, and the same as long as the
/// peer is connected, so that they keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Way {
    /// Through the provider.
    Provider = 0,
    /// Executed here: the peer is this transport.
    Itself = 1,
    /// Through a ring in its segment, not yet claimed.
    Unclaimed = 2,
    /// Through the ring that was claimed.
    Ring = 3,
}

/// How puts and gets to a peer are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Copies {
    /// By the provider.
    Provider,
    /// By the kernel, reaching into its process (`direct`).
    Kernel,
    /// By this thread: it is this process (`Policy::self_by_copy`).
    Here,
}

/// A peer: 64 bytes, at an address that is a multiple of 64 so that operations can carry it with
/// tag bits in their context pointer. Endpoints belong to the transport and live until it closes;
/// a released one is kept aside, because a late completion may still name it.
#[repr(C, align(64))]
pub struct Endpoint {
    /// Where the provider finds it.
    pub(crate) address: fi_addr_t,
    /// The process in the host's numbering.
    pub(crate) proc: u64,
    /// By `way`: the value its segment is known by, or the address of its [`Outbound`].
    link: AtomicU64,
    /// Operations to it.
    pub(crate) tally: Tally,
    /// Operations without callback that failed since the last flush.
    pub(crate) lost: AtomicU32,
    /// 0, or the status that every further operation gets because the peer is gone.
    pub(crate) failed: AtomicI32,
    /// How often it was connected and not yet released. Guarded by the peers' lock.
    pub(crate) connected: AtomicU32,
    /// The process behind it, when it runs on this node; else the id is 0.
    process: ProcessId,
    /// The peer's descriptor of its segment.
    pub(crate) segment: u32,
    /// How puts and gets to it are made.
    pub(crate) copies: Copies,
    /// Whether it has been read from, where fetching atomics need that (`Policy::fetch_alone`).
    pub(crate) met: AtomicBool,
    /// Whether its address was taken out of the provider's vector.
    pub(crate) removed: AtomicBool,
    way: AtomicU8,
}

const _: () = assert!(
    size_of::<Endpoint>() == 64,
    "NOTES promises 64 bytes per peer"
);

impl Endpoint {
    /// A peer that is connected once, reached through the provider.
    pub(crate) fn new(address: fi_addr_t, proc: u64, process: Option<ProcessId>) -> Endpoint {
        Endpoint {
            address,
            proc,
            link: AtomicU64::new(0),
            tally: Tally::new(),
            lost: AtomicU32::new(0),
            failed: AtomicI32::new(0),
            connected: AtomicU32::new(1),
            process: process.unwrap_or(ProcessId { pid: 0, started: 0 }),
            segment: 0,
            copies: Copies::Provider,
            met: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            way: AtomicU8::new(Way::Provider as u8),
        }
    }

    /// The process in the host's numbering.
    pub fn proc(&self) -> u64 {
        self.proc
    }

    /// The process behind it, when it runs on this node.
    pub(crate) fn process(&self) -> Option<ProcessId> {
        (self.process.pid != 0).then_some(self.process)
    }

    /// The process id that puts and gets reach into, for [`Copies::Kernel`].
    #[inline]
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Which way atomics go. Changes from [`Way::Unclaimed`] only, under the context's lock.
    #[inline]
    pub(crate) fn way(&self) -> Way {
        match self.way.load(Ordering::Relaxed) {
            1 => Way::Itself,
            2 => Way::Unclaimed,
            3 => Way::Ring,
            _ => Way::Provider,
        }
    }

    /// Whether operations to it may be outstanding at the provider. Under the context's lock it
    /// changes no more once it says no for a peer whose ring is claimed.
    pub(crate) fn uses_provider(&self) -> bool {
        self.copies != Copies::Kernel || self.way() == Way::Provider
    }

    /// Settles the way, with what the [`link`](Self::link) is to say then.
    pub(crate) fn go(&self, way: Way, link: u64) {
        self.link.store(link, Ordering::Relaxed);
        self.way.store(way as u8, Ordering::Relaxed);
    }

    /// The value that the peer's segment is known by, while it is [`Way::Unclaimed`].
    pub(crate) fn nonce(&self) -> u64 {
        self.link.load(Ordering::Relaxed)
    }

    /// The ring, for [`Way::Ring`] seen under the context's lock; to be used under it.
    #[inline]
    pub(crate) fn outbound(&self) -> *mut Outbound {
        ptr::with_exposed_provenance_mut(self.link.load(Ordering::Relaxed) as usize)
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

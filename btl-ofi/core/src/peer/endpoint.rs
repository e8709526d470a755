//! The state of one peer: its address, its outstanding count, its failure, and the ways in which operations reach it.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};

use libfabric_sys::fi_addr_t;
use plugin_api::Status;

use crate::peer::liveness::ProcessId;
use crate::peer::outstanding::OutstandingCount;

/// The way that atomics to a peer take. It is chosen before the first atomic is posted and stays the same while the
/// peer is connected, so that atomics keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Way {
    /// Through the provider.
    Provider = 0,
    /// Executed by this process: the peer is this transport.
    Itself = 1,
    /// Through a ring in the peer's segment that is not yet claimed.
    Unclaimed = 2,
    /// Through the claimed ring.
    Ring = 3,
}

/// The way that puts and gets to a peer take. It changes only from [`Copies::Kernel`] and [`Copies::Doubted`]
/// (`reach`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Copies {
    /// By the provider.
    Provider = 0,
    /// By CMA (`base/cma.rs`).
    Kernel = 1,
    /// By a copy in this thread: the peer is this process (`Policy::self_by_copy`).
    Here = 2,
    /// By the target, through the claimed ring: the kernel no longer reaches the target's memory.
    Ring = 3,
    /// Undecided until the peer is examined: it was found gone while no operation was outstanding.
    Doubted = 4,
}

/// A peer. It takes 48 bytes, at an address that is a multiple of 16, so that operations can carry the address with
/// tag bits in their context pointer. [`Endpoints`] owns the memory until the transport closes. The memory of a
/// released endpoint is not reused while a late completion may still name it. The endpoint of a local peer is the
/// first field of a [`LocalPeer`].
///
/// [`Endpoints`]: crate::peer::table::Endpoints
#[repr(C, align(16))]
pub struct Endpoint {
    /// The provider's address of the peer.
    pub(crate) address: fi_addr_t,
    /// The process in the host's numbering.
    pub(crate) proc: u64,
    /// Operations outstanding to the peer.
    pub(crate) count: OutstandingCount,
    /// Number of operations without callback that failed since the last flush.
    pub(crate) lost: AtomicU32,
    /// 0, or the status of every further operation because the peer is gone.
    pub(crate) failed: AtomicI32,
    /// Number of connects without a release. Guarded by the peers' lock.
    pub(crate) connected: AtomicU32,
    /// The process id of a local peer, whose endpoint is the first field of a [`LocalPeer`]; 0 for a remote peer.
    pid: u32,
    /// The way of puts and gets, a [`Copies`].
    copies: AtomicU8,
    /// Whether a get from the peer was made, where fetching atomics need that (`Policy::fetch_alone`).
    pub(crate) met: AtomicBool,
    /// Whether the address was removed from the provider's address vector.
    pub(crate) removed: AtomicBool,
    way: AtomicU8,
}

/// A local peer, with the data that reaches its process: 64 bytes, one cache line.
#[repr(C, align(64))]
pub(crate) struct LocalPeer {
    pub(crate) endpoint: Endpoint,
    /// Depends on `way`: the value that identifies the segment, or the address of the ring.
    link: AtomicU64,
    /// When the process started (`ProcessId::started`).
    started: u32,
    /// The peer's descriptor of its segment.
    segment: u32,
}

const _: () = assert!(
    size_of::<Endpoint>() == 48 && size_of::<LocalPeer>() == 64,
    "NOTES promises these bytes per peer"
);

impl LocalPeer {
    /// A local peer that is connected once, reached through the provider. The process id must not be 0.
    pub(crate) fn new(address: fi_addr_t, proc: u64, process: ProcessId) -> LocalPeer {
        LocalPeer {
            endpoint: Endpoint {
                pid: process.pid,
                ..Endpoint::new(address, proc)
            },
            link: AtomicU64::new(0),
            started: process.started,
            segment: 0,
        }
    }

    /// Makes atomics go through a ring of this segment, which `nonce` identifies.
    pub(crate) fn offer(&mut self, segment: u32, nonce: u64) {
        self.segment = segment;
        self.link = AtomicU64::new(nonce);
        self.endpoint.way = AtomicU8::new(Way::Unclaimed as u8);
    }

    /// Makes this process execute the atomics: the peer is this transport.
    pub(crate) fn go_to_itself(&mut self) {
        self.endpoint.way = AtomicU8::new(Way::Itself as u8);
    }
}

impl Endpoint {
    /// A remote peer that is connected once, reached through the provider.
    pub(crate) fn new(address: fi_addr_t, proc: u64) -> Endpoint {
        Endpoint {
            address,
            proc,
            count: OutstandingCount::new(),
            lost: AtomicU32::new(0),
            failed: AtomicI32::new(0),
            connected: AtomicU32::new(1),
            pid: 0,
            copies: AtomicU8::new(Copies::Provider as u8),
            met: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            way: AtomicU8::new(Way::Provider as u8),
        }
    }

    /// Whether the peer is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed) > 0
    }

    /// The process in the host's numbering.
    pub fn proc(&self) -> u64 {
        self.proc
    }

    /// The [`LocalPeer`] of which this is the first field, if the peer is local.
    #[inline]
    fn local_peer(&self) -> Option<&LocalPeer> {
        let local = ptr::with_exposed_provenance::<LocalPeer>(ptr::from_ref(self).addr());
        // SAFETY: only `LocalPeer::new` sets a process id, so this endpoint is the first field of a `LocalPeer`.
        // `Endpoints` keeps the whole value in place, and exposed the memory. The value lives as long as this
        // endpoint.
        (self.pid != 0).then(|| unsafe { &*local })
    }

    /// The peer's process, if the peer is local.
    pub(crate) fn process(&self) -> Option<ProcessId> {
        self.local_peer().map(|local| ProcessId {
            pid: self.pid,
            started: local.started,
        })
    }

    /// The way of puts and gets.
    #[inline]
    pub(crate) fn copies(&self) -> Copies {
        match self.copies.load(Ordering::Relaxed) {
            1 => Copies::Kernel,
            2 => Copies::Here,
            3 => Copies::Ring,
            4 => Copies::Doubted,
            _ => Copies::Provider,
        }
    }

    /// Sets the way of puts and gets from now on.
    pub(crate) fn copy_by(&self, copies: Copies) {
        self.copies.store(copies as u8, Ordering::Relaxed);
    }

    /// Whether puts and gets take this way.
    ///
    /// # Safety
    /// `T` is false only where calls never overlap.
    #[inline(always)]
    pub(crate) unsafe fn is_copied_by<const T: bool>(&self, copies: Copies) -> bool {
        if T {
            self.copies.load(Ordering::Relaxed) == copies as u8
        } else {
            // SAFETY: calls do not overlap where `T` is false, so no other thread writes the field during this call.
            // A plain read compiles to a compare with memory.
            unsafe { *self.copies.as_ptr() == copies as u8 }
        }
    }

    /// The peer's descriptor of its segment, for [`Way::Unclaimed`]; 0 for a remote peer.
    pub(crate) fn segment(&self) -> u32 {
        self.local_peer().map_or(0, |local| local.segment)
    }

    /// The process id for CMA, for [`Copies::Kernel`].
    #[inline]
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The way of atomics. It changes only from [`Way::Unclaimed`], under the context's lock.
    #[inline]
    pub(crate) fn way(&self) -> Way {
        match self.way.load(Ordering::Relaxed) {
            1 => Way::Itself,
            2 => Way::Unclaimed,
            3 => Way::Ring,
            _ => Way::Provider,
        }
    }

    /// Whether atomics go through the provider.
    #[inline]
    pub(crate) fn goes_by_provider(&self) -> bool {
        self.way.load(Ordering::Relaxed) == Way::Provider as u8
    }

    /// Whether operations to the peer may be outstanding at the provider. Under the context's lock, `false` is final
    /// for a peer whose ring is claimed.
    pub(crate) fn uses_provider(&self) -> bool {
        self.copies() == Copies::Provider || self.way() == Way::Provider
    }

    /// Sets the way of atomics, and the value of [`link`](LocalPeer::link) for that way.
    pub(crate) fn go(&self, way: Way, link: u64) {
        if let Some(local) = self.local_peer() {
            local.link.store(link, Ordering::Relaxed);
        }
        self.way.store(way as u8, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn link(&self) -> u64 {
        self.local_peer()
            .map_or(0, |local| local.link.load(Ordering::Relaxed))
    }

    /// The value that identifies the peer's segment, while the way is [`Way::Unclaimed`].
    pub(crate) fn nonce(&self) -> u64 {
        self.link()
    }

    /// Whether the peer has not failed.
    ///
    /// # Safety
    /// `T` is false only where calls never overlap.
    #[inline(always)]
    pub(crate) unsafe fn is_well<const T: bool>(&self) -> bool {
        if T {
            self.failed.load(Ordering::Relaxed) == 0
        } else {
            // SAFETY: calls do not overlap where `T` is false, so no other thread writes the field during this call.
            // A plain read compiles to a compare with memory.
            unsafe { *self.failed.as_ptr() == 0 }
        }
    }

    /// The status of operations to this peer if it is gone.
    #[inline]
    pub fn failure(&self) -> Option<Status> {
        match self.failed.load(Ordering::Relaxed) {
            0 => None,
            code => Some(Status(code)),
        }
    }
}

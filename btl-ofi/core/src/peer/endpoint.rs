//! A peer as the transport sees it.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};

use libfabric_sys::fi_addr_t;
use plugin_api::Status;

use crate::peer::liveness::ProcessId;
use crate::peer::outstanding::OutstandingCount;

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

/// How puts and gets to a peer are made. Changes from [`Copies::Kernel`] and [`Copies::Doubted`] only
/// (`reach`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Copies {
    /// By the provider.
    Provider = 0,
    /// By the kernel, reaching into its process (`cma`).
    Kernel = 1,
    /// By this thread: it is this process (`Policy::self_by_copy`).
    Here = 2,
    /// By the target, through the ring that was claimed: the kernel no longer reaches its process.
    Ring = 3,
    /// By nobody, until the peer was examined: it was found gone while nothing was outstanding.
    Doubted = 4,
}

/// A peer: 48 bytes, at an address that is a multiple of 16 so that operations can carry it with
/// tag bits in their context pointer. Endpoints belong to the transport ([`Endpoints`]) and live
/// until it closes; a released one is kept aside while a late completion may still name it. One on
/// this node is the beginning of a [`LocalPeer`].
///
/// [`Endpoints`]: crate::peer::table::Endpoints
#[repr(C, align(16))]
pub struct Endpoint {
    /// Where the provider finds it.
    pub(crate) address: fi_addr_t,
    /// The process in the host's numbering.
    pub(crate) proc: u64,
    /// Operations to it.
    pub(crate) count: OutstandingCount,
    /// Operations without callback that failed since the last flush.
    pub(crate) lost: AtomicU32,
    /// 0, or the status that every further operation gets because the peer is gone.
    pub(crate) failed: AtomicI32,
    /// How often it was connected and not yet released. Guarded by the peers' lock.
    pub(crate) connected: AtomicU32,
    /// The id of its process when that runs on this node, and so this is the beginning of a
    /// [`LocalPeer`]; else 0.
    pid: u32,
    /// How puts and gets to it are made: a [`Copies`].
    copies: AtomicU8,
    /// Whether it has been read from, where fetching atomics need that (`Policy::fetch_alone`).
    pub(crate) met: AtomicBool,
    /// Whether its address was taken out of the provider's vector.
    pub(crate) removed: AtomicBool,
    way: AtomicU8,
}

/// A peer on this node, with what reaching its process takes: 64 bytes, which are a cache line.
#[repr(C, align(64))]
pub(crate) struct LocalPeer {
    pub(crate) endpoint: Endpoint,
    /// By `way`: the value its segment is known by, or the address of its ring.
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
    /// A peer on this node that is connected once, reached through the provider. The process id is
    /// not 0.
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

    /// Lets atomics go through a ring of this segment, known by `nonce`.
    pub(crate) fn offer(&mut self, segment: u32, nonce: u64) {
        self.segment = segment;
        self.link = AtomicU64::new(nonce);
        self.endpoint.way = AtomicU8::new(Way::Unclaimed as u8);
    }

    /// Lets atomics be executed here: the peer is this transport.
    pub(crate) fn go_to_itself(&mut self) {
        self.endpoint.way = AtomicU8::new(Way::Itself as u8);
    }
}

impl Endpoint {
    /// A peer that is connected once, reached through the provider, and on another node.
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

    /// Whether it has not been released.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed) > 0
    }

    /// The process in the host's numbering.
    pub fn proc(&self) -> u64 {
        self.proc
    }

    /// What it is the beginning of, when its process runs on this node.
    #[inline]
    fn near(&self) -> Option<&LocalPeer> {
        let near = ptr::with_exposed_provenance::<LocalPeer>(ptr::from_ref(self).addr());
        // SAFETY: only `LocalPeer::new` sets a process id, what it makes is kept whole by `Endpoints`, which
        // exposed the memory, and it lives as long as the endpoint in it.
        (self.pid != 0).then(|| unsafe { &*near })
    }

    /// The process behind it, when it runs on this node.
    pub(crate) fn process(&self) -> Option<ProcessId> {
        self.near().map(|near| ProcessId {
            pid: self.pid,
            started: near.started,
        })
    }

    /// How puts and gets to it are made.
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

    /// Has puts and gets made so from now on.
    pub(crate) fn copy_by(&self, copies: Copies) {
        self.copies.store(copies as u8, Ordering::Relaxed);
    }

    /// Whether puts and gets are made so.
    ///
    /// # Safety
    /// `T` is false only where calls never overlap.
    #[inline(always)]
    pub(crate) unsafe fn is_copied_by<const T: bool>(&self, copies: Copies) -> bool {
        if T {
            self.copies.load(Ordering::Relaxed) == copies as u8
        } else {
            // SAFETY: nobody else writes it during a call. A plain read is compared where it lies.
            unsafe { *self.copies.as_ptr() == copies as u8 }
        }
    }

    /// The peer's descriptor of its segment, for [`Way::Unclaimed`].
    pub(crate) fn segment(&self) -> u32 {
        self.near().map_or(0, |near| near.segment)
    }

    /// The process id that puts and gets reach into, for [`Copies::Kernel`].
    #[inline]
    pub(crate) fn pid(&self) -> u32 {
        self.pid
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

    /// Whether atomics go through the provider.
    #[inline]
    pub(crate) fn goes_by_provider(&self) -> bool {
        self.way.load(Ordering::Relaxed) == Way::Provider as u8
    }

    /// Whether operations to it may be outstanding at the provider. Under the context's lock it
    /// changes no more once it says no for a peer whose ring is claimed.
    pub(crate) fn uses_provider(&self) -> bool {
        self.copies() == Copies::Provider || self.way() == Way::Provider
    }

    /// Settles the way, with what the [`link`](LocalPeer::link) is to say then.
    pub(crate) fn go(&self, way: Way, link: u64) {
        if let Some(near) = self.near() {
            near.link.store(link, Ordering::Relaxed);
        }
        self.way.store(way as u8, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn link(&self) -> u64 {
        self.near()
            .map_or(0, |near| near.link.load(Ordering::Relaxed))
    }

    /// The value that the peer's segment is known by, while it is [`Way::Unclaimed`].
    pub(crate) fn nonce(&self) -> u64 {
        self.link()
    }

    /// Whether it did not fail.
    ///
    /// # Safety
    /// `T` is false only where calls never overlap.
    #[inline(always)]
    pub(crate) unsafe fn is_well<const T: bool>(&self) -> bool {
        if T {
            self.failed.load(Ordering::Relaxed) == 0
        } else {
            // SAFETY: nobody else writes it during a call. A plain read is compared where it lies.
            unsafe { *self.failed.as_ptr() == 0 }
        }
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

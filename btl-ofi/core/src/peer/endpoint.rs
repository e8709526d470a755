//! The state of one peer: its address, its outstanding count, its failure, and its route.

use std::ptr;
use std::sync::atomic::{AtomicI16, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use libfabric_sys::fi_addr_t;
use plugin_api::Status;

use crate::peer::liveness::ProcessId;
use crate::peer::outstanding::{OutstandingCount, Pair, Phase, Total};
use crate::peer::route::{Atomics, Route, Transfers};
use crate::peer::share::{PAIRS, Share};

/// Mark of a peer to which an operation was posted through the provider against its route (device memory).
pub(crate) const OFF_ROUTE: u8 = 2;
/// Mark of a peer at which a part of an outstanding operation completed. The counts do not change until the whole operation
/// completes.
pub(crate) const PART: u8 = 8;
/// Mark of a peer to which an operation waits for a copy that this process makes. This time does not count as the peer's
/// silence.
pub(crate) const COPY: u8 = 16;
/// Mark of a peer whose address was removed from the provider's address vector.
pub(crate) const REMOVED: u8 = 32;

/// A peer. An endpoint takes 48 bytes, at an address that is a multiple of 16, so that operations can carry the address
/// with tag bits in their context pointer. The transport's table of peers owns the memory until the transport closes.
/// The memory of a released endpoint is not reused while a late completion may still name it. The endpoint of a local
/// peer is the first field of a `LocalPeer`.
#[repr(C, align(16))]
pub struct Endpoint {
    /// The peer's address in the provider's address vector.
    pub(crate) address: fi_addr_t,
    /// The peer's process number in the host's numbering.
    pub(crate) proc: u64,
    /// The operations outstanding to the peer. With several shares (`peer::share`), only the phase is used here.
    count: OutstandingCount,
    /// Number of operations without callback that failed since the last flush.
    pub(crate) lost: AtomicU32,
    /// 0, or the status that every further operation gets because the peer failed.
    failed: AtomicI16,
    /// Number of connects minus number of releases. The peers' lock guards the number.
    pub(super) connected: AtomicU16,
    /// The offset in bytes of the peer's slot of counters in a share (`peer::counters`).
    pub(crate) counters: u32,
    /// The process id of a local peer, whose endpoint is the first field of a [`LocalPeer`]; 0 for a remote peer.
    pid: u32,
    /// A value of [`Transfers`].
    transfers: AtomicU8,
    /// The peer's marks: [`OFF_ROUTE`], [`REMOVED`], and the marks of
    /// [`part_completed`](Endpoint::part_completed) and [`waits_for_copy`](Endpoint::waits_for_copy).
    marks: AtomicU8,
    /// The last share's number if there are several shares, otherwise 0.
    pub(super) last_share: u8,
    /// A value of [`Atomics`].
    atomics: AtomicU8,
}

/// A local peer, with the data for access to its process. A `LocalPeer` takes 64 bytes, one cache line.
#[repr(C, align(64))]
pub(crate) struct LocalPeer {
    pub(crate) endpoint: Endpoint,
    /// The nonce of the segment, or the address of the ring, depending on `atomics`.
    link: AtomicU64,
    /// The start time of the process (`ProcessId::started`).
    started: u32,
    /// The peer's descriptor of its segment, or 0.
    segment: u32,
}

const _: () = assert!(
    size_of::<Endpoint>() == 48 && size_of::<LocalPeer>() == 64,
    "docs/scale.md promises these bytes per peer"
);

impl LocalPeer {
    /// A local peer that is connected once. The peer's process id must not be 0. `segment` is the peer's descriptor of its
    /// segment and the segment's nonce, for [`Atomics::Unclaimed`].
    pub(crate) fn new(
        address: fi_addr_t,
        proc: u64,
        process: ProcessId,
        route: Route,
        (segment, nonce): (u32, u64),
    ) -> LocalPeer {
        LocalPeer {
            endpoint: Endpoint {
                pid: process.pid,
                ..Endpoint::new(address, proc, route)
            },
            link: AtomicU64::new(nonce),
            started: process.started,
            segment,
        }
    }
}

impl Endpoint {
    /// A remote peer that is connected once.
    pub(crate) fn new(address: fi_addr_t, proc: u64, route: Route) -> Endpoint {
        Endpoint {
            address,
            proc,
            count: OutstandingCount::new(),
            lost: AtomicU32::new(0),
            failed: AtomicI16::new(0),
            connected: AtomicU16::new(1),
            counters: 0,
            pid: 0,
            transfers: AtomicU8::new(route.transfers as u8),
            marks: AtomicU8::new(0),
            last_share: 0,
            atomics: AtomicU8::new(route.atomics as u8),
        }
    }

    /// The pair that counts a context's operations to this peer. `threaded` says whether calls may overlap.
    #[inline(always)]
    pub(crate) fn pair(&self, share: Share, threaded: bool) -> &Pair {
        let shared = match threaded {
            // SAFETY: contexts and the table of peers have the same shares (`Transport::open`).
            true => unsafe { share.pair_of(self) },
            false => None,
        };
        shared.unwrap_or(self.count.pair())
    }

    /// Counts an operation that is about to be posted; see [`OutstandingCount::raise`].
    #[inline(always)]
    pub(crate) fn raise(&self, share: Share, threaded: bool) -> Phase {
        self.count.raise(self.pair(share, threaded), threaded)
    }

    /// Whether no operation to the peer is outstanding; see [`Total::is_idle`].
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        match self.last_share {
            0 => self.count.total().is_idle(),
            _ => self.shares_are_idle(),
        }
    }

    #[inline(never)]
    fn shares_are_idle(&self) -> bool {
        self.total().is_idle()
    }

    /// The operations outstanding to the peer, over all shares.
    #[inline]
    pub(crate) fn total(&self) -> Total<'_> {
        if self.last_share == 0 {
            return self.count.total();
        }
        let pairs = usize::from(self.last_share) + 1;
        // SAFETY: the table set the number of its shares (`Endpoints::insert`).
        unsafe {
            let first = Share::of_several(0).pair_of(self);
            self.count.total_of(first.unwrap_unchecked(), pairs, PAIRS)
        }
    }

    /// Whether the peer is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed) > 0
    }

    /// Counts one more connect; `None` after 65,535. The caller holds the peers' lock.
    pub(crate) fn connect_again(&self) -> Option<()> {
        let more = self.connected.load(Ordering::Relaxed).checked_add(1)?;
        self.connected.store(more, Ordering::Relaxed);
        Some(())
    }

    /// Undoes one connect, unless it is the last one. Returns false for the last one. The caller holds the peers'
    /// lock.
    pub(crate) fn disconnect_unless_last(&self) -> bool {
        let connected = self.connected.load(Ordering::Relaxed);
        if connected > 1 {
            self.connected.store(connected - 1, Ordering::Relaxed);
        }
        // A rail's peer may have failed meanwhile, and is then not connected.
        connected != 1
    }

    /// The peer's process number in the host's numbering.
    pub fn proc(&self) -> u64 {
        self.proc
    }

    /// The [`LocalPeer`] whose first field is this endpoint, if the peer is local.
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

    /// The carrier of puts and gets.
    #[inline]
    pub(crate) fn transfers(&self) -> Transfers {
        match self.transfers.load(Ordering::Relaxed) {
            1 => Transfers::Kernel,
            2 => Transfers::Copy,
            3 => Transfers::Ring,
            4 => Transfers::Doubted,
            5 => Transfers::Message,
            _ => Transfers::Fabric,
        }
    }

    /// Whether the provider makes puts and gets.
    ///
    /// # Safety
    /// `T` is false only if calls never overlap.
    #[inline(always)]
    pub unsafe fn sends_transfers_by_fabric<const T: bool>(&self) -> bool {
        // SAFETY: the caller guarantees `T`.
        unsafe { is::<T>(&self.transfers, Transfers::Fabric as u8) }
    }

    /// Whether CMA makes puts and gets, or the peer through its ring.
    ///
    /// # Safety
    /// `T` is false only if calls never overlap.
    #[inline(always)]
    pub(crate) unsafe fn sends_transfers_on_node<const T: bool>(&self) -> bool {
        // SAFETY: the caller guarantees `T`.
        unsafe { is::<T>(&self.transfers, Transfers::Kernel as u8) }
    }

    /// Whether small puts and gets travel as messages.
    ///
    /// # Safety
    /// `T` is false only if calls never overlap.
    #[inline(always)]
    pub(crate) unsafe fn sends_transfers_by_message<const T: bool>(&self) -> bool {
        // SAFETY: the caller guarantees `T`.
        unsafe { is::<T>(&self.transfers, Transfers::Message as u8) }
    }

    /// Whether the peer has a ring for atomics and small transfers.
    ///
    /// # Safety
    /// `T` is false only if calls never overlap.
    #[inline(always)]
    pub(crate) unsafe fn has_ring<const T: bool>(&self) -> bool {
        // SAFETY: the caller guarantees `T`.
        unsafe { is::<T>(&self.atomics, Atomics::Ring as u8) }
    }

    /// Whether atomics travel as messages.
    ///
    /// # Safety
    /// `T` is false only if calls never overlap.
    #[inline(always)]
    pub(crate) unsafe fn sends_atomics_by_message<const T: bool>(&self) -> bool {
        // SAFETY: the caller guarantees `T`.
        unsafe { is::<T>(&self.atomics, Atomics::Message as u8) }
    }

    /// Whether the peer has a mark.
    pub(crate) fn has(&self, mark: u8) -> bool {
        self.marks.load(Ordering::Relaxed) & mark != 0
    }

    /// Marks the peer. Returns whether the peer had the mark already.
    pub(crate) fn mark(&self, mark: u8) -> bool {
        self.marks.fetch_or(mark, Ordering::Relaxed) & mark != 0
    }

    /// Removes a mark. Returns whether the peer had the mark.
    pub(crate) fn take_mark(&self, mark: u8) -> bool {
        self.has(mark) && self.marks.fetch_and(!mark, Ordering::Relaxed) & mark != 0
    }

    /// Records that a part of an operation to the peer completed, but not the whole operation.
    pub(crate) fn part_completed(&self) {
        self.mark_once(PART);
    }

    /// Records that an operation to the peer waits for a copy that this process makes, not for the
    /// peer.
    pub(crate) fn waits_for_copy(&self) {
        self.mark_once(COPY);
    }

    /// Adds a mark. Uses no locked instruction if the peer already has the mark.
    fn mark_once(&self, mark: u8) {
        if !self.has(mark) {
            self.mark(mark);
        }
    }

    /// Changes the carrier of puts and gets.
    pub(crate) fn set_transfers(&self, transfers: Transfers) {
        self.transfers.store(transfers as u8, Ordering::Relaxed);
    }

    /// The peer's descriptor of its segment; 0 without one, and for a remote peer.
    pub(crate) fn segment(&self) -> u32 {
        self.local_peer().map_or(0, |local| local.segment)
    }

    /// The process id of the peer for CMA, with [`Transfers::Kernel`].
    #[inline]
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The executor of atomics. The executor changes only from [`Atomics::Unclaimed`], under the lock of the
    /// rings.
    #[inline]
    pub(crate) fn atomics(&self) -> Atomics {
        match self.atomics.load(Ordering::Relaxed) {
            1 => Atomics::Own,
            2 => Atomics::Unclaimed,
            3 => Atomics::Ring,
            4 => Atomics::Message,
            _ => Atomics::Fabric,
        }
    }

    /// Whether the provider executes atomics.
    ///
    /// # Safety
    /// `T` is false only if calls never overlap.
    #[inline(always)]
    pub unsafe fn sends_atomics_by_fabric<const T: bool>(&self) -> bool {
        // SAFETY: the caller guarantees `T`.
        unsafe { is::<T>(&self.atomics, Atomics::Fabric as u8) }
    }

    /// Whether operations to the peer may be outstanding at the provider. Under the context's lock, `false` is final for a
    /// peer whose ring is claimed, except for posts against its route. These posts check under the lock that the endpoints
    /// are open.
    pub(crate) fn uses_provider(&self) -> bool {
        matches!(self.transfers(), Transfers::Fabric | Transfers::Message)
            || matches!(self.atomics(), Atomics::Fabric | Atomics::Message)
            || self.has(OFF_ROUTE)
    }

    /// Fixes the executor of atomics, together with the value of [`link`](LocalPeer::link) for it.
    pub(crate) fn settle_atomics(&self, atomics: Atomics, link: u64) {
        if let Some(local) = self.local_peer() {
            local.link.store(link, Ordering::Relaxed);
        }
        self.atomics.store(atomics as u8, Ordering::Relaxed);
    }

    /// [`LocalPeer::link`].
    ///
    /// # Safety
    /// The peer is local.
    #[inline(always)]
    pub(crate) unsafe fn link_of_local(&self) -> u64 {
        // SAFETY: the caller guarantees that the peer is local, so it has this field.
        let local = unsafe { self.local_peer().unwrap_unchecked() };
        local.link.load(Ordering::Relaxed)
    }

    /// The nonce of the peer's segment, for [`Atomics::Unclaimed`].
    pub(crate) fn nonce(&self) -> u64 {
        self.local_peer()
            .map_or(0, |local| local.link.load(Ordering::Relaxed))
    }

    /// Whether the peer has not failed.
    ///
    /// # Safety
    /// `T` is false only if calls never overlap.
    #[inline(always)]
    pub(crate) unsafe fn is_well<const T: bool>(&self) -> bool {
        if T {
            self.failed.load(Ordering::Relaxed) == 0
        } else {
            // SAFETY: if `T` is false, calls do not overlap, so no other thread writes the field during this call. A
            // plain read compiles to a compare with memory.
            unsafe { *self.failed.as_ptr() == 0 }
        }
    }

    /// The status that operations to this peer get because it failed; `None` if it has not failed.
    #[inline]
    pub fn failure(&self) -> Option<Status> {
        match self.failed.load(Ordering::Relaxed) {
            0 => None,
            code => Some(Status(i32::from(code))),
        }
    }

    /// Marks the peer as failed. The peer's operations end with this status from now on. Returns false if the
    /// peer had already failed.
    pub(crate) fn fail(&self, status: Status) -> bool {
        const { assert!(Status::NOT_INITIALIZED.0 == Status::NOT_INITIALIZED.0 as i16 as i32) };
        // Release pairs with the fence in `wait_for_reports`.
        let (set, fetch) = (Ordering::Release, Ordering::Relaxed);
        self.failed
            .compare_exchange(0, status.0 as i16, set, fetch)
            .is_ok()
    }
}

/// Whether a field has this value.
///
/// # Safety
/// `T` is false only if calls never overlap.
#[inline(always)]
unsafe fn is<const T: bool>(field: &AtomicU8, value: u8) -> bool {
    if T {
        field.load(Ordering::Relaxed) == value
    } else {
        // SAFETY: if `T` is false, calls do not overlap, so no other thread writes the field during this call. A plain
        // read compiles to a compare with memory.
        unsafe { *field.as_ptr() == value }
    }
}

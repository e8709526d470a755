//! The parts of a window that are freed with it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bounce::PackedBytes;
use super::btl::gathers::Gathers;
use super::busy::BusyPeers;
use super::control::Control;
use super::device::neighbours::Neighbours;
use super::dynamic::refused::Refused;
use super::dynamic::regions::Attached;
use super::peers::Peers;
use super::pending::Pending;
use super::request::request_state::RequestPool;
use super::shm::shared::Shared;
use super::slots::Slots;
use super::types::TypeTable;
use crate::base::{Pages, Segment};
use crate::door::DeviceBuffer;
use crate::transport::Registration;

/// This rank's memory in a window.
pub(super) struct Exposed {
    pub(super) base: *mut u8,
    pub(super) len: usize,
    /// The kind of memory, one of [`plugin_api::hmem_iface`].
    pub(super) iface: u32,
    /// The data that other processes of this node need to open the memory; empty if they cannot.
    pub(super) exported: Vec<u8>,
    // Before `memory`: fields drop in this order, and a registration must not outlive its memory.
    pub(super) registration: Option<Registration>,
    pub(super) memory: Memory,
}

/// The owner of a rank's memory.
pub(super) enum Memory {
    /// The caller, the segment that all ranks share, or no owner.
    Elsewhere,
    /// The window.
    #[expect(dead_code, reason = "held to be dropped with the rest")]
    Pages(Pages),
    /// The segment of this node's ranks.
    Segment(Segment),
    /// A device.
    #[expect(dead_code, reason = "held so that both are dropped with the rest")]
    Device {
        memory: Box<dyn DeviceBuffer>,
        /// The segment of this node's other ranks, for access to their memory.
        beside: Option<Segment>,
    },
}

impl Exposed {
    /// Closes the file of the node's segment once all ranks have opened it. The transport also has the file open
    /// if it needs it.
    pub(super) fn close_segment(&mut self) {
        if let Memory::Segment(segment)
        | Memory::Device {
            beside: Some(segment),
            ..
        } = &mut self.memory
        {
            segment.close();
        }
    }

    /// The handle's bytes; none if nothing is registered.
    pub(super) fn handle_bytes(&self) -> Vec<u8> {
        self.registration
            .as_ref()
            .map_or(Vec::new(), |registration| {
                registration.handle_bytes().to_vec()
            })
    }
}

// SAFETY: the pointer is only handed out, or used for bounded copies that the methods document.
unsafe impl Send for Exposed {}
// SAFETY: as for Send.
unsafe impl Sync for Exposed {}

/// Synchronisation state of this rank alone.
#[derive(Default)]
pub(super) struct SyncState {
    /// Barriers entered, in a segment with those of its earlier windows.
    pub(super) barriers: AtomicU64,
    /// Number of completions that all exposure epochs so far await.
    pub(super) completions_due: AtomicU64,
    /// The group of the open start epoch.
    pub(super) group: Mutex<Vec<usize>>,
    /// Calls that completed operations, in a dynamic window.
    completions: AtomicU64,
    /// Peers with outstanding operations.
    pub(super) busy: BusyPeers,
    /// Outstanding notifications to peers.
    pub(super) notices: Pending,
    /// Released locks whose targets have not answered.
    pub(super) releases: Pending,
}

impl SyncState {
    /// The state of a new window in a segment that had `barriers` barriers before.
    pub(super) fn after(barriers: u64) -> SyncState {
        SyncState {
            barriers: AtomicU64::new(barriers),
            ..SyncState::default()
        }
    }

    /// Number of calls that have completed operations of this rank.
    pub(super) fn completions(&self) -> u64 {
        self.completions.load(Ordering::SeqCst)
    }

    /// Makes the next operation to each target of a dynamic window read the target's regions again.
    pub(super) fn count_completion(&self) {
        self.completions.fetch_add(1, Ordering::SeqCst);
    }
}

/// Parts that are dropped after the window was freed. Without `free` none may be dropped: peers may still write
/// to them (see [`super::remains`]).
pub(super) struct Parts {
    pub(super) exposed: Exposed,
    pub(super) control: Control,
    /// The segment, if all ranks of the window share it.
    pub(super) shared: Option<Shared>,
    /// A copy of the context's, a load nearer for accumulates.
    pub(super) types: TypeTable,
    pub(super) attached: Attached,
    pub(super) peers: Peers,
    pub(super) neighbours: Neighbours,
    pub(super) slots: Slots,
    pub(super) requests: RequestPool,
    pub(super) packed: PackedBytes,
    pub(super) sync: SyncState,
    pub(super) gathers: Gathers,
    pub(super) refused: Refused,
}

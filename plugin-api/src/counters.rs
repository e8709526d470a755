//! The counters of a running transport, which other processes of the same user may read.
//!
//! This module holds the layout that writer and reader share. A transport keeps its counters in a file in memory
//! (`memfd`) named [`NAME`]. A reader finds the file among the descriptors in `/proc/<pid>/fd`, which the kernel opens only
//! for processes that may trace that one, checks its first words ([`Unreadable`]), and reads it. No lock is taken: each
//! word by itself is correct, and words may differ by the operations in flight.

use std::ffi::CStr;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The name of the file.
pub const NAME: &CStr = c"btl-ofi-counters";
/// The first word of the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"BTLCOUNT");
/// Identifies this layout. Another layout has another version.
pub const VERSION: u32 = 2;
/// Slots of a share: one for all peers without counters of their own, and 4,094 of one peer each.
pub const SLOTS: usize = 4095;
/// Most shares: with `MPI_THREAD_MULTIPLE`, each context of a transport has one.
pub const SHARES: usize = 256;
/// The value of [`PeerCounters::proc`] in a slot of no peer.
pub const NO_PEER: u64 = u64::MAX;

/// The carrier of an operation to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Carrier {
    /// The provider's RMA and atomics.
    Provider,
    /// A message, which the target's processor executes.
    Message,
    /// A ring in shared memory, which the target's processor executes.
    Ring,
    /// Cross-memory attach: the kernel copies.
    Cma,
    /// Instructions of this process: on its own memory, or on memory of a local peer that it maps.
    Copy,
}

/// Number of [`Carrier`]s.
pub const CARRIERS: usize = 5;

impl Carrier {
    /// All carriers, in the order of their counters.
    pub const ALL: [Carrier; CARRIERS] = [
        Carrier::Provider,
        Carrier::Message,
        Carrier::Ring,
        Carrier::Cma,
        Carrier::Copy,
    ];

    /// Its name in tables and parameters.
    pub const fn name(self) -> &'static str {
        match self {
            Carrier::Provider => "provider",
            Carrier::Message => "message",
            Carrier::Ring => "ring",
            Carrier::Cma => "cma",
            Carrier::Copy => "copy",
        }
    }
}

/// The counts of one carrier for one peer.
#[repr(C)]
#[derive(Debug)]
pub struct Carried {
    /// Puts, gets and atomics.
    pub operations: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
}

/// The counters of one peer: two cache lines.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct PeerCounters {
    /// The peer in the host's numbering, or [`NO_PEER`]. Only in the first share.
    pub proc: AtomicU64,
    /// The operations of each [`Carrier`].
    pub carried: [Carried; CARRIERS],
    /// Operations that were refused for lack of room, to be repeated by the caller.
    pub again: AtomicU64,
    /// Ring transfers that the target did not begin in time, and that the kernel then made.
    pub revoked: AtomicU64,
    /// Messages sent, each with one or more commands.
    pub messages: AtomicU64,
    /// Flushes that found nothing to do for a microsecond or so.
    pub waits: AtomicU64,
    /// The time that these flushes waited, in nanoseconds.
    pub waited: AtomicU64,
}

/// The beginning of the file.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Front {
    /// [`MAGIC`], written last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// Slots that are or were in use, counted from 0.
    pub used: AtomicU32,
    /// Number of shares.
    pub shares: AtomicU32,
    /// The provider and its interface, as UTF-8 that zeros end.
    pub title: [AtomicU8; 128],
    /// The id, in its own namespace, of the process that has the transport. A forked child has the file open, too. 0 in
    /// files of older transports.
    pub owner: AtomicU32,
}

/// The counts of one context for each operation, on cache lines that no other context writes for this purpose. A peer has the
/// same slot in each share; only the first share names the peer and counts waits.
#[repr(C)]
#[derive(Debug)]
pub struct Share {
    /// Calls that made progress.
    pub polls: AtomicU64,
    /// Slot 0 counts for all peers without a slot of their own, and waits for all peers at once.
    pub peers: [PeerCounters; SLOTS],
}

/// The beginning of a share in the file, in bytes: shares follow the [`Front`]. The file ends with the last
/// share.
pub const fn start_of(share: usize) -> usize {
    size_of::<Front>() + share * size_of::<Share>()
}

const _: () = assert!(size_of::<PeerCounters>() == 128 && size_of::<Front>() == 4096);
const _: () = assert!(size_of::<Share>() == 512 << 10);

/// The reason why a file has no counters that this version can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The file is no such file, or its writer has not finished it.
    NoCounters,
    /// The file has the layout of another version.
    Version(u32),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::NoCounters => f.write_str("these are no counters of a transport"),
            Unreadable::Version(theirs) => write!(
                f,
                "the counters have version {theirs}, and this program reads version {VERSION}: use the host-stub \
                 of the same release as the transport"
            ),
        }
    }
}

impl std::error::Error for Unreadable {}

impl Front {
    /// The provider and its interface.
    pub fn title(&self) -> String {
        let bytes: Vec<u8> = self
            .title
            .iter()
            .map(|byte| byte.load(Ordering::Relaxed))
            .take_while(|byte| *byte != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

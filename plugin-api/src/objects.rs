//! The arguments of a module's functions: opaque objects, callbacks, flags and the record of
//! counts.

use std::ffi::{c_char, c_void};

use bitflags::bitflags;

use crate::counters::CARRIERS;
use crate::{Module, TableHeader, magic};

/// A component; opaque to the host.
#[repr(C)]
pub struct Component {
    _private: [u8; 0],
}

/// A peer as one module sees it; opaque to the host.
#[repr(C)]
pub struct Endpoint {
    _private: [u8; 0],
}

/// A registration handle: [`Attributes::handle_size`](crate::Attributes::handle_size) plain bytes at an 8-byte aligned address.
/// The host copies these bytes to peers, and a peer passes its copy as `remote_handle`.
#[repr(C)]
pub struct Handle {
    _private: [u8; 0],
}

/// Runs once, when an operation completed or failed. `status` is a [`Status`](crate::Status) code: 0 means that the data is visible at
/// the target (put, update) or at `local_address` (get, fetch), and that the caller may reuse the local buffer. The
/// other arguments are those of the call.
pub type CompletionFn = unsafe extern "C" fn(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    local_handle: *mut Handle,
    context: *mut c_void,
    data: *mut c_void,
    status: i32,
);

/// Runs when an operation without callback, a peer or the whole module failed. `endpoint` is NULL for the whole module;
/// `info` is one line of text, borrowed for the call.
pub type ErrorFn = unsafe extern "C" fn(
    module: *mut Module,
    flags: u32,
    endpoint: *mut Endpoint,
    proc: u64,
    status: i32,
    info: *const c_char,
    context: *mut c_void,
);

/// Receives a message that a peer sent. `endpoint` is the sender, or NULL if this process has not added it. The `size` bytes
/// at `data`, which is aligned to 8, are valid during the call. The function may send and post operations, but must not
/// wait, because no further message arrives until it returns.
pub type ReceiveFn = unsafe extern "C" fn(
    module: *mut Module,
    endpoint: *mut Endpoint,
    tag: u8,
    data: *const c_void,
    size: usize,
    context: *mut c_void,
);

/// A message that is to be sent: first the bytes at `data`, which the caller writes, then the bytes at `source`, which are
/// sent from their place. The module owns the memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Aligned to 8.
    pub data: *mut c_void,
    /// Bytes at `data`; the caller may make it smaller.
    pub size: usize,
    /// NULL: none.
    pub source: *const c_void,
    /// Bytes at `source`.
    pub source_size: usize,
}

bitflags! {
    /// The severity of an error, with the bits of `MCA_BTL_ERROR_FLAGS_*`.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ErrorFlags: u32 {
        /// The module can no longer be used.
        const FATAL = 1;
        /// One operation or one peer failed.
        const NONFATAL = 2;
    }
}

bitflags! {
    /// Rights on registered memory, with the bits of `MCA_BTL_REG_FLAG_*`.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u32 {
        /// Gets and fetches of this process write it.
        const LOCAL_WRITE = 0x1;
        /// Peers read the memory.
        const REMOTE_READ = 0x2;
        /// Peers write the memory.
        const REMOTE_WRITE = 0x4;
        /// Peers update the memory atomically.
        const REMOTE_ATOMIC = 0x8;
    }
}

/// Beside the rights of [`Access`], for `register_mem` of modules with [`ModuleFlags::SOLE_ATOMICS`](crate::ModuleFlags::SOLE_ATOMICS):
/// while peers change elements of the memory, only atomics of this module change elements. So the module need not use the
/// processor's atomics. Not a BTL flag.
pub const SOLE_ATOMICS: u32 = 0x10;

bitflags! {
    /// Flags of one atomic, with the bits of `MCA_BTL_ATOMIC_FLAG_*`.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpFlags: u32 {
        /// Operands have 32 bits, in the low half of the 64-bit arguments.
        const WORD_32 = 0x1;
        /// Operands are floating point.
        const FLOAT = 0x2;
        /// Not a BTL flag; libfabric's `FI_FENCE`. The target executes the atomic behind every operation that this module posted
        /// to the endpoint before. If the module cannot promise this without a wait, the call returns
        /// [`Status::NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED) and has no effect: the caller may [flush](crate::ModuleVtable::flush) and
        /// post the atomic without the flag.
        const FENCE = 0x1_0000;
        /// Not a BTL flag. As [`FENCE`](Self::FENCE), and no operation before the atomic uses a local buffer any more: the
        /// module has copied their bytes, and none of them fetches. With the next call of progress they and the atomic reach
        /// the network, so the target sees the atomic even if this process then computes for long. Otherwise the call is
        /// refused alike.
        const COPIED = 0x2_0000;
        /// Not a BTL flag. Nobody waits for the atomic and for the operations that were posted to the endpoint before, so the
        /// target may report their completion later, with a message of its own.
        const UNAWAITED = 0x4_0000;
    }
}

bitflags! {
    /// Flags of one put or get. For modules with [`ModuleFlags::CHECKS_KEYS`](crate::ModuleFlags::CHECKS_KEYS) only; other
    /// modules ignore these flags. Not BTL flags.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TransferFlags: u32 {
        /// The remote handle may be of a registration that ended. The target's processor checks the handle: the operation fails
        /// with [`Status::PERM`](crate::Status::PERM) if the registration ended, and no part of it was executed then. If
        /// another carrier would make the transfer, the call returns [`Status::NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED)
        /// and has no effect.
        const CHECKED = 0x1;
    }
}

/// Counts since `init`. The module keeps running while it reads the counts, so sums may differ by the operations in
/// flight.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// [`magic::STATS`]; the caller sets `size`, the plugin writes no further.
    pub header: TableHeader,
    /// Operations posted to the provider.
    pub posted: u64,
    /// Operations that completed and whose callback, if any, has run.
    pub completed: u64,
    /// Operations that failed after they were posted.
    pub failed: u64,
    /// Posts that the provider refused for lack of room (EAGAIN).
    pub again: u64,
    /// Live registrations.
    pub registrations: u64,
    /// Live endpoints.
    pub endpoints: u64,
    /// Operations by [`Carrier`](crate::counters::Carrier). This field and the fields below are in ABI 1.3
    /// and later.
    pub operations: [u64; CARRIERS],
    /// Their bytes.
    pub bytes: [u64; CARRIERS],
    /// Ring transfers that the target did not begin in time, and that the kernel then made.
    pub revoked: u64,
    /// Messages sent, each with one or more commands.
    pub messages: u64,
    /// Flushes that found nothing to do for a microsecond or so.
    pub waits: u64,
    /// The time that these flushes waited, in nanoseconds.
    pub waited: u64,
    /// Calls that made progress.
    pub polls: u64,
}

impl Stats {
    /// The record's size in ABI 1.0.
    pub const MIN_SIZE: usize = std::mem::offset_of!(Stats, operations);

    /// A zeroed record with its header.
    pub const fn new() -> Self {
        Stats {
            header: TableHeader::of::<Stats>(magic::STATS),
            posted: 0,
            completed: 0,
            failed: 0,
            again: 0,
            registrations: 0,
            endpoints: 0,
            operations: [0; CARRIERS],
            bytes: [0; CARRIERS],
            revoked: 0,
            messages: 0,
            waits: 0,
            waited: 0,
            polls: 0,
        }
    }
}

impl Default for Stats {
    fn default() -> Self {
        Self::new()
    }
}

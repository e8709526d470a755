//! A module's capabilities and limits.

use std::ffi::c_char;

use bitflags::bitflags;

use crate::{AbiError, TableHeader, magic};

bitflags! {
    /// Capabilities of a module, with the bits of `MCA_BTL_FLAGS_*`.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct ModuleFlags: u32 {
        /// `send` works.
        const SEND = 0x1;
        /// `put` works.
        const PUT = 0x2;
        /// `get` works.
        const GET = 0x4;
        /// A completion means that the data is visible at the target
        /// (`MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION` of BTL 3.3).
        const RDMA_REMOTE_COMPLETION = 0x80_0000;
        /// `atomic_op` works for at least one operation.
        const ATOMIC_OPS = 0x8000;
        /// `atomic_fop` works for at least one operation.
        const ATOMIC_FOPS = 0x10000;
        /// `flush` works.
        const RDMA_FLUSH = 0x80000;
        /// Typed AMOs from one origin to one target address take effect in the order of issue, so the host need not
        /// wait between them. Exception: if the target's memory is on the host and the operands are on a device, the
        /// plugin may copy the operands after the call, and later AMOs may take effect before such an AMO. Not a BTL flag.
        const ATOMICS_ORDERED = 0x4000_0000;
        /// `apply` reaches every peer. Without this flag, it may reach some peers. Not a BTL flag.
        const APPLIES = 0x2000_0000;
        /// This process's calls execute the atomics of all peers, so that `register_mem` takes
        /// [`SOLE_ATOMICS`](crate::SOLE_ATOMICS). Not a BTL flag.
        const SOLE_ATOMICS = 0x0800_0000;
        /// `apply` takes puts and gets of several runs ([`APPLY_BYTES`](crate::APPLY_BYTES)) to peers whose small puts the
        /// target's processor makes; for other peers it returns [`Status::NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED). Not a
        /// BTL flag.
        const SCATTERS = 0x1000_0000;
        /// `put` and `get` know [`TransferFlags::CHECKED`](crate::TransferFlags::CHECKED). Not a BTL flag.
        const CHECKS_KEYS = 0x0400_0000;
        /// Puts and gets complete without any call by the target. Not a BTL flag.
        const RDMA_PASSIVE_TARGET = 0x8000_0000;
    }
}

bitflags! {
    /// Supported operations of `atomic_op`, `atomic_fop` and `atomic_cswap`, with the bits of
    /// `MCA_BTL_ATOMIC_SUPPORTS_*`. Each bit holds for 64-bit operands, and also for 32-bit operands if
    /// [`AtomicFlags::WORD_32`] is set.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct AtomicFlags: u32 {
        /// Sum.
        const ADD = 0x1;
        /// Bitwise and.
        const AND = 0x200;
        /// Bitwise or.
        const OR = 0x400;
        /// Bitwise exclusive or.
        const XOR = 0x800;
        /// Logical and.
        const LAND = 0x1000;
        /// Logical or.
        const LOR = 0x2000;
        /// Logical exclusive or.
        const LXOR = 0x4000;
        /// Replace.
        const SWAP = 0x1_0000;
        /// Minimum.
        const MIN = 0x10_0000;
        /// Maximum.
        const MAX = 0x20_0000;
        /// 32-bit operands.
        const WORD_32 = 0x100_0000;
        /// Floating-point operands.
        const FLOAT = 0x200_0000;
        /// Compare and swap.
        const CSWAP = 0x1000_0000;
        /// The module's atomics are atomic also with respect to the target's processor.
        const GLOB = 0x2000_0000;
    }
}

/// Capabilities and limits of a module; constant for the module's life.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Attributes {
    /// [`magic::ATTRIBUTES`].
    pub header: TableHeader,
    /// [`ModuleFlags`].
    pub flags: u32,
    /// [`AtomicFlags`].
    pub atomic_flags: u32,
    /// Largest put, bytes.
    pub put_limit: u64,
    /// Largest get, bytes.
    pub get_limit: u64,
    /// Alignment of addresses and sizes of puts; 0 and 1 mean none.
    pub put_alignment: u64,
    /// Alignment of addresses and sizes of gets; 0 and 1 mean none.
    pub get_alignment: u64,
    /// Puts of at most this many bytes need no local handle.
    pub put_local_registration_threshold: u64,
    /// Gets of at most this many bytes need no local handle.
    pub get_local_registration_threshold: u64,
    /// Bytes of a registration handle: a multiple of 8, position-independent.
    pub handle_size: u64,
    /// Approximate latency of a small put, microseconds.
    pub latency: u32,
    /// Approximate bandwidth, Mbit/s.
    pub bandwidth: u32,
    /// Preference among transports; higher wins.
    pub exclusivity: u32,
    /// Transmit contexts in use.
    pub contexts: u32,
    /// Provider, as `fi_info` prints it. Valid as long as the module.
    pub provider: *const c_char,
    /// Domain (device), as `fi_info` prints it. Valid as long as the module.
    pub domain: *const c_char,
    /// The way in which the module ensures remote visibility, one line of text. Valid as long as
    /// the module.
    pub completion: *const c_char,
}

// SAFETY: plain data; the strings it points to are constant for the module's life.
unsafe impl Send for Attributes {}
// SAFETY: plain data that never changes; the strings it points to are constant for the module's life.
unsafe impl Sync for Attributes {}

impl Attributes {
    /// The table's size in ABI 1.0.
    pub const MIN_SIZE: usize = size_of::<Attributes>();

    /// Checks the attributes of a module.
    ///
    /// # Safety
    /// `table` is NULL or points to a readable [`TableHeader`] followed by the bytes it declares.
    pub unsafe fn check<'a>(table: *const Attributes) -> Result<&'a Attributes, AbiError> {
        if table.is_null() {
            return Err(AbiError::NullTable {
                table: "attributes",
            });
        }
        // SAFETY: the caller guarantees a readable header, and `table` is not NULL.
        let header = unsafe { *table.cast::<TableHeader>() };
        header.check("attributes", magic::ATTRIBUTES, Self::MIN_SIZE)?;
        // SAFETY: the header declares at least MIN_SIZE bytes, which is this whole type.
        Ok(unsafe { &*table })
    }
}

//! The capability bits that the component declares to Open MPI, and compile-time checks that each bit has the same
//! meaning in the transport and in Open MPI.

use plugin_api::{Access, AtomicFlags, ErrorFlags, ModuleFlags, OpFlags};

use crate::bindings as ffi;
use crate::series;

/// The flags that the component can declare. A provider may offer less, and `btl_ofi_flags` may remove some.
pub(crate) const FLAGS: u32 = ModuleFlags::SEND.bits()
    | ModuleFlags::PUT.bits()
    | ModuleFlags::GET.bits()
    | ModuleFlags::ATOMIC_OPS.bits()
    | ModuleFlags::ATOMIC_FOPS.bits()
    | ModuleFlags::RDMA_FLUSH.bits()
    | series::REMOTE_COMPLETION;

/// Asserts that a flag has the same bit on both sides.
macro_rules! same_bits {
    ($($ours:expr => $theirs:ident,)*) => {
        $(const _: () = assert!($ours.bits() == ffi::$theirs, stringify!($theirs));)*
    };
}

same_bits! {
    ModuleFlags::SEND => MCA_BTL_FLAGS_SEND,
    ModuleFlags::PUT => MCA_BTL_FLAGS_PUT,
    ModuleFlags::GET => MCA_BTL_FLAGS_GET,
    ModuleFlags::ATOMIC_OPS => MCA_BTL_FLAGS_ATOMIC_OPS,
    ModuleFlags::ATOMIC_FOPS => MCA_BTL_FLAGS_ATOMIC_FOPS,
    ModuleFlags::RDMA_FLUSH => MCA_BTL_FLAGS_RDMA_FLUSH,
    ErrorFlags::FATAL => MCA_BTL_ERROR_FLAGS_FATAL,
    AtomicFlags::ADD => MCA_BTL_ATOMIC_SUPPORTS_ADD,
    AtomicFlags::AND => MCA_BTL_ATOMIC_SUPPORTS_AND,
    AtomicFlags::OR => MCA_BTL_ATOMIC_SUPPORTS_OR,
    AtomicFlags::XOR => MCA_BTL_ATOMIC_SUPPORTS_XOR,
    AtomicFlags::LAND => MCA_BTL_ATOMIC_SUPPORTS_LAND,
    AtomicFlags::LOR => MCA_BTL_ATOMIC_SUPPORTS_LOR,
    AtomicFlags::LXOR => MCA_BTL_ATOMIC_SUPPORTS_LXOR,
    AtomicFlags::SWAP => MCA_BTL_ATOMIC_SUPPORTS_SWAP,
    AtomicFlags::MIN => MCA_BTL_ATOMIC_SUPPORTS_MIN,
    AtomicFlags::MAX => MCA_BTL_ATOMIC_SUPPORTS_MAX,
    AtomicFlags::WORD_32 => MCA_BTL_ATOMIC_SUPPORTS_32BIT,
    AtomicFlags::FLOAT => MCA_BTL_ATOMIC_SUPPORTS_FLOAT,
    AtomicFlags::CSWAP => MCA_BTL_ATOMIC_SUPPORTS_CSWAP,
    AtomicFlags::GLOB => MCA_BTL_ATOMIC_SUPPORTS_GLOB,
    OpFlags::WORD_32 => MCA_BTL_ATOMIC_FLAG_32BIT,
    OpFlags::FLOAT => MCA_BTL_ATOMIC_FLAG_FLOAT,
    Access::LOCAL_WRITE => MCA_BTL_REG_FLAG_LOCAL_WRITE,
    Access::REMOTE_READ => MCA_BTL_REG_FLAG_REMOTE_READ,
    Access::REMOTE_WRITE => MCA_BTL_REG_FLAG_REMOTE_WRITE,
    Access::REMOTE_ATOMIC => MCA_BTL_REG_FLAG_REMOTE_ATOMIC,
    Access::all() => MCA_BTL_REG_FLAG_ACCESS_ANY,
}

const _: () = assert!(
    series::REMOTE_COMPLETION == 0
        || series::REMOTE_COMPLETION == ModuleFlags::RDMA_REMOTE_COMPLETION.bits()
);

/// Atomics that are never declared: osc/rdma would send 8-byte complex numbers as floating point, and floating-point
/// operands through integer buffers; and it does not say whether a minimum or maximum is of signed words. osc/rdma
/// makes all of these under its own lock instead.
pub(crate) const NOT_DECLARED: AtomicFlags = AtomicFlags::FLOAT
    .union(AtomicFlags::MIN)
    .union(AtomicFlags::MAX);

//! The functions of a module: where bytes move.

use std::ffi::{c_char, c_void};

use bitflags::bitflags;

use crate::header::require_entries;
use crate::{AbiError, Attributes, HmemInfo, IoVec, OverrideOps, Status, TableHeader, magic};

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

/// A registration handle: [`Attributes::handle_size`] plain bytes at an 8-byte aligned address.
/// The host copies them to peers, which pass their copy as `remote_handle`.
#[repr(C)]
pub struct Handle {
    _private: [u8; 0],
}

/// A module. What follows these two pointers belongs to the plugin.
#[repr(C)]
pub struct Module {
    /// Never NULL, valid until the module is finalised.
    pub vtable: *const ModuleVtable,
    /// Never NULL, valid until the module is finalised.
    pub attributes: *const Attributes,
}

/// Runs once when an operation completed or failed. `status` is a [`Status`] code: 0 means that the
/// data is visible at the target (put, update) or at `local_address` (get, fetch), and that the
/// local buffer may be reused. The other arguments are those of the call.
pub type CompletionFn = unsafe extern "C" fn(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    local_handle: *mut Handle,
    context: *mut c_void,
    data: *mut c_void,
    status: i32,
);

/// Runs when an operation without callback failed, or a peer or the whole module did.
/// `endpoint` is NULL for the whole module; `info` is a line for people, borrowed for the call.
pub type ErrorFn = unsafe extern "C" fn(
    module: *mut Module,
    flags: u32,
    endpoint: *mut Endpoint,
    proc: u64,
    status: i32,
    info: *const c_char,
    context: *mut c_void,
);

bitflags! {
    /// How bad an error is, with the bits of `MCA_BTL_ERROR_FLAGS_*`.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ErrorFlags: u32 {
        /// The module can no longer be used.
        const FATAL = 1;
        /// One operation or one peer.
        const NONFATAL = 2;
    }
}

bitflags! {
    /// What remote peers may do with registered memory, with the bits of `MCA_BTL_REG_FLAG_*`.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u32 {
        /// This process writes it with gets and fetches.
        const LOCAL_WRITE = 0x1;
        /// Peers read it.
        const REMOTE_READ = 0x2;
        /// Peers write it.
        const REMOTE_WRITE = 0x4;
        /// Peers update it atomically.
        const REMOTE_ATOMIC = 0x8;
    }
}

bitflags! {
    /// Flags of one atomic, with the bits of `MCA_BTL_ATOMIC_FLAG_*`.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpFlags: u32 {
        /// Operands have 32 bits, in the low half of the 64-bit arguments.
        const WORD_32 = 0x1;
        /// Operands are floating point.
        const FLOAT = 0x2;
    }
}

/// Counts since `init`. Read without stopping the module, so sums may be off by operations in flight.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// [`magic::STATS`]; the caller sets `size`, the plugin writes no further.
    pub header: TableHeader,
    /// Operations handed to the provider.
    pub posted: u64,
    /// Operations that completed, and whose callback was run where they have one.
    pub completed: u64,
    /// Operations that failed after they were posted.
    pub failed: u64,
    /// Posts that the provider turned away for lack of room.
    pub again: u64,
    /// Registrations that live now.
    pub registrations: u64,
    /// Peers that live now.
    pub endpoints: u64,
}

impl Stats {
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
        }
    }
}

impl Default for Stats {
    fn default() -> Self {
        Self::new()
    }
}

/// The functions of a module.
///
/// Operations (`put`, `get` and all atomics) return [`Status::SUCCESS`] when under way. On any
/// other status nothing was done and no callback runs: [`Status::TEMP_OUT_OF_RESOURCE`] asks for
/// progress and another try, [`Status::NOT_SUPPORTED`] means that the provider does not serve it,
/// [`Status::UNREACH`] that the peer is gone. A `callback` may be NULL; then `flush` is the only
/// way to learn of completion. Local buffers stay untouched by the caller until completion.
/// `order` is reserved and passed as 255 (`MCA_BTL_NO_ORDER`). `remote_address` is the virtual
/// address in the target's process, `remote_handle` the bytes of the handle made there.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(clippy::type_complexity, reason = "the shapes are btl.h's")]
pub struct ModuleVtable {
    /// [`magic::MODULE`].
    pub header: TableHeader,
    /// Makes endpoints for `count` processes; writes NULL for one that cannot be reached. A process
    /// that is known already gets its existing endpoint, counted once more. The process itself is a
    /// peer like any other.
    pub add_procs: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            count: usize,
            procs: *const u64,
            endpoints: *mut *mut Endpoint,
        ) -> Status,
    >,
    /// Releases endpoints, after their outstanding operations ended.
    pub del_procs: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            count: usize,
            endpoints: *const *mut Endpoint,
        ) -> Status,
    >,
    /// Registers memory for [`Access`]; `endpoint` may be NULL. The handle belongs to the module
    /// until `deregister_mem`, and carries the rights: an operation on a peer's copy that they do not
    /// allow is refused by its call, with [`Status::PERM`] and nothing done. For an atomic that is
    /// [`Access::REMOTE_ATOMIC`]; a plugin may also be content with the rights of what it does, reading,
    /// writing or both. [`Status::OUT_OF_RESOURCE`]: the provider has no room.
    pub register_mem: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            endpoint: *mut Endpoint,
            base: *mut c_void,
            size: usize,
            access: u32,
            handle: *mut *mut Handle,
        ) -> Status,
    >,
    /// Ends a registration. [`Status::BAD_PARAM`]: not a live handle of this module. Peers must have
    /// completed their operations on it, and begin none after it: what becomes of one that a peer begins
    /// nevertheless, with its copy of the handle, depends on the way that it takes. It may be refused, or
    /// reach the memory as long as that is mapped, or another registration that was given the same key. So
    /// the host tells the peers before, and keeps the memory until they know.
    pub deregister_mem:
        Option<unsafe extern "C" fn(module: *mut Module, handle: *mut Handle) -> Status>,
    /// Writes `size` bytes. `local_handle` may be NULL up to the local registration threshold.
    pub put: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            endpoint: *mut Endpoint,
            local_address: *mut c_void,
            remote_address: u64,
            local_handle: *mut Handle,
            remote_handle: *const Handle,
            size: usize,
            flags: u32,
            order: i32,
            callback: Option<CompletionFn>,
            context: *mut c_void,
            data: *mut c_void,
        ) -> Status,
    >,
    /// Reads `size` bytes. `local_handle` may be NULL up to the local registration threshold.
    pub get: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            endpoint: *mut Endpoint,
            local_address: *mut c_void,
            remote_address: u64,
            local_handle: *mut Handle,
            remote_handle: *const Handle,
            size: usize,
            flags: u32,
            order: i32,
            callback: Option<CompletionFn>,
            context: *mut c_void,
            data: *mut c_void,
        ) -> Status,
    >,
    /// Updates a word: `op` is a [`BtlAtomicOp`](crate::BtlAtomicOp), `flags` are [`OpFlags`].
    pub atomic_op: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            endpoint: *mut Endpoint,
            remote_address: u64,
            remote_handle: *const Handle,
            op: u32,
            operand: u64,
            flags: u32,
            order: i32,
            callback: Option<CompletionFn>,
            context: *mut c_void,
            data: *mut c_void,
        ) -> Status,
    >,
    /// Updates a word and fetches what was there to `local_address`.
    pub atomic_fop: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            endpoint: *mut Endpoint,
            local_address: *mut c_void,
            remote_address: u64,
            local_handle: *mut Handle,
            remote_handle: *const Handle,
            op: u32,
            operand: u64,
            flags: u32,
            order: i32,
            callback: Option<CompletionFn>,
            context: *mut c_void,
            data: *mut c_void,
        ) -> Status,
    >,
    /// Writes `value` if the word equals `compare`, and fetches what was there.
    pub atomic_cswap: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            endpoint: *mut Endpoint,
            local_address: *mut c_void,
            remote_address: u64,
            local_handle: *mut Handle,
            remote_handle: *const Handle,
            compare: u64,
            value: u64,
            flags: u32,
            order: i32,
            callback: Option<CompletionFn>,
            context: *mut c_void,
            data: *mut c_void,
        ) -> Status,
    >,
    /// Waits until every operation that the calling thread issued before is complete and its
    /// callback has run: those to `endpoint`, or all if it is NULL. Operations that other threads
    /// issue later do not prolong it. A negative status reports that operations without callback
    /// failed since the last flush, or that a peer is gone; flush returns then too.
    pub flush: Option<unsafe extern "C" fn(module: *mut Module, endpoint: *mut Endpoint) -> Status>,
    /// Sets the function that learns of failures no callback reports; replaces an earlier one.
    pub register_error: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            callback: Option<ErrorFn>,
            context: *mut c_void,
        ) -> Status,
    >,
    /// Whether the provider serves `op` on `datatype` in a shape
    /// ([`AtomicKind`](crate::AtomicKind)): writes the largest count of elements of one call.
    /// [`Status::NOT_SUPPORTED`] when it does not.
    pub atomic_query: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            datatype: u32,
            op: u32,
            kind: u32,
            max_count: *mut usize,
        ) -> Status,
    >,
    /// Updates `count` elements with the operands at `local_address`, each element atomically.
    /// `datatype` is a [`Datatype`](crate::Datatype), `op` an [`AtomicOp`](crate::AtomicOp).
    /// `remote_address` is aligned to the element.
    pub atomic_opv: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            endpoint: *mut Endpoint,
            local_address: *const c_void,
            remote_address: u64,
            local_handle: *mut Handle,
            remote_handle: *const Handle,
            datatype: u32,
            op: u32,
            count: usize,
            callback: Option<CompletionFn>,
            context: *mut c_void,
            data: *mut c_void,
        ) -> Status,
    >,
    /// As `atomic_opv`, and fetches what was there to `result_address`. `local_address` may be NULL
    /// for [`AtomicOp::Read`](crate::AtomicOp::Read). The callback's `local_address` is
    /// `result_address`.
    pub atomic_fopv: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            endpoint: *mut Endpoint,
            local_address: *const c_void,
            result_address: *mut c_void,
            remote_address: u64,
            local_handle: *mut Handle,
            result_handle: *mut Handle,
            remote_handle: *const Handle,
            datatype: u32,
            op: u32,
            count: usize,
            callback: Option<CompletionFn>,
            context: *mut c_void,
            data: *mut c_void,
        ) -> Status,
    >,
    /// Compares one element with the one at `compare_address`, writes the one at `local_address` if
    /// they are equal, and fetches what was there to `result_address`. Operand and compare value are
    /// copied before the call returns.
    pub atomic_cswapv: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            endpoint: *mut Endpoint,
            local_address: *const c_void,
            compare_address: *const c_void,
            result_address: *mut c_void,
            remote_address: u64,
            result_handle: *mut Handle,
            remote_handle: *const Handle,
            datatype: u32,
            callback: Option<CompletionFn>,
            context: *mut c_void,
            data: *mut c_void,
        ) -> Status,
    >,
    /// Writes the module's counts.
    pub stats: Option<unsafe extern "C" fn(module: *mut Module, stats: *mut Stats) -> Status>,
    /// Ends the module: flushes, then closes everything it holds. The module is freed.
    pub finalize: Option<unsafe extern "C" fn(module: *mut Module) -> Status>,
    /// Since ABI 1.1; this and the entries below may be NULL. Sets how device memory is reached: at once for all
    /// memory that the provider reaches with these functions, whenever it was registered; for memory that is reached
    /// by copies, with its registration. NULL goes back to the plugin's own way. The functions
    /// stay callable until `finalize`.
    pub set_overrides:
        Option<unsafe extern "C" fn(module: *mut Module, ops: *const OverrideOps) -> Status>,
    /// Registers memory of kind `iface` ([`hmem_iface`](crate::hmem_iface)) on device number
    /// `device` of that kind; otherwise as `register_mem`, and ended by `deregister_mem`. Operations
    /// take the handle like any other: as a remote handle, and as the local handle of a buffer there,
    /// which is then not optional. Memory that the provider does not take is reached by copies: the
    /// owner makes progress for its peers, or `btl_ofi_hmem_thread` does.
    /// [`Status::NOT_SUPPORTED`]: nothing knows this kind.
    pub register_hmem: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            endpoint: *mut Endpoint,
            base: *mut c_void,
            size: usize,
            access: u32,
            iface: u32,
            device: u64,
            handle: *mut *mut Handle,
        ) -> Status,
    >,
    /// Copies from device memory as the module itself does, with the overrides in force. The shape
    /// is [`CopyFromFn`](crate::CopyFromFn)'s.
    pub copy_from_hmem_iov: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            dest: *mut c_void,
            size: usize,
            hmem_iov: *const IoVec,
            hmem_iface: *const u32,
            hmem_iov_count: usize,
            hmem_iov_offset: u64,
        ) -> i64,
    >,
    /// Copies to device memory, likewise. The shape is [`CopyToFn`](crate::CopyToFn)'s.
    pub copy_to_hmem_iov: Option<
        unsafe extern "C" fn(
            module: *mut Module,
            hmem_iov: *const IoVec,
            hmem_iface: *const u32,
            hmem_iov_count: usize,
            hmem_iov_offset: u64,
            src: *const c_void,
            size: usize,
        ) -> i64,
    >,
    /// Writes what the module makes of a kind of memory.
    pub query_hmem: Option<
        unsafe extern "C" fn(module: *mut Module, iface: u32, info: *mut HmemInfo) -> Status,
    >,
}

// SAFETY: plain functions; their contract says which threads may call them.
unsafe impl Send for ModuleVtable {}
// SAFETY: as for Send.
unsafe impl Sync for ModuleVtable {}

impl ModuleVtable {
    /// The table's size in ABI 1.0.
    pub const MIN_SIZE: usize = std::mem::offset_of!(ModuleVtable, set_overrides);

    /// Checks the table of a module, and copies as much of it as both sides know.
    ///
    /// # Safety
    /// `table` is NULL or points to a readable [`TableHeader`] followed by the bytes it declares.
    pub unsafe fn check(table: *const ModuleVtable) -> Result<ModuleVtable, AbiError> {
        if table.is_null() {
            return Err(AbiError::NullTable { table: "module" });
        }
        // SAFETY: the caller vouches for a readable header at a non-NULL pointer.
        let header = unsafe { *table.cast::<TableHeader>() };
        header.check("module", magic::MODULE, Self::MIN_SIZE)?;
        let mut copy = std::mem::MaybeUninit::<ModuleVtable>::zeroed();
        let size = (header.size as usize).min(size_of::<ModuleVtable>());
        // SAFETY: the table has `size` bytes as its header says, and so has the copy; zeroes are an
        // absent entry, so the copy is a table whatever its length.
        let table = unsafe {
            std::ptr::copy_nonoverlapping(table.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), size);
            copy.assume_init()
        };
        require_entries!(
            table,
            "module",
            add_procs,
            del_procs,
            register_mem,
            deregister_mem,
            put,
            get,
            atomic_op,
            atomic_fop,
            atomic_cswap,
            flush,
            register_error,
            atomic_query,
            atomic_opv,
            atomic_fopv,
            atomic_cswapv,
            stats,
            finalize,
        );
        Ok(table)
    }
}

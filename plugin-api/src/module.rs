//! A module and the table of its functions.

mod check;

use std::ffi::c_void;

use crate::{
    ApplyFn, ApplyRequest, Attributes, CompletionFn, Descriptor, Endpoint, ErrorFn, Handle,
    HmemInfo, IoVec, OverrideOps, ReceiveFn, Stats, Status, TableHeader,
};

/// A module. The memory after these two pointers belongs to the plugin.
#[repr(C)]
pub struct Module {
    /// Never NULL, valid until the module is finalised.
    pub vtable: *const ModuleVtable,
    /// Never NULL, valid until the module is finalised.
    pub attributes: *const Attributes,
}

/// The functions of a module.
///
/// Operations (`put`, `get`, `put_notify` and all atomics) return [`Status::SUCCESS`] when they are in flight, and
/// [`Status::COMPLETED`] when they completed before the call returned; then no callback runs. On any other status the
/// call had no effect and no callback runs. [`Status::TEMP_OUT_OF_RESOURCE`]: call `progress` and try again.
/// [`Status::NOT_SUPPORTED`]: the provider does not support the operation. [`Status::UNREACH`]: the peer is gone.
///
/// If `callback` is NULL, only `flush` reports completion. The caller must not use local buffers until completion.
/// `order` is reserved and is 255 (`MCA_BTL_NO_ORDER`). `remote_address` is the virtual address in the target's
/// process, `remote_handle` a copy of the handle that the target made.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ModuleVtable {
    /// [`magic::MODULE`](crate::magic::MODULE).
    pub header: TableHeader,
    /// Makes endpoints for `count` processes; writes NULL for a process that cannot be reached. A process that was
    /// added before gets its existing endpoint, counted once more. The calling process is a peer like any other. On an error no
    /// process is added, and all written endpoints are NULL.
    pub add_procs: Option<AddProcsFn>,
    /// Releases each endpoint once. The last release of an endpoint first waits for its outstanding operations.
    pub del_procs: Option<DelProcsFn>,
    /// Registers memory for [`Access`](crate::Access); `endpoint` may be NULL. The module owns the handle until `deregister_mem`. The
    /// handle contains the rights: an operation that a peer's copy does not allow returns [`Status::PERM`] and has no
    /// effect. An atomic needs [`Access::REMOTE_ATOMIC`](crate::Access::REMOTE_ATOMIC); a plugin may instead accept the rights for the atomic's own
    /// accesses: read, write or both. [`Status::OUT_OF_RESOURCE`]: the provider has no room.
    /// [`Status::BAD_PARAM`]: peers cannot use the memory with these rights, because it is read-only, behind the end of its
    /// file, or not mapped. The memory must stay usable until `deregister_mem`. [`SOLE_ATOMICS`](crate::SOLE_ATOMICS) may be
    /// added to the rights.
    pub register_mem: Option<RegisterMemFn>,
    /// Ends a registration. [`Status::BAD_PARAM`]: not a live handle of this module. Before this call, peers must
    /// complete their operations on the handle, and they must start none afterwards. The effect of a later operation
    /// with a peer's copy of the handle depends on its path: it may be refused, access the memory while that is mapped,
    /// or access another registration that got the same key. So the host informs the peers first and keeps the memory
    /// until they know. Puts and gets with [`TransferFlags::CHECKED`](crate::TransferFlags::CHECKED) are refused.
    pub deregister_mem: Option<DeregisterMemFn>,
    /// Writes `size` bytes. `local_handle` may be NULL up to the local registration threshold. `flags` are
    /// [`TransferFlags`](crate::TransferFlags).
    pub put: Option<TransferFn>,
    /// Reads `size` bytes. `local_handle` may be NULL up to the local registration threshold. `flags` as for `put`.
    pub get: Option<TransferFn>,
    /// AMO: updates a word. `op` is a [`BtlAtomicOp`](crate::BtlAtomicOp), `flags` are [`OpFlags`](crate::OpFlags).
    pub atomic_op: Option<AtomicOpFn>,
    /// AMO: updates a word and fetches the old value to `local_address`.
    pub atomic_fop: Option<AtomicFopFn>,
    /// AMO: writes `value` if the word equals `compare`, and fetches the old value.
    pub atomic_cswap: Option<AtomicCswapFn>,
    /// Waits until every earlier operation of the calling thread to `endpoint`, or to all endpoints if it is NULL, is
    /// complete and its callback has run. Operations that other threads issue later do not prolong the wait. A negative
    /// status: operations without callback failed since the last flush, or a peer is gone; flush returns in these cases
    /// too.
    pub flush: Option<FlushFn>,
    /// Sets the callback for failures that no completion callback reports; replaces an earlier one.
    pub register_error: Option<RegisterErrorFn>,
    /// Queries the support of `op` on `datatype` for one `kind` ([`AtomicKind`](crate::AtomicKind)): writes the largest
    /// number of elements of one call. [`Status::NOT_SUPPORTED`]: the module does not support the operation.
    pub atomic_query: Option<AtomicQueryFn>,
    /// Typed AMO: updates `count` elements with the operands at `local_address`, each element atomically.
    /// `datatype` is a [`Datatype`](crate::Datatype), `op` an [`AtomicOp`](crate::AtomicOp).
    /// `remote_address` is aligned to the element.
    pub atomic_opv: Option<AtomicOpvFn>,
    /// Typed AMO: as `atomic_opv`, and fetches the old values to `result_address`. `local_address` may be NULL for
    /// [`AtomicOp::Read`](crate::AtomicOp::Read). The callback gets `result_address` as its `local_address`.
    pub atomic_fopv: Option<AtomicFopvFn>,
    /// Typed AMO: if one element equals the value at `compare_address`, writes the value at `local_address` to it;
    /// fetches the old value to `result_address`. The plugin copies operand and compare value before the call returns.
    pub atomic_cswapv: Option<AtomicCswapvFn>,
    /// Writes the module's counts.
    pub stats: Option<StatsFn>,
    /// Ends the module: flushes, closes everything that it holds and frees it.
    pub finalize: Option<FinalizeFn>,
    /// Since ABI 1.1; this and the entries below may be NULL. Sets the copy functions of device memory. The functions
    /// apply at once to all registrations of the module, also earlier ones: operations that begin later use them, and
    /// so do requests of peers that are served later. Operations under way keep the earlier functions for their local
    /// buffers. NULL restores the plugin's own functions. All functions stay callable until `finalize`.
    pub set_overrides: Option<SetOverridesFn>,
    /// Registers memory of kind `iface` ([`hmem_iface`](crate::hmem_iface)) on device number `device` of that kind;
    /// otherwise as `register_mem`. `deregister_mem` ends it. Operations accept the handle as a remote handle and,
    /// mandatorily, as the local handle of a buffer in that memory. If the provider cannot register the memory,
    /// the plugin accesses it by copies: then the owner must make progress for its peers, or `btl_ofi_hmem_thread`
    /// does. [`Status::NOT_SUPPORTED`]: neither provider nor plugin supports this kind.
    pub register_hmem: Option<RegisterHmemFn>,
    /// Copies from device memory as the module itself does, with the current overrides. The arguments and the result
    /// are those of [`CopyFromFn`](crate::CopyFromFn).
    pub copy_from_hmem_iov: Option<CopyFromHmemFn>,
    /// Copies to device memory as the module itself does, with the current overrides. The arguments and the result are
    /// those of [`CopyToFn`](crate::CopyToFn).
    pub copy_to_hmem_iov: Option<CopyToHmemFn>,
    /// Writes the module's support of one kind of memory.
    pub query_hmem: Option<QueryHmemFn>,
    /// Since ABI 1.2; this and the entries below may be NULL. Those up to `register_receive` work if the module has
    /// [`ModuleFlags::SEND`](crate::ModuleFlags::SEND). Makes a descriptor for a message of `size` bytes, or of the longest
    /// possible message if that is smaller; NULL if there is no memory. The descriptor belongs to the caller until `free`.
    pub alloc: Option<AllocFn>,
    /// Ends a descriptor.
    pub free: Option<FreeFn>,
    /// Makes a descriptor for `reserve` bytes, which the caller writes, and the `*size` bytes at `source`, or fewer if the
    /// message would be too long; writes their number to `*size`. The source must not change until the message is
    /// sent. NULL if there is no room behind the reserve.
    pub prepare_src: Option<PrepareSrcFn>,
    /// Sends a message to the function that the peer's host has set for the tag. [`Status::COMPLETED`]: the message was taken,
    /// and the descriptor belongs to the caller again; the message may leave only in later calls of `progress` (a first message
    /// waits for a connection). Messages to one peer arrive in the order in which they are sent; messages to a peer that fails
    /// are lost. [`Status::TEMP_OUT_OF_RESOURCE`]: too many messages wait for this peer; call `progress` and try
    /// again.
    pub send: Option<SendFn>,
    /// Sends a header and a payload as one message, without a descriptor; otherwise as `send`. [`Status::BAD_PARAM`]: the
    /// message is too long.
    pub sendi: Option<SendiFn>,
    /// Sets the function that receives the messages with a tag; NULL: the messages are dropped. The function runs in
    /// progress, on any thread that makes progress, for one message at a time.
    pub register_receive: Option<RegisterReceiveFn>,
    /// Writes `size` bytes as `put`, then adds `add` to the counter of 64 bits at `counter_address` of the target, a multiple
    /// of 8 in the region of `counter_handle`, which is host memory and allows atomics. A process that sees the counter
    /// raised also sees the bytes; it reads the counter by an atomic load, with acquire order. The operation is complete when
    /// both steps are done. If the put fails, the counter is not raised. With a `size` of 0, only the counter is raised.
    /// Several puts may raise their counters in any order. [`Status::NOT_SUPPORTED`]: the module has no such atomic.
    pub put_notify: Option<PutNotifyFn>,
    /// Since ABI 1.4; this and the entries below may be NULL. Copies blocks at regular distances from device memory as the
    /// module itself would, with the current overrides. The arguments and the result are those of
    /// [`CopyFromStridedFn`](crate::CopyFromStridedFn).
    pub copy_from_hmem_strided: Option<CopyFromHmemStridedFn>,
    /// Copies contiguous bytes to blocks of device memory, under the same rules; see
    /// [`CopyToStridedFn`](crate::CopyToStridedFn).
    pub copy_to_hmem_strided: Option<CopyToHmemStridedFn>,
    /// [`register_mem`](Self::register_mem) for memory that is a shared mapping of the file of descriptor `fd`, from byte
    /// `offset` of it on. If the file lies in memory (`memfd_create`) and is sealed against shrinking (`F_SEAL_SHRINK`), the
    /// plugin may let local peers map it; other memory is accessed as if `register_mem` had been called. The plugin does not
    /// use the descriptor after this call. [`Status::BAD_PARAM`]: the memory cannot be at this place of the file.
    pub register_shared: Option<RegisterSharedFn>,
    /// Since ABI 1.5; this and the entries below may be NULL. Changes elements of any size and alignment, which lie in runs of
    /// the region from `remote_address` on. The target's processor executes this one command in its progress. Commands to one
    /// peer take effect in the order of its atomics. Atomics of the processor change elements of 1, 2, 4 or 8 bytes that are
    /// aligned to their size, so these exclude the AMOs; other elements exclude each other only. The module makes the
    /// operation itself if the typed AMOs have it and the element is aligned. Otherwise it calls the function that the
    /// target's host has [registered](Self::register_apply); [`Read`](crate::AtomicOp::Read),
    /// [`Write`](crate::AtomicOp::Write) and [`Cswap`](crate::AtomicOp::Cswap) need none. Everything is checked before the
    /// first element is changed.
    ///
    /// [`Status::NOT_SUPPORTED`]: the network card executes the atomics to this peer and must change these elements, so use
    /// AMOs; or no message reaches the peer; or, in the completion, the target knows no such function.
    /// [`Status::VALUE_OUT_OF_BOUNDS`]: larger than [`MOST_APPLIED`](crate::MOST_APPLIED), or a run is outside of the region.
    pub apply: Option<ApplyElementsFn>,
    /// Sets the function that executes operations for which the module has no instruction: operations of peers, and this
    /// process's own to itself. Replaces an earlier function; NULL removes the function. The function stays callable
    /// until `finalize`.
    pub register_apply: Option<RegisterApplyFn>,
}

// SAFETY: the table holds only functions; their contract states which threads may call them.
unsafe impl Send for ModuleVtable {}
// SAFETY: the table never changes; the functions' contract states which threads may call them.
unsafe impl Sync for ModuleVtable {}

/// [`add_procs`](ModuleVtable::add_procs).
pub type AddProcsFn = unsafe extern "C" fn(
    module: *mut Module,
    count: usize,
    procs: *const u64,
    endpoints: *mut *mut Endpoint,
) -> Status;

/// [`del_procs`](ModuleVtable::del_procs).
pub type DelProcsFn = unsafe extern "C" fn(
    module: *mut Module,
    count: usize,
    endpoints: *const *mut Endpoint,
) -> Status;

/// [`register_mem`](ModuleVtable::register_mem).
pub type RegisterMemFn = unsafe extern "C" fn(
    module: *mut Module,
    endpoint: *mut Endpoint,
    base: *mut c_void,
    size: usize,
    access: u32,
    handle: *mut *mut Handle,
) -> Status;

/// [`deregister_mem`](ModuleVtable::deregister_mem).
pub type DeregisterMemFn = unsafe extern "C" fn(module: *mut Module, handle: *mut Handle) -> Status;

/// [`put`](ModuleVtable::put) and [`get`](ModuleVtable::get).
pub type TransferFn = unsafe extern "C" fn(
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
) -> Status;

/// [`atomic_op`](ModuleVtable::atomic_op).
pub type AtomicOpFn = unsafe extern "C" fn(
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
) -> Status;

/// [`atomic_fop`](ModuleVtable::atomic_fop).
pub type AtomicFopFn = unsafe extern "C" fn(
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
) -> Status;

/// [`atomic_cswap`](ModuleVtable::atomic_cswap).
pub type AtomicCswapFn = unsafe extern "C" fn(
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
) -> Status;

/// [`flush`](ModuleVtable::flush).
pub type FlushFn = unsafe extern "C" fn(module: *mut Module, endpoint: *mut Endpoint) -> Status;

/// [`register_error`](ModuleVtable::register_error).
pub type RegisterErrorFn = unsafe extern "C" fn(
    module: *mut Module,
    callback: Option<ErrorFn>,
    context: *mut c_void,
) -> Status;

/// [`atomic_query`](ModuleVtable::atomic_query).
pub type AtomicQueryFn = unsafe extern "C" fn(
    module: *mut Module,
    datatype: u32,
    op: u32,
    kind: u32,
    max_count: *mut usize,
) -> Status;

/// [`atomic_opv`](ModuleVtable::atomic_opv).
pub type AtomicOpvFn = unsafe extern "C" fn(
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
) -> Status;

/// [`atomic_fopv`](ModuleVtable::atomic_fopv).
pub type AtomicFopvFn = unsafe extern "C" fn(
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
) -> Status;

/// [`atomic_cswapv`](ModuleVtable::atomic_cswapv).
pub type AtomicCswapvFn = unsafe extern "C" fn(
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
) -> Status;

/// [`stats`](ModuleVtable::stats).
pub type StatsFn = unsafe extern "C" fn(module: *mut Module, stats: *mut Stats) -> Status;

/// [`finalize`](ModuleVtable::finalize).
pub type FinalizeFn = unsafe extern "C" fn(module: *mut Module) -> Status;

/// [`set_overrides`](ModuleVtable::set_overrides).
pub type SetOverridesFn =
    unsafe extern "C" fn(module: *mut Module, ops: *const OverrideOps) -> Status;

/// [`register_hmem`](ModuleVtable::register_hmem).
pub type RegisterHmemFn = unsafe extern "C" fn(
    module: *mut Module,
    endpoint: *mut Endpoint,
    base: *mut c_void,
    size: usize,
    access: u32,
    iface: u32,
    device: u64,
    handle: *mut *mut Handle,
) -> Status;

/// [`copy_from_hmem_iov`](ModuleVtable::copy_from_hmem_iov).
pub type CopyFromHmemFn = unsafe extern "C" fn(
    module: *mut Module,
    dest: *mut c_void,
    size: usize,
    hmem_iov: *const IoVec,
    hmem_iface: *const u32,
    hmem_iov_count: usize,
    hmem_iov_offset: u64,
) -> i64;

/// [`copy_to_hmem_iov`](ModuleVtable::copy_to_hmem_iov).
pub type CopyToHmemFn = unsafe extern "C" fn(
    module: *mut Module,
    hmem_iov: *const IoVec,
    hmem_iface: *const u32,
    hmem_iov_count: usize,
    hmem_iov_offset: u64,
    src: *const c_void,
    size: usize,
) -> i64;

/// [`query_hmem`](ModuleVtable::query_hmem).
pub type QueryHmemFn =
    unsafe extern "C" fn(module: *mut Module, iface: u32, info: *mut HmemInfo) -> Status;

/// [`alloc`](ModuleVtable::alloc).
pub type AllocFn = unsafe extern "C" fn(
    module: *mut Module,
    endpoint: *mut Endpoint,
    size: usize,
) -> *mut Descriptor;

/// [`free`](ModuleVtable::free).
pub type FreeFn = unsafe extern "C" fn(module: *mut Module, descriptor: *mut Descriptor) -> Status;

/// [`prepare_src`](ModuleVtable::prepare_src).
pub type PrepareSrcFn = unsafe extern "C" fn(
    module: *mut Module,
    endpoint: *mut Endpoint,
    source: *const c_void,
    reserve: usize,
    size: *mut usize,
) -> *mut Descriptor;

/// [`send`](ModuleVtable::send).
pub type SendFn = unsafe extern "C" fn(
    module: *mut Module,
    endpoint: *mut Endpoint,
    descriptor: *mut Descriptor,
    tag: u8,
) -> Status;

/// [`sendi`](ModuleVtable::sendi).
pub type SendiFn = unsafe extern "C" fn(
    module: *mut Module,
    endpoint: *mut Endpoint,
    header: *const c_void,
    header_size: usize,
    payload: *const c_void,
    payload_size: usize,
    tag: u8,
) -> Status;

/// [`register_receive`](ModuleVtable::register_receive).
pub type RegisterReceiveFn = unsafe extern "C" fn(
    module: *mut Module,
    tag: u8,
    receive: Option<ReceiveFn>,
    context: *mut c_void,
) -> Status;

/// [`put_notify`](ModuleVtable::put_notify).
pub type PutNotifyFn = unsafe extern "C" fn(
    module: *mut Module,
    endpoint: *mut Endpoint,
    local_address: *mut c_void,
    remote_address: u64,
    local_handle: *mut Handle,
    remote_handle: *const Handle,
    size: usize,
    counter_address: u64,
    counter_handle: *const Handle,
    add: u64,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status;

/// [`copy_from_hmem_strided`](ModuleVtable::copy_from_hmem_strided).
pub type CopyFromHmemStridedFn = unsafe extern "C" fn(
    module: *mut Module,
    dest: *mut c_void,
    size: usize,
    base: *const c_void,
    iface: u32,
    block: usize,
    stride: *const usize,
    count: *const usize,
) -> i64;

/// [`copy_to_hmem_strided`](ModuleVtable::copy_to_hmem_strided).
pub type CopyToHmemStridedFn = unsafe extern "C" fn(
    module: *mut Module,
    base: *mut c_void,
    iface: u32,
    block: usize,
    stride: *const usize,
    count: *const usize,
    src: *const c_void,
    size: usize,
) -> i64;

/// [`register_shared`](ModuleVtable::register_shared).
pub type RegisterSharedFn = unsafe extern "C" fn(
    module: *mut Module,
    endpoint: *mut Endpoint,
    base: *mut c_void,
    size: usize,
    access: u32,
    fd: i32,
    offset: u64,
    handle: *mut *mut Handle,
) -> Status;

/// [`apply`](ModuleVtable::apply).
pub type ApplyElementsFn = unsafe extern "C" fn(
    module: *mut Module,
    endpoint: *mut Endpoint,
    remote_address: u64,
    remote_handle: *const Handle,
    request: *const ApplyRequest,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status;

/// [`register_apply`](ModuleVtable::register_apply).
pub type RegisterApplyFn = unsafe extern "C" fn(
    module: *mut Module,
    function: Option<ApplyFn>,
    context: *mut c_void,
) -> Status;

//! The module's table. Each function converts its arguments, calls the transport and converts the result. No decision
//! about a transfer is made here.

mod amo;
mod apply;
mod hmem;
mod memory;
mod notify;
mod procs;
mod rma;
mod send;
mod typed_amo;

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use plugin_api::{
    Attributes, CompletionFn, Endpoint, ErrorFn, Handle, HostVtable, Module, ModuleVtable, Stats,
    Status, TableHeader, magic,
};
use transport::hints::{MESSAGE, PROVIDER, Way, branch};
use transport::{Completion, ErrorReport, Op, Transport};

use crate::guard::called;
use crate::handles::Handles;

/// The tables, indexed by whether calls may overlap, then by whether the transport uses messages.
static TABLES: [[ModuleVtable; 2]; 2] = [
    [table::<false, PROVIDER>(), table::<false, MESSAGE>()],
    [table::<true, PROVIDER>(), table::<true, MESSAGE>()],
];

const fn table<const T: bool, const WAY: Way>() -> ModuleVtable {
    ModuleVtable {
        header: TableHeader::of::<ModuleVtable>(magic::MODULE),
        add_procs: Some(procs::add_procs),
        del_procs: Some(procs::del_procs),
        register_mem: Some(memory::register_mem),
        deregister_mem: Some(memory::deregister_mem),
        put: Some(rma::put::<T, WAY>),
        get: Some(rma::get::<T, WAY>),
        atomic_op: Some(amo::atomic_op::<T, WAY>),
        atomic_fop: Some(amo::atomic_fop::<T, WAY>),
        atomic_cswap: Some(amo::atomic_cswap::<T, WAY>),
        flush: Some(flush),
        register_error: Some(register_error),
        atomic_query: Some(typed_amo::atomic_query),
        atomic_opv: Some(typed_amo::atomic_opv::<T, WAY>),
        atomic_fopv: Some(typed_amo::atomic_fopv::<T, WAY>),
        atomic_cswapv: Some(typed_amo::atomic_cswapv),
        stats: Some(stats),
        finalize: Some(finalize),
        set_overrides: Some(hmem::set_overrides),
        register_hmem: Some(hmem::register_hmem),
        copy_from_hmem_iov: Some(hmem::copy_from_hmem_iov),
        copy_to_hmem_iov: Some(hmem::copy_to_hmem_iov),
        query_hmem: Some(hmem::query_hmem),
        copy_from_hmem_strided: Some(hmem::copy_from_hmem_strided),
        copy_to_hmem_strided: Some(hmem::copy_to_hmem_strided),
        alloc: Some(send::alloc),
        free: Some(send::free),
        prepare_src: Some(send::prepare_src),
        send: Some(send::send),
        sendi: Some(send::sendi),
        register_receive: Some(send::register_receive),
        put_notify: Some(notify::put_notify),
        register_shared: Some(memory::register_shared),
        apply: Some(apply::apply),
        register_apply: Some(apply::register_apply),
    }
}

/// The component's place for its module: NULL, or a module that is not finalised.
#[derive(Default)]
pub(crate) struct Slot(AtomicPtr<OfiModule>);

impl Slot {
    /// The module, until it is finalised.
    pub(crate) fn current(&self) -> *mut OfiModule {
        // Acquire: pairs with the Release store in `put`.
        self.0.load(Ordering::Acquire)
    }

    /// Stores a module.
    pub(crate) fn put(&self, module: *mut OfiModule) {
        // Release: pairs with the Acquire loads in `current`, `take` and `take_this`.
        self.0.store(module, Ordering::Release);
    }

    /// Takes the module out, if there is one.
    pub(crate) fn take(&self) -> Option<NonNull<OfiModule>> {
        // Acquire: pairs with the Release store in `put`.
        NonNull::new(self.0.swap(ptr::null_mut(), Ordering::AcqRel))
    }

    /// Takes `module` out; false when the slot holds another module or none.
    fn take_this(&self, module: *mut OfiModule) -> bool {
        // Acquire: pairs with the Release store in `put`.
        let (none, set, fetch) = (ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire);
        self.0.compare_exchange(module, none, set, fetch).is_ok()
    }
}

/// The object behind the host's [`Module`]: the two pointers that the host knows, then the plugin's fields.
#[repr(C)]
pub(crate) struct OfiModule {
    /// This is the first field, because a transport begins with the host's [`Module`].
    transport: Transport,
    host: &'static HostVtable,
    slot: *const Slot,
    handles: Handles,
    receivers: send::Receivers,
    attributes: Attributes,
}

impl OfiModule {
    /// Allocates a module, which lives until [`finish`](Self::finish), and stores it in `slot`. The slot outlives the
    /// module.
    pub(crate) fn new(
        host: &'static HostVtable,
        slot: &Slot,
        mut transport: Transport,
    ) -> *mut OfiModule {
        let c = transport.capabilities();
        let attributes = Attributes {
            header: TableHeader::of::<Attributes>(magic::ATTRIBUTES),
            flags: c.flags.bits(),
            atomic_flags: c.atomic_flags.bits(),
            put_limit: c.put_limit as u64,
            get_limit: c.get_limit as u64,
            put_alignment: 1,
            get_alignment: 1,
            put_local_registration_threshold: u64::MAX,
            get_local_registration_threshold: u64::MAX,
            handle_size: transport::Handle::SIZE as u64,
            latency: c.latency,
            bandwidth: c.bandwidth,
            exclusivity: c.exclusivity,
            contexts: c.contexts as u32,
            // The strings are on the heap: they stay in place when the transport moves.
            provider: c.provider.as_ptr(),
            domain: c.domain.as_ptr(),
            completion: c.completion.as_ptr(),
        };
        // Inline completions return COMPLETED: every host of this ABI knows this status.
        transport.answer_at_once();
        let (threaded, tells) = (transport.is_threaded(), transport.uses_messages());
        transport.module.vtable = &TABLES[usize::from(threaded)][usize::from(tells)];
        let module = Box::into_raw(Box::new(OfiModule {
            host,
            slot,
            transport,
            handles: Handles::default(),
            receivers: send::Receivers::default(),
            attributes,
        }));
        // SAFETY: the module was just allocated, and no other reference to it exists.
        unsafe {
            let attributes = &raw const (*module).attributes;
            let made: &mut Transport = &mut (*module).transport;
            made.module.attributes = attributes;
            (*module).transport.set_owner(module.cast());
            // A host of this ABI may wait for a peer to which it has nothing outstanding, and lets no process end while
            // others wait. So a peer that disappears is a failure.
            (*module).transport.watch_idle_peers();
            (*module).receivers.attach(&(*module).transport);
        }
        slot.put(module);
        module
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Flushes, ends every registration, closes and frees the module.
    ///
    /// # Safety
    /// `module` came from [`new`](Self::new) and is finished once.
    pub(crate) unsafe fn finish(module: *mut OfiModule) -> Status {
        // SAFETY: the caller guarantees a module from `new`, which made it with `Box::into_raw`, and one call.
        let module = unsafe { Box::from_raw(module) };
        // The host may have unloaded its functions. Messages that still arrive are dropped.
        module.transport.on_receive(None);
        module.transport.on_error(None);
        module.transport.on_apply(None);
        module.transport.flush_for_close();
        module.handles.clear();
        match module.transport.close() {
            Ok(()) => Status::SUCCESS,
            Err(e) => {
                tracing::error!("{e}");
                e.status()
            }
        }
    }
}

/// The module behind the host's pointer.
///
/// # Safety
/// `module` is NULL or came from `init` and was not finalised.
#[inline]
unsafe fn module_ref<'a>(module: *mut Module) -> Option<&'a OfiModule> {
    branch();
    // SAFETY: the caller guarantees that `module` is NULL or a live `OfiModule`.
    unsafe { module.cast::<OfiModule>().as_ref() }
}

#[inline]
fn peer(endpoint: *mut Endpoint) -> Option<NonNull<transport::Endpoint>> {
    NonNull::new(endpoint.cast())
}

/// A remote handle, at any address of the host.
///
/// # Safety
/// `handle` is NULL or readable for the size of a handle, and stays so through the call.
#[inline]
unsafe fn remote<'a>(handle: *const Handle) -> Option<&'a transport::Handle> {
    branch();
    // SAFETY: the caller guarantees readable bytes; a handle has no alignment, and every byte pattern is valid.
    unsafe { handle.cast::<transport::Handle>().as_ref() }
}

/// The objects of an operation; `None` if one of them is NULL.
///
/// # Safety
/// The conditions of [`module_ref`] and [`remote`].
#[inline]
unsafe fn target<'a>(
    module: *mut Module,
    endpoint: *mut Endpoint,
    handle: *const Handle,
) -> Option<(
    &'a OfiModule,
    NonNull<transport::Endpoint>,
    &'a transport::Handle,
)> {
    // SAFETY: the caller guarantees the same.
    unsafe { Some((module_ref(module)?, peer(endpoint)?, remote(handle)?)) }
}

/// Executes the operation that `make` returns for the peer's handle.
///
/// # Safety
/// The pointers are NULL or live objects of the module. The endpoint stays live and the operation's buffers valid until
/// completion.
#[inline]
unsafe fn submit<'a>(
    name: &'static str,
    (module, endpoint, handle): (*mut Module, *mut Endpoint, *const Handle),
    completion: Option<Completion>,
    make: impl FnOnce(&'a transport::Handle) -> Option<Op<'a>>,
) -> Status {
    // SAFETY: the caller guarantees NULL or live objects.
    let target = unsafe { target(module, endpoint, handle) };
    called(name, target, |(module, peer, remote)| {
        let op = make(remote)?.with_completion(completion);
        // SAFETY: the caller guarantees the endpoint and the buffers.
        Some(unsafe { module.transport.submit(peer, &op) })
    })
}

#[inline]
fn completion(
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Option<Completion> {
    callback.map(|function| Completion {
        function,
        context,
        data,
    })
}

unsafe extern "C" fn flush(module: *mut Module, endpoint: *mut Endpoint) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("flush", unsafe { module_ref(module) }, |module| {
        // SAFETY: the host passes NULL or an endpoint from `add_procs` that is not released.
        let endpoint = unsafe { endpoint.cast::<transport::Endpoint>().as_ref() };
        Some(module.transport.flush(endpoint))
    })
}

unsafe extern "C" fn register_error(
    module: *mut Module,
    callback: Option<ErrorFn>,
    context: *mut c_void,
) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("register_error", unsafe { module_ref(module) }, |module| {
        module
            .transport
            .on_error(callback.map(|function| ErrorReport { function, context }));
        Some(Status::SUCCESS)
    })
}

unsafe extern "C" fn stats(module: *mut Module, stats: *mut Stats) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("stats", unsafe { module_ref(module) }, |module| {
        let (stats, name) = (NonNull::new(stats)?, ("stats", magic::STATS));
        // SAFETY: the host passes a record that begins with its header.
        Some(unsafe { fill_record(stats, name, || module.transport.stats()) })
    })
}

/// Writes the part of a record that the host's record has room for. `make` makes the record, which begins with its header.
///
/// # Safety
/// `out` begins with its header, and has the bytes that the header declares.
unsafe fn fill_record<R>(
    out: NonNull<R>,
    (name, magic): (&'static str, u64),
    make: impl FnOnce() -> R,
) -> Status {
    let out = out.cast::<TableHeader>();
    // SAFETY: the caller guarantees the header.
    let header = unsafe { out.read() };
    if header.check(name, magic, size_of::<TableHeader>()).is_err() {
        return Status::TYPE_MISMATCH;
    }
    let mut record = make();
    let size = (header.size as usize).min(size_of::<R>());
    let made = (&raw mut record).cast::<TableHeader>();
    // SAFETY: the record begins with its header; the host's record has at least `size` bytes, because `size` is at most the
    // size in its header.
    unsafe {
        (*made).size = size as u32;
        ptr::copy_nonoverlapping(made.cast::<u8>(), out.as_ptr().cast(), size);
    }
    Status::SUCCESS
}

unsafe extern "C" fn finalize(module: *mut Module) -> Status {
    let pointer = module.cast::<OfiModule>();
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("finalize", unsafe { module_ref(module) }, |module| {
        // SAFETY: the slot lies in the component, which outlives its modules.
        let slot = unsafe { &*module.slot };
        // From here on `progress` does not find the module, and `close` does not finish it again.
        if !slot.take_this(pointer) {
            return Some(Status::NOT_INITIALIZED);
        }
        // SAFETY: `take_this` removed the module from the slot, so that it is finished once.
        Some(unsafe { OfiModule::finish(pointer) })
    })
}

//! The module's table. Each function converts its arguments, calls the transport and converts the result. No decision
//! about a transfer is made here.

mod amo;
mod hmem;
mod rma;
mod send;
mod typed_amo;

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use plugin_api::{
    Access, Attributes, CompletionFn, Endpoint, ErrorFn, Handle, HostVtable, Module, ModuleVtable,
    Stats, Status, TableHeader, magic,
};
use transport::{Completion, ErrorReport, Transport};

use crate::guard::{guarded, need};
use crate::handles::Handles;
use crate::modex;

/// The tables, indexed by threading: whether calls may overlap.
static TABLES: [ModuleVtable; 2] = [table::<false>(), table::<true>()];

const fn table<const T: bool>() -> ModuleVtable {
    ModuleVtable {
        header: TableHeader::of::<ModuleVtable>(magic::MODULE),
        add_procs: Some(add_procs),
        del_procs: Some(del_procs),
        register_mem: Some(register_mem),
        deregister_mem: Some(deregister_mem),
        put: Some(rma::put::<T>),
        get: Some(rma::get::<T>),
        atomic_op: Some(amo::atomic_op::<T>),
        atomic_fop: Some(amo::atomic_fop::<T>),
        atomic_cswap: Some(amo::atomic_cswap::<T>),
        flush: Some(flush),
        register_error: Some(register_error),
        atomic_query: Some(typed_amo::atomic_query),
        atomic_opv: Some(typed_amo::atomic_opv::<T>),
        atomic_fopv: Some(typed_amo::atomic_fopv::<T>),
        atomic_cswapv: Some(typed_amo::atomic_cswapv),
        stats: Some(stats),
        finalize: Some(finalize),
        set_overrides: Some(hmem::set_overrides),
        register_hmem: Some(hmem::register_hmem),
        copy_from_hmem_iov: Some(hmem::copy_from_hmem_iov),
        copy_to_hmem_iov: Some(hmem::copy_to_hmem_iov),
        query_hmem: Some(hmem::query_hmem),
        alloc: Some(send::alloc),
        free: Some(send::free),
        prepare_src: Some(send::prepare_src),
        send: Some(send::send),
        sendi: Some(send::sendi),
        register_receive: Some(send::register_receive),
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
    /// The first field; a transport begins with the host's [`Module`].
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
            // No supported provider needs local registration (FI_MR_LOCAL is refused).
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
        transport.module.vtable = &TABLES[usize::from(transport.is_threaded())];
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
            (*module).transport.module.attributes = &raw const (*module).attributes;
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
    // SAFETY: the caller guarantees readable bytes; a handle has no alignment, and every byte pattern is valid.
    unsafe { handle.cast::<transport::Handle>().as_ref() }
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

unsafe extern "C" fn add_procs(
    module: *mut Module,
    count: usize,
    procs: *const u64,
    endpoints: *mut *mut Endpoint,
) -> Status {
    guarded("add_procs", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let Some(module) = (unsafe { module_ref(module) }) else {
            return Status::BAD_PARAM;
        };
        if count == 0 {
            return Status::SUCCESS;
        }
        if procs.is_null() || endpoints.is_null() {
            return Status::BAD_PARAM;
        }
        // SAFETY: both pointers are not NULL; the host passes arrays of `count` elements.
        let (procs, endpoints) = unsafe {
            (
                std::slice::from_raw_parts(procs, count),
                std::slice::from_raw_parts_mut(endpoints, count),
            )
        };
        let mut status = Status::SUCCESS;
        for (&proc, out) in procs.iter().zip(endpoints) {
            *out = ptr::null_mut();
            match connect(module, proc) {
                Ok(endpoint) => *out = endpoint.as_ptr().cast(),
                Err(why) => {
                    tracing::warn!("process {proc} cannot be reached: {}", why.1);
                    // A NULL endpoint reports an unreachable peer; the status reports other failures.
                    if why.0 != Status::UNREACH {
                        status = why.0;
                    }
                }
            }
        }
        status
    })
}

fn connect(
    module: &OfiModule,
    proc: u64,
) -> Result<NonNull<transport::Endpoint>, (Status, String)> {
    let blob = modex::fetch(module.host, proc)?;
    module
        .transport
        .connect(&blob, proc)
        .map_err(|e| (e.status(), e.to_string()))
}

unsafe extern "C" fn del_procs(
    module: *mut Module,
    count: usize,
    endpoints: *const *mut Endpoint,
) -> Status {
    guarded("del_procs", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let Some(module) = (unsafe { module_ref(module) }) else {
            return Status::BAD_PARAM;
        };
        if count == 0 {
            return Status::SUCCESS;
        }
        if endpoints.is_null() {
            return Status::BAD_PARAM;
        }
        // SAFETY: `endpoints` is not NULL; the host passes an array of `count` elements.
        let endpoints = unsafe { std::slice::from_raw_parts(endpoints, count) };
        let mut status = Status::SUCCESS;
        for endpoint in endpoints.iter().filter_map(|&e| peer(e)) {
            // SAFETY: the host passes endpoints from `add_procs` and releases each as often as it was added.
            let released = unsafe { module.transport.disconnect(endpoint) };
            if !released.is_ok() {
                status = released;
            }
        }
        status
    })
}

unsafe extern "C" fn register_mem(
    module: *mut Module,
    _endpoint: *mut Endpoint,
    base: *mut c_void,
    size: usize,
    access: u32,
    handle: *mut *mut Handle,
) -> Status {
    guarded("register_mem", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let Some(module) = (unsafe { module_ref(module) }) else {
            return Status::BAD_PARAM;
        };
        if handle.is_null() || (base.is_null() && size > 0) {
            return Status::BAD_PARAM;
        }
        let Some(access) = Access::from_bits(access) else {
            return Status::BAD_PARAM;
        };
        // SAFETY: the host keeps the memory mapped until `deregister_mem`.
        let registered = unsafe { module.transport.register(base, size, access) };
        // SAFETY: `handle` is not NULL; the host passes a writable pointer.
        unsafe { store_region(module, registered, handle) }
    })
}

/// Stores a region and writes the pointer to its handle.
///
/// # Safety
/// `handle` is writable.
unsafe fn store_region(
    module: &OfiModule,
    registered: Result<transport::Region, transport::Error>,
    handle: *mut *mut Handle,
) -> Status {
    let region = match registered {
        Ok(region) => region,
        Err(e) => {
            tracing::info!("{e}");
            return e.status();
        }
    };
    match module.handles.insert(region) {
        Ok(pointer) => {
            // SAFETY: the caller guarantees that `handle` is writable.
            unsafe { *handle = pointer.cast() };
            Status::SUCCESS
        }
        Err(_region) => Status::OUT_OF_RESOURCE,
    }
}

unsafe extern "C" fn deregister_mem(module: *mut Module, handle: *mut Handle) -> Status {
    guarded("deregister_mem", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let Some(module) = (unsafe { module_ref(module) }) else {
            return Status::BAD_PARAM;
        };
        let Some(region) = module.handles.remove(handle.cast()) else {
            return Status::BAD_PARAM;
        };
        match region.close() {
            Ok(()) => Status::SUCCESS,
            Err(e) => {
                tracing::warn!("{e}");
                e.status()
            }
        }
    })
}

unsafe extern "C" fn flush(module: *mut Module, endpoint: *mut Endpoint) -> Status {
    guarded("flush", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let Some(module) = (unsafe { module_ref(module) }) else {
            return Status::BAD_PARAM;
        };
        // SAFETY: the host passes NULL or an endpoint from `add_procs` that is not released.
        let endpoint = unsafe { endpoint.cast::<transport::Endpoint>().as_ref() };
        module.transport.flush(endpoint)
    })
}

unsafe extern "C" fn register_error(
    module: *mut Module,
    callback: Option<ErrorFn>,
    context: *mut c_void,
) -> Status {
    guarded("register_error", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let Some(module) = (unsafe { module_ref(module) }) else {
            return Status::BAD_PARAM;
        };
        module
            .transport
            .on_error(callback.map(|function| ErrorReport { function, context }));
        Status::SUCCESS
    })
}

unsafe extern "C" fn stats(module: *mut Module, stats: *mut Stats) -> Status {
    guarded("stats", || {
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let (module, out) = need!(unsafe { module_ref(module) }, NonNull::new(stats));
        // SAFETY: the host's record begins with its header.
        let header = unsafe { *out.as_ptr().cast::<TableHeader>() };
        if header
            .check("stats", magic::STATS, size_of::<TableHeader>())
            .is_err()
        {
            return Status::TYPE_MISMATCH;
        }
        let mut counts = module.transport.stats();
        let size = (header.size as usize).min(size_of::<Stats>());
        counts.header.size = size as u32;
        // SAFETY: the host's record has at least `size` bytes: `size` is at most the size in its header.
        unsafe {
            ptr::copy_nonoverlapping((&raw const counts).cast::<u8>(), out.as_ptr().cast(), size);
        }
        Status::SUCCESS
    })
}

unsafe extern "C" fn finalize(module: *mut Module) -> Status {
    guarded("finalize", || {
        let pointer = module.cast::<OfiModule>();
        // SAFETY: the host passes NULL or a module from `init` that is not finalised.
        let Some(module) = (unsafe { module_ref(module) }) else {
            return Status::BAD_PARAM;
        };
        // SAFETY: the slot lies in the component, which outlives its modules.
        let slot = unsafe { &*module.slot };
        // From here on `progress` does not find the module, and `close` does not finish it again.
        if !slot.take_this(pointer) {
            return Status::NOT_INITIALIZED;
        }
        // SAFETY: `take_this` removed the module from the slot, so that it is finished once.
        unsafe { OfiModule::finish(pointer) }
    })
}

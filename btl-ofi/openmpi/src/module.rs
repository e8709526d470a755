//! The one BTL module: its structure as Open MPI sees it, opened over the transport, and ended.

use std::ffi::{CString, c_char, c_void};
use std::mem::{MaybeUninit, transmute};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use btl_ofi::{Endpoint, ErrorReport, Options, Transport, survey};
use plugin_api::{ErrorFlags, Status, ThreadLevel};

use crate::bindings as ffi;
use crate::flags::{FLAGS, NOT_DECLARED};
use crate::guard::guarded;
use crate::identity;
use crate::log;
use crate::peers::Peers;
use crate::registrations::Registrations;

/// The module that lives, or NULL. Written by init and finalize (Release), read by progress (Acquire), so that
/// progress never sees a module that is not fully made.
static CURRENT: AtomicPtr<Module> = AtomicPtr::new(null_mut());

/// Open MPI's function for errors.
type ErrorCallback =
    unsafe extern "C" fn(*mut ffi::mca_btl_base_module_t, i32, *mut ffi::opal_proc_t, *mut c_char);

/// A module. Open MPI sees the first field only.
#[repr(C)]
pub(crate) struct Module {
    btl: ffi::mca_btl_base_module_t,
    /// Initialised from `open` to `end`, and not moved between: the registration cache holds its address.
    transport: MaybeUninit<Transport>,
    registrations: Registrations,
    peers: Mutex<Peers>,
    /// An [`ErrorCallback`], or NULL.
    error: AtomicPtr<c_void>,
    /// Set with the first error that ends the job: ending it must not report what follows from it.
    failed: AtomicBool,
}

/// osc/rdma divides transfers by the limits, but not the pieces of an accumulate: an eighth of its buffer, which is
/// 32 KiB by default (osc_rdma_buffer_size). Providers that move less at once are passed over.
const SMALLEST_LIMIT: usize = 4096;

impl Module {
    /// Chooses a provider and opens it, publishes the address, and makes the structure for Open MPI.
    pub(crate) fn open(
        functions: ffi::mca_btl_base_module_t,
        mut options: Options,
        level: ThreadLevel,
    ) -> Result<NonNull<Module>, String> {
        options.need_limit(SMALLEST_LIMIT);
        let mut module = Box::new(Module {
            btl: functions,
            transport: MaybeUninit::uninit(),
            registrations: Registrations::Direct,
            peers: Mutex::new(Peers::default()),
            error: AtomicPtr::new(null_mut()),
            failed: AtomicBool::new(false),
        });
        // Before libfabric starts threads: see there.
        module.registrations = Registrations::open(&raw mut module.transport);
        let abandon = |module: &Module, reason: String| {
            module.registrations.close();
            reason
        };
        tell_choice(&options, level);
        let transport = match Transport::open(&options, level) {
            Ok(transport) => transport,
            Err(e) => return Err(abandon(&module, e.to_string())),
        };
        if let Err(reason) = publish(module.component(), transport.address()) {
            let reason = abandon(&module, reason);
            drop(transport);
            return Err(reason);
        }
        let registers_pages = transport.capabilities().registers_pages;
        module.registrations = module.registrations.suited(registers_pages);
        describe(&mut module.btl, &transport);
        module.transport.write(transport);
        let module = Box::leak(module);
        let owner: *mut Module = module;
        module.transport().set_owner(owner.cast());
        let report = ErrorReport {
            function: transport_error,
            context: owner.cast(),
        };
        module.transport().on_error(Some(report));
        // Pairs with `current`.
        CURRENT.store(owner, Ordering::Release);
        Ok(NonNull::from(module))
    }

    /// Ends a module: nothing is left in flight, registered or open afterwards.
    pub(crate) fn end(module: NonNull<Module>) {
        CURRENT.store(null_mut(), Ordering::Release);
        // SAFETY: from `open`, and ended once: Open MPI finalises a module once.
        let mut module = unsafe { Box::from_raw(module.as_ptr()) };
        // What is in flight may name memory whose registration ends next.
        module.transport().flush_for_close();
        module.registrations.close();
        // SAFETY: initialised since `open`, not used after.
        let transport = unsafe { module.transport.assume_init_read() };
        log::verbose(1, || counts(&transport));
        if let Err(e) = transport.close() {
            log::line(&format!("while closing: {e}"));
        }
        module.transport = MaybeUninit::uninit();
    }

    /// The module that lives.
    #[inline]
    pub(crate) fn current<'a>() -> Option<&'a Module> {
        // SAFETY: NULL or a module that `open` leaked; Open MPI calls nothing of a module that it finalises.
        unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
    }

    /// The module behind Open MPI's pointer.
    ///
    /// # Safety
    /// `btl` is NULL or the pointer that `init` returned, and not finalised.
    #[inline]
    pub(crate) unsafe fn of<'a>(btl: *mut ffi::mca_btl_base_module_t) -> Option<&'a Module> {
        // SAFETY: the structure is the module's first field.
        unsafe { btl.cast::<Module>().as_ref() }
    }

    /// The component, as the modex knows it.
    pub(crate) fn component(&self) -> *const ffi::mca_base_component_t {
        // The version that Open MPI calls the component is the structure's first field.
        self.btl.btl_component.cast_const().cast()
    }

    /// Sets Open MPI's function for errors.
    pub(crate) fn on_error(&self, callback: ffi::mca_btl_base_module_error_cb_fn_t) {
        let pointer = callback.map_or(null_mut(), |f| f as *mut c_void);
        self.error.store(pointer, Ordering::Release);
    }

    /// The transport.
    #[inline]
    pub(crate) fn transport(&self) -> &Transport {
        // SAFETY: `open` initialised it before anybody else saw the module; `end` takes it last.
        unsafe { self.transport.assume_init_ref() }
    }

    /// How memory is registered.
    pub(crate) fn registrations(&self) -> Registrations {
        self.registrations
    }

    /// The peers. Not held while the transport or Open MPI is called.
    pub(crate) fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells Open MPI of an error after which the job cannot go on. Its callback (pml/ob1's, by default) ends the
    /// job. Without one, as under a pml that uses no BTL, the runtime is asked to: osc/rdma would try a refused
    /// operation again and again.
    #[cold]
    pub(crate) fn fail(&self, endpoint: *mut Endpoint, what: &str) {
        if self.failed.swap(true, Ordering::Relaxed) {
            return;
        }
        let proc = self.peers().proc_of(endpoint);
        let text = format!(
            "btl/{}: {what}; ending the job",
            identity::NAME.to_string_lossy()
        );
        let info = CString::new(text).unwrap_or_default();
        let callback = self.error.load(Ordering::Acquire);
        if !callback.is_null() {
            // SAFETY: `register_error` stored nothing but an ErrorCallback.
            let callback = unsafe { transmute::<*mut c_void, ErrorCallback>(callback) };
            let btl = (&raw const self.btl).cast_mut();
            // SAFETY: Open MPI's function, with this module and a line that it prints during the call.
            unsafe {
                callback(
                    btl,
                    ErrorFlags::FATAL.bits() as i32,
                    proc,
                    info.as_ptr().cast_mut(),
                )
            };
        } else {
            log::line(&format!("{what}; ending the job"));
            // SAFETY: a NUL-terminated message.
            unsafe { ffi::mca_btl_ofi_host_abort(1, info.as_ptr()) };
        }
    }
}

/// Says which provider is taken, and why each other is not.
fn tell_choice(options: &Options, level: ThreadLevel) {
    if log::verbosity() < 1 {
        return;
    }
    log::line(&identity::description());
    match survey(options, level) {
        Ok(candidates) => {
            for candidate in candidates {
                let verdict = match (&candidate.refusal, candidate.chosen) {
                    (Some(why), _) => format!("not taken: {why}"),
                    (None, true) => String::from("taken"),
                    (None, false) => String::from("usable, but not the first"),
                };
                log::line(&format!(
                    "provider {} on {}: {verdict}",
                    candidate.name, candidate.domain
                ));
            }
        }
        Err(e) => log::line(&format!("{e}")),
    }
}

/// Publishes the address for every process of the job.
fn publish(component: *const ffi::mca_base_component_t, address: &[u8]) -> Result<(), String> {
    // SAFETY: our exported component and a buffer that the modex copies.
    let rc = unsafe {
        ffi::mca_btl_ofi_host_modex_send(component, address.as_ptr().cast(), address.len())
    };
    Status(rc)
        .ok()
        .map(|_| ())
        .map_err(|status| format!("the address could not be published: {status}"))
}

/// Fills in what the provider really offers, less what the user took away.
fn describe(btl: &mut ffi::mca_btl_base_module_t, transport: &Transport) {
    let offered = transport.capabilities();
    btl.btl_exclusivity = offered.exclusivity;
    btl.btl_latency = offered.latency;
    btl.btl_bandwidth = offered.bandwidth;
    // Bits that BTL does not know stay with the transport.
    btl.btl_flags = offered.flags.bits() & FLAGS;
    btl.btl_atomic_flags = (offered.atomic_flags - NOT_DECLARED).bits();
    btl.btl_put_limit = offered.put_limit;
    btl.btl_get_limit = offered.get_limit;
    // 0: none.
    btl.btl_put_alignment = 0;
    btl.btl_get_alignment = 0;
    // No local handle is ever needed: the transport refuses providers that want one (FI_MR_LOCAL). With a threshold of 0 osc/rdma would copy each put into its one fragment, or
    // register the user's buffer each time; above the threshold it also wants a callback.
    btl.btl_put_local_registration_threshold = usize::MAX;
    btl.btl_get_local_registration_threshold = usize::MAX;
    log::verbose(1, || {
        format!(
            "using {} on {}: put limit {}, get limit {}, flags {:#x}, atomics {:#x}; {}",
            offered.provider.to_string_lossy(),
            offered.domain.to_string_lossy(),
            btl.btl_put_limit,
            btl.btl_get_limit,
            btl.btl_flags,
            btl.btl_atomic_flags,
            offered.completion.to_string_lossy()
        )
    });
}

/// Called by the transport when a peer or the module is gone, or an operation without callback failed.
unsafe extern "C" fn transport_error(
    _module: *mut plugin_api::Module,
    flags: u32,
    endpoint: *mut plugin_api::Endpoint,
    _proc: u64,
    status: i32,
    info: *const c_char,
    context: *mut c_void,
) {
    guarded("transport_error", (), || {
        // SAFETY: `context` is the module that registered this function.
        let Some(module) = (unsafe { context.cast::<Module>().as_ref() }) else {
            return;
        };
        let text = if info.is_null() {
            Status(status).to_string()
        } else {
            // SAFETY: a NUL-terminated line, lent for the call.
            unsafe { std::ffi::CStr::from_ptr(info) }
                .to_string_lossy()
                .into_owned()
        };
        let _ = flags;
        // Fatal whatever the transport thinks of it: osc/rdma has no way to go on without a peer, and waits for
        // ever if nobody ends the job.
        module.fail(endpoint.cast(), &text);
    });
}

/// What a transport did so far, for people.
pub(crate) fn counts(transport: &Transport) -> String {
    let offered = transport.capabilities();
    let stats = transport.stats();
    format!(
        "{} on {}: {} peers, {} registrations, {} operations posted, {} completed, {} failed, {} turned away",
        offered.provider.to_string_lossy(),
        offered.domain.to_string_lossy(),
        stats.endpoints,
        stats.registrations,
        stats.posted,
        stats.completed,
        stats.failed,
        stats.again
    )
}

//! A BTL module: Open MPI's structure and the transport behind it; opens, reports errors and ends. The functions
//! that Open MPI calls are in `entries`.

use std::ffi::{CString, c_char, c_void};
use std::mem::{MaybeUninit, transmute};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use btl_ofi::{Endpoint, ErrorReport, Handle, Options, Receive, Transport};
use plugin_api::{ErrorFlags, ModuleFlags, ReceiveFn, Status, ThreadLevel};

use crate::bindings as ffi;
use crate::btl::flags::{FLAGS, NOT_DECLARED};
use crate::btl::fragments::{Door, Fragments};
use crate::btl::own_words::OwnWords;
use crate::btl::params;
use crate::btl::peers::Peers;
use crate::btl::registrations::Registrations;
use crate::btl::sender;
use crate::btl::transfers::Transfers;
use crate::guard::guarded;
use crate::identity;
use crate::log::{self, counts};

/// Open MPI's error callback.
type ErrorCallback =
    unsafe extern "C" fn(*mut ffi::mca_btl_base_module_t, i32, *mut ffi::opal_proc_t, *mut c_char);

/// A module. Open MPI sees the first field only.
#[repr(C)]
pub(crate) struct Module {
    btl: ffi::mca_btl_base_module_t,
    /// Initialised from `open` to `end`. The module never moves, because the registration cache
    /// holds its address.
    transport: MaybeUninit<Transport>,
    registrations: Registrations,
    peers: Mutex<Peers>,
    fragments: Fragments,
    transfers: Transfers,
    own_words: OwnWords,
    /// An [`ErrorCallback`], or NULL.
    error: AtomicPtr<c_void>,
    /// Set by the first error that ends the job, other than a lost peer; later errors, which follow from it, are not reported.
    /// `end` sets the flag, too.
    failed: AtomicBool,
}

/// Smallest put and get limit of a usable provider, bytes. osc/rdma splits transfers by the limits, but not the
/// fragments of an accumulate: one eighth of its buffer, which has 32 KiB by default (osc_rdma_buffer_size). The
/// transport refuses providers with a smaller limit.
const SMALLEST_LIMIT: usize = 4096;

/// The functions of `entries` that a module has.
pub(crate) struct Functions {
    /// Open MPI's structure with the functions set.
    pub(crate) table: ffi::mca_btl_base_module_t,
    /// Sets the functions of operations for a transport.
    pub(crate) choose: fn(&mut ffi::mca_btl_base_module_t, &Transport),
    /// Receives messages; its last argument is the module.
    pub(crate) receive: ReceiveFn,
}

impl Module {
    /// Selects and opens a provider, and fills in Open MPI's structure.
    ///
    /// # Safety
    /// Below [`ThreadLevel::Multiple`], Open MPI's calls of the module never overlap.
    pub(crate) unsafe fn open(
        functions: Functions,
        mut options: Options,
        level: ThreadLevel,
    ) -> Result<NonNull<Module>, String> {
        options.need_limit(SMALLEST_LIMIT);
        // osc/rdma's callbacks look at the status in debug builds only, and take the operation as complete. pml/ob1 looks at it.
        if !params::tolerates_faults() {
            options.report_every_failure();
        }
        let mut module = Box::new(Module {
            btl: functions.table,
            transport: MaybeUninit::uninit(),
            registrations: Registrations::Direct,
            peers: Mutex::new(Peers::default()),
            fragments: Fragments::default(),
            transfers: Transfers::default(),
            own_words: OwnWords::default(),
            error: AtomicPtr::new(null_mut()),
            failed: AtomicBool::new(false),
        });
        // Before libfabric can start threads: see `Registrations::open`.
        module.registrations = Registrations::open(&raw mut module.transport);
        log_choice(&options, level);
        // SAFETY: the caller guarantees that calls below MULTIPLE do not overlap.
        let transport = match unsafe { Transport::open_at(&options, level) } {
            Ok(transport) => transport,
            Err(e) => {
                module.registrations.close();
                return Err(e.to_string());
            }
        };
        let registers_pages = transport.capabilities().registers_pages;
        module.registrations = module.registrations.for_provider(registers_pages);
        describe(&mut module.btl, &transport);
        (functions.choose)(&mut module.btl, &transport);
        module.transport.write(transport);
        let module = Box::leak(module);
        let owner: *mut Module = module;
        module.transport().set_owner(owner.cast());
        let report = ErrorReport {
            function: transport_error,
            context: owner.cast(),
        };
        module.transport().on_error(Some(report));
        module.transport().on_receive(Some(Receive {
            function: functions.receive,
            context: owner.cast(),
        }));
        Ok(NonNull::from(module))
    }

    /// Ends a module. Afterwards nothing is in flight, registered or open.
    pub(crate) fn end(module: NonNull<Module>) {
        // SAFETY: `open` leaked the module's box, and Open MPI finalises a module once.
        let mut module = unsafe { Box::from_raw(module.as_ptr()) };
        // Open MPI may have unloaded pml/ob1 (4.1 has): from here on its functions for messages and errors are not called.
        // The functions of operations still are; MPI_Win_free has waited for these operations. Messages that still arrive
        // are dropped.
        module.transport().on_receive(None);
        module.transport().on_error(None);
        module.failed.store(true, Ordering::Relaxed);
        module.fragments.send_before_close(module.transport());
        // Operations in flight may use memory whose registration ends next.
        module.transport().flush_for_close();
        module.registrations.close();
        // SAFETY: `open` initialised the field, and it is not read again: the next store overwrites it.
        let transport = unsafe { module.transport.assume_init_read() };
        log::verbose(1, || counts(&transport));
        if let Err(e) = transport.close() {
            log::line(&format!("closing the transport failed: {e}"));
        }
        module.transport = MaybeUninit::uninit();
    }

    /// The module behind Open MPI's pointer.
    ///
    /// # Safety
    /// `btl` is NULL or the pointer that `init` returned, and not finalised.
    #[inline]
    pub(crate) unsafe fn of<'a>(btl: *mut ffi::mca_btl_base_module_t) -> Option<&'a Module> {
        // SAFETY: the caller guarantees NULL or a live module, and `btl` is the module's first field.
        unsafe { btl.cast::<Module>().as_ref() }
    }

    /// The component, in the type that the modex takes.
    pub(crate) fn component(&self) -> *const ffi::mca_base_component_t {
        // The structure's first field, its "version", is the base component.
        self.btl.btl_component.cast_const().cast()
    }

    /// The endpoint of this process and the handle of its region of `size` bytes at `address`, for a compare-and-swap on the
    /// own window, because osc/rdma passes no handle for it. `None` for another endpoint, and if the peers change the word
    /// under osc/rdma's lock.
    #[cold]
    pub(crate) fn own_word(
        &self,
        endpoint: *const Endpoint,
        (address, size): (u64, u64),
    ) -> Option<(NonNull<Endpoint>, Handle)> {
        let own = self.peers().own()?;
        if !endpoint.is_null() && endpoint != own.as_ptr().cast_const() {
            return None;
        }
        let handle = self.transport().own_handle(address, size)?;
        (!self.own_words.is_locked(&handle)).then_some((own, handle))
    }

    /// Sets Open MPI's error callback.
    pub(crate) fn on_error(&self, callback: ffi::mca_btl_base_module_error_cb_fn_t) {
        let pointer = callback.map_or(null_mut(), |f| f as *mut c_void);
        // Release: pairs with the Acquire load in `fail`.
        self.error.store(pointer, Ordering::Release);
    }

    #[inline]
    pub(crate) fn transport(&self) -> &Transport {
        // SAFETY: `open` initialised the field before it published the module; `end` is the last user.
        unsafe { self.transport.assume_init_ref() }
    }

    /// The parts of the module that descriptors need.
    pub(crate) fn door(&self) -> Door<'_> {
        Door {
            transport: self.transport(),
            btl: self.btl(),
        }
    }

    /// The structure that Open MPI knows.
    pub(crate) fn btl(&self) -> *mut ffi::mca_btl_base_module_t {
        (&raw const self.btl).cast_mut()
    }

    /// The module's descriptors of messages.
    pub(crate) fn fragments(&self) -> &Fragments {
        &self.fragments
    }

    /// The module's puts and gets that wait for room.
    #[inline]
    pub(crate) fn transfers(&self) -> &Transfers {
        &self.transfers
    }

    /// Whether Open MPI sends `size` bytes by a transfer, and not at once as a message. False without messages.
    pub(crate) fn is_long(&self, size: usize) -> bool {
        let eager = self.btl.btl_eager_limit;
        eager > 0 && size + params::HEADER > eager
    }

    /// The module's way to register memory.
    pub(crate) fn registrations(&self) -> Registrations {
        self.registrations
    }

    /// Locks the peers. Callers release the lock before they call the transport or Open MPI.
    pub(crate) fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports an error to Open MPI. The error callback (by default pml/ob1's) ends the job. Without a callback, as under a pml
    /// that uses no BTL, the runtime aborts the job: otherwise osc/rdma would retry a refused operation for ever.
    ///
    /// With fault tolerance (ULFM in 5.0 and 6.0) the callback excludes the reported process, and the job continues. So each
    /// lost peer is reported, once and with its process. Any other error is reported once per module and without a process,
    /// also if it concerns a peer: the peer lives, and only the end of the job keeps osc/rdma from repeating the operation.
    #[cold]
    pub(crate) fn fail(&self, endpoint: *const Endpoint, status: Status, what: &str) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: the pointer is NULL or an endpoint of the transport, which keeps it readable until it closes.
        let is_lost = unsafe { endpoint.as_ref() }.is_some_and(|peer| is_lost(peer, status));
        let proc = if is_lost {
            let lost = self.peers().lose(endpoint);
            // No call waits for a peer that was released.
            let Some(proc) = lost else { return };
            proc
        } else {
            if self.failed.swap(true, Ordering::Relaxed) {
                return;
            }
            null_mut()
        };
        let text = format!(
            "btl/{}: {what}; ending the job",
            identity::NAME.to_string_lossy()
        );
        let info = CString::new(text).unwrap_or_default();
        let callback = self.error.load(Ordering::Acquire);
        if !callback.is_null() {
            // SAFETY: `on_error` stores only NULL or an `ErrorCallback`, and `callback` is not NULL.
            let callback = unsafe { transmute::<*mut c_void, ErrorCallback>(callback) };
            let btl = self.btl();
            // SAFETY: the callback is Open MPI's; the module is live, and the line lives through the call.
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
            // SAFETY: `info` is NUL-terminated and lives through the call.
            unsafe { ffi::mca_btl_ofi_host_abort(1, info.as_ptr()) };
        }
    }
}

/// Whether an error with this status means that the peer's process is lost. FATAL marks peers that may live, but that a broken
/// transport no longer reaches.
fn is_lost(peer: &Endpoint, status: Status) -> bool {
    match peer.failure() {
        Some(why) => why != Status::FATAL,
        // The peer is marked after its first operation has failed.
        None => status == Status::UNREACH,
    }
}

/// Logs the selected provider and the reason against each other one.
fn log_choice(options: &Options, level: ThreadLevel) {
    if log::verbosity() < 1 {
        return;
    }
    log::line(&identity::description());
    match Transport::survey(options, level) {
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

/// Fills in the provider's capabilities, without those that the user disabled.
fn describe(btl: &mut ffi::mca_btl_base_module_t, transport: &Transport) {
    let offered = transport.capabilities();
    btl.btl_exclusivity = offered.exclusivity;
    btl.btl_latency = offered.latency;
    btl.btl_bandwidth = offered.bandwidth;
    // `FLAGS` removes bits that BTL does not know.
    btl.btl_flags = offered.flags.bits() & FLAGS;
    btl.btl_atomic_flags = (offered.atomic_flags - NOT_DECLARED).bits();
    btl.btl_put_limit = offered.put_limit;
    btl.btl_get_limit = offered.get_limit;
    // 0: no alignment needed.
    if offered.flags.contains(ModuleFlags::SEND) {
        btl.btl_flags |= ffi::MCA_BTL_FLAGS_SEND_INPLACE;
        params::limit_sends(btl, offered.send_limit.saturating_sub(sender::LONGEST));
    }
    btl.btl_put_alignment = 0;
    btl.btl_get_alignment = 0;
    // Up to the threshold no local handle is needed: without FI_MR_LOCAL never. Above it osc/rdma copies a put into its
    // fragment or registers the user's buffer, and it needs a callback.
    btl.btl_put_local_registration_threshold = usize::MAX;
    btl.btl_get_local_registration_threshold = usize::MAX;
    log::verbose(1, || {
        format!(
            "using {} on {}: put limit {}, get limit {}, flags {:#x}, atomics {:#x}; calls {}; {}",
            offered.provider.to_string_lossy(),
            offered.domain.to_string_lossy(),
            bytes(btl.btl_put_limit),
            bytes(btl.btl_get_limit),
            btl.btl_flags,
            btl.btl_atomic_flags,
            match transport.is_threaded() {
                true => "may overlap",
                false => "do not overlap",
            },
            offered.completion.to_string_lossy()
        )
    });
}

/// A size in words. Providers without a limit give a number that no object's size reaches.
fn bytes(limit: usize) -> String {
    match isize::try_from(limit) {
        Ok(limit) => format!("{limit} B"),
        Err(_) => "none".to_owned(),
    }
}

/// The transport's error report: a peer or the module is gone, or an operation failed.
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
        // SAFETY: `context` is the module that registered this function; it outlives its transport.
        let Some(module) = (unsafe { context.cast::<Module>().as_ref() }) else {
            return;
        };
        let text = if info.is_null() {
            Status(status).to_string()
        } else {
            // SAFETY: `info` is NUL-terminated and valid during the call.
            unsafe { std::ffi::CStr::from_ptr(info) }
                .to_string_lossy()
                .into_owned()
        };
        let _ = flags;
        // Always fatal, whatever the transport's flags: osc/rdma cannot continue without a peer and would wait for
        // ever.
        module.fail(endpoint.cast(), Status(status), &text);
    });
}

//! A module ready for use; each function of its table is one thin call here.

use std::any::Any;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use plugin_api::{
    Access, CompletionFn, Endpoint, Handle, Module, ModuleFlags, SOLE_ATOMICS, Stats, Status,
    TransferFlags,
};

use super::error::Subject;
use super::failure::{Failure, Listener, report};
use super::modules::{Functions, Modules, ProgressFn};
use super::{Attributes, Registration, TransportError};

/// `MCA_BTL_NO_ORDER`.
pub(super) const NO_ORDER: i32 = 255;

/// Report of an operation's completion: the function, its context and its data. Without a function only a flush tells.
pub type Report = (Option<CompletionFn>, *mut c_void, *mut c_void);

/// No report.
pub const UNREPORTED: Report = (None, std::ptr::null_mut(), std::ptr::null_mut());

/// A peer of one transport. Stays valid until the transport's last clone is dropped or
/// [`Transport::disconnect`] is called on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct EndpointRef(NonNull<Endpoint>);

// SAFETY: the pointer is opaque, to an object of the module, which locks by itself.
unsafe impl Send for EndpointRef {}
// SAFETY: as for Send.
unsafe impl Sync for EndpointRef {}

impl EndpointRef {
    /// The endpoint, as callbacks receive it.
    #[inline]
    pub fn as_ptr(self) -> *mut Endpoint {
        self.0.as_ptr()
    }
}

struct Inner {
    functions: Functions,
    module: NonNull<Module>,
    progress: ProgressFn,
    component: NonNull<plugin_api::Component>,
    attributes: Attributes,
    modules: Arc<Modules>,
}

// SAFETY: plain functions and opaque pointers to objects of the component, whose contract covers
// threads.
unsafe impl Send for Inner {}
// SAFETY: as for Send.
unsafe impl Sync for Inner {}

/// One module of an initialised component. Clones share the module; dropping the last clone closes
/// the component. Any thread may call any function, within the thread level given to the component
/// at init.
///
/// Operations return at once. [`Status::SUCCESS`]: under way, and the callback will run (from
/// [`progress`](Self::progress) or [`flush`](Self::flush), of any transport of the component).
/// Any other status: nothing was done and no callback runs. If [`is_again`](Status::is_again) is
/// true, make progress and try again.
#[derive(Clone)]
pub struct Transport(Arc<Inner>);

impl Transport {
    /// The transport of one of `modules`, after a check of its functions and attributes.
    pub(super) fn new(
        modules: Arc<Modules>,
        module: NonNull<Module>,
        functions: Functions,
        attributes: Attributes,
    ) -> Self {
        Transport(Arc::new(Inner {
            functions,
            module,
            progress: modules.progress(),
            component: modules.component(),
            attributes,
            modules,
        }))
    }

    /// The module's capabilities.
    #[inline]
    pub fn attributes(&self) -> &Attributes {
        &self.0.attributes
    }

    /// The component's pointer, for the plugin's functions.
    #[inline]
    pub fn component(&self) -> *mut plugin_api::Component {
        self.0.component.as_ptr()
    }

    /// The function that makes progress.
    #[inline]
    pub fn progress_fn(&self) -> ProgressFn {
        self.0.progress
    }

    /// The module's pointer, for the plugin's functions.
    #[inline]
    pub fn module(&self) -> *mut Module {
        self.0.module.as_ptr()
    }

    /// The module's functions.
    #[inline]
    pub fn functions(&self) -> &Functions {
        &self.0.functions
    }

    /// Makes endpoints for processes; `None` for a process that cannot be reached. The addresses
    /// must have been exchanged before. A connected process gets the same endpoint again, and needs
    /// one more [`disconnect`](Self::disconnect).
    pub fn connect(&self, procs: &[u64]) -> Result<Vec<Option<EndpointRef>>, TransportError> {
        let mut endpoints = vec![std::ptr::null_mut(); procs.len()];
        // SAFETY: both arrays have `procs.len()` elements.
        let status = unsafe {
            (self.0.functions.add_procs)(
                self.module(),
                procs.len(),
                procs.as_ptr(),
                endpoints.as_mut_ptr(),
            )
        };
        status.ok().map_err(|status| TransportError {
            operation: "add_procs",
            subject: Subject::Procs(procs.len()),
            status,
        })?;
        Ok(endpoints
            .into_iter()
            .map(|endpoint| NonNull::new(endpoint).map(EndpointRef))
            .collect())
    }

    /// Releases endpoints after their outstanding operations have ended.
    ///
    /// # Safety
    /// Each endpoint comes from [`connect`](Self::connect) on this transport and is released at
    /// most as often as it was connected; it is not used after the last release.
    pub unsafe fn disconnect(&self, endpoints: &[EndpointRef]) -> Result<(), TransportError> {
        // SAFETY: EndpointRef is a transparent NonNull, so the slice is an array of pointers; the
        // caller vouches for the endpoints.
        let status = unsafe {
            (self.0.functions.del_procs)(
                self.module(),
                endpoints.len(),
                endpoints.as_ptr().cast::<*mut Endpoint>(),
            )
        };
        status.ok().map(drop).map_err(|status| TransportError {
            operation: "del_procs",
            subject: Subject::Procs(endpoints.len()),
            status,
        })
    }

    /// Registers `len` bytes at `base` for `access`, with every peer.
    ///
    /// # Safety
    /// The memory stays mapped while the registration lives, and its owner accepts that peers
    /// access it as `access` allows.
    pub unsafe fn register(
        &self,
        base: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<Registration, TransportError> {
        // SAFETY: the caller vouches for the memory.
        unsafe { self.register_as(base, len, access.bits()) }
    }

    /// # Safety
    /// As for [`register`](Self::register).
    unsafe fn register_as(
        &self,
        base: *mut u8,
        len: usize,
        access: u32,
    ) -> Result<Registration, TransportError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the caller vouches for the memory; `handle` is writable.
        let status = unsafe {
            (self.0.functions.register_mem)(
                self.module(),
                std::ptr::null_mut(),
                base.cast(),
                len,
                access,
                &mut handle,
            )
        };
        self.registration("register_mem", (base, len), status, handle)
    }

    /// [`register`](Self::register) for memory whose elements only atomics of this module change while peers may change
    /// them.
    ///
    /// # Safety
    /// As for [`register`](Self::register).
    pub unsafe fn register_sole(
        &self,
        base: *mut u8,
        len: usize,
        access: Access,
    ) -> Result<Registration, TransportError> {
        let sole = match self.attributes().flags.contains(ModuleFlags::SOLE_ATOMICS) {
            true => SOLE_ATOMICS,
            false => 0,
        };
        // SAFETY: the caller vouches for the memory.
        unsafe { self.register_as(base, len, access.bits() | sole) }
    }

    /// [`register`](Self::register) for memory that is a shared mapping of a file, from a given offset on. Peers of this node
    /// may map the file if it is a memfd sealed against shrinking and the plugin supports this. The file need not stay open.
    ///
    /// # Safety
    /// As for [`register`](Self::register). The memory is a shared mapping of the file at this place.
    pub unsafe fn register_shared(
        &self,
        base: *mut u8,
        len: usize,
        access: Access,
        (file, offset): (BorrowedFd<'_>, u64),
    ) -> Result<Registration, TransportError> {
        let Some(register_shared) = self.0.functions.register_shared else {
            // SAFETY: the caller vouches for the memory.
            return unsafe { self.register(base, len, access) };
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the caller vouches for the memory and its file, which is open; `handle` is writable.
        let status = unsafe {
            register_shared(
                self.module(),
                std::ptr::null_mut(),
                base.cast(),
                len,
                access.bits(),
                file.as_raw_fd(),
                offset,
                &mut handle,
            )
        };
        self.registration("register_shared", (base, len), status, handle)
    }

    /// The result of a function that registers memory.
    pub(super) fn registration(
        &self,
        operation: &'static str,
        (base, len): (*mut u8, usize),
        status: Status,
        handle: *mut Handle,
    ) -> Result<Registration, TransportError> {
        let error = |status| TransportError {
            operation,
            subject: Subject::Memory(base as usize, len),
            status,
        };
        status.ok().map_err(error)?;
        // Success without a handle breaks the contract.
        let handle = NonNull::new(handle).ok_or(error(Status::ERROR))?;
        Ok(Registration::new(self.clone(), handle, base as usize, len))
    }

    /// # Safety
    /// `handle` is live and not used afterwards.
    pub(super) unsafe fn deregister(&self, handle: NonNull<Handle>) -> Status {
        // SAFETY: the caller vouches for the handle.
        unsafe { (self.0.functions.deregister_mem)(self.module(), handle.as_ptr()) }
    }

    /// Writes `size` bytes from `local` to `remote` at the peer. Without a callback, only
    /// [`flush`](Self::flush) reports the completion.
    ///
    /// # Safety
    /// `endpoint` is connected. `local` is readable until completion. `local_handle` covers it, or
    /// is NULL and `size` within the registration threshold. `remote_handle` points to the bytes
    /// of a handle that is live at the peer and covers `remote`. The callback of `report` may be called with
    /// its context and data.
    #[inline]
    pub unsafe fn put(
        &self,
        endpoint: EndpointRef,
        (local, local_handle): (*const u8, *mut Handle),
        remote: (u64, *const Handle),
        size: usize,
        report: Report,
    ) -> Status {
        let (how, local) = ((true, TransferFlags::empty()), local.cast_mut());
        // SAFETY: the caller vouches for every pointer; put only reads `local`.
        unsafe { self.transfer(how, endpoint, (local, local_handle), remote, size, report) }
    }

    /// Whether the plugin has a function for [`put_notify`](Self::put_notify).
    pub fn can_notify(&self) -> bool {
        self.0.functions.put_notify.is_some()
    }

    /// As [`put`](Self::put), and adds 1 to the counter at `counter` of the peer, in the memory of `counter_handle`, once
    /// the bytes are visible there. [`Status::NOT_SUPPORTED`]: the plugin has no such function.
    ///
    /// # Safety
    /// As for [`put`](Self::put); `counter_handle` points to the bytes of a handle that is live at the peer.
    #[inline]
    pub unsafe fn put_notify(
        &self,
        endpoint: EndpointRef,
        (local, local_handle): (*const u8, *mut Handle),
        (remote, remote_handle): (u64, *const Handle),
        size: usize,
        (counter, counter_handle): (u64, *const Handle),
        (callback, context, data): Report,
    ) -> Status {
        let Some(put_notify) = self.0.functions.put_notify else {
            return Status::NOT_SUPPORTED;
        };
        // SAFETY: the caller vouches for every pointer; the function only reads `local`.
        unsafe {
            put_notify(
                self.module(),
                endpoint.as_ptr(),
                local.cast_mut().cast(),
                remote,
                local_handle,
                remote_handle,
                size,
                counter,
                counter_handle,
                1,
                callback,
                context,
                data,
            )
        }
    }

    /// Reads `size` bytes from `remote` at the peer to `local`.
    ///
    /// # Safety
    /// As for [`put`](Self::put), with `local` writable and not accessed until completion.
    #[inline]
    pub unsafe fn get(
        &self,
        endpoint: EndpointRef,
        local: (*mut u8, *mut Handle),
        remote: (u64, *const Handle),
        size: usize,
        report: Report,
    ) -> Status {
        let how = (false, TransferFlags::empty());
        // SAFETY: the caller vouches for every pointer.
        unsafe { self.transfer(how, endpoint, local, remote, size, report) }
    }

    /// [`put`](Self::put), or [`get`](Self::get) if not `puts`, with flags.
    ///
    /// # Safety
    /// As for [`put`](Self::put) and [`get`](Self::get). With [`TransferFlags::CHECKED`], which is for modules with
    /// [`ModuleFlags::CHECKS_KEYS`] only, the handle need not be live any more.
    #[inline]
    pub unsafe fn transfer(
        &self,
        (puts, flags): (bool, TransferFlags),
        endpoint: EndpointRef,
        (local, local_handle): (*mut u8, *mut Handle),
        (remote, remote_handle): (u64, *const Handle),
        size: usize,
        (callback, context, data): Report,
    ) -> Status {
        let functions = &self.0.functions;
        let function = if puts { functions.put } else { functions.get };
        // SAFETY: the caller vouches for every pointer; a put only reads `local`.
        unsafe {
            function(
                self.module(),
                endpoint.as_ptr(),
                local.cast(),
                remote,
                local_handle,
                remote_handle,
                size,
                flags.bits(),
                NO_ORDER,
                callback,
                context,
                data,
            )
        }
    }

    /// Makes progress of every module of the component and runs the callbacks of completed operations. A callback
    /// may call this function. Returns the number of completions, a larger number if the call served peers, or a
    /// negative [`Status`].
    #[inline]
    pub fn progress(&self) -> i32 {
        // SAFETY: the component lives as long as `self`.
        unsafe { (self.0.progress)(self.0.component.as_ptr()) }
    }

    /// Waits until the operations that this thread issued to one peer, or to all, are complete and
    /// their callbacks have run. A callback must not call this function. An error: operations
    /// without callback failed since the last flush, or a peer is gone.
    #[inline]
    pub fn flush(&self, endpoint: Option<EndpointRef>) -> Status {
        let endpoint = endpoint.map_or(std::ptr::null_mut(), EndpointRef::as_ptr);
        // SAFETY: an EndpointRef is connected; NULL stands for all peers.
        unsafe { (self.0.functions.flush)(self.module(), endpoint) }
    }

    /// Sets the function for failures that no callback reports; replaces an earlier one. The
    /// function runs on the thread that makes progress, and must not flush.
    pub fn on_error(&self, listener: impl Fn(Failure) + Send + Sync + 'static) -> Status {
        let listener = Arc::new(Listener(Box::new(listener)));
        let context = Arc::as_ptr(&listener);
        // SAFETY: `report` takes a Listener, which lives until every module is finalised.
        let status = unsafe {
            (self.0.functions.register_error)(
                self.module(),
                Some(report),
                context.cast_mut().cast::<c_void>(),
            )
        };
        // The function is kept with any status, because a plugin that refuses the function may have
        // stored it.
        self.0.modules.keep(listener);
        status
    }

    /// The same transport, with other functions in its table. The other functions take the arguments of the module's
    /// own functions and do the same work; `used` is kept until every module is finalised.
    pub fn through(
        &self,
        functions: Functions,
        progress: ProgressFn,
        used: Arc<dyn Any + Send + Sync>,
    ) -> Transport {
        let inner = &self.0;
        inner.modules.keep(used);
        Transport(Arc::new(Inner {
            functions,
            module: inner.module,
            progress,
            component: inner.component,
            attributes: inner.attributes.clone(),
            modules: Arc::clone(&inner.modules),
        }))
    }

    /// The module's counts since init.
    pub fn stats(&self) -> Result<Stats, TransportError> {
        let mut stats = Stats::new();
        // SAFETY: `stats` declares its own size, beyond which nothing is written.
        let status = unsafe { (self.0.functions.stats)(self.module(), &mut stats) };
        status.ok().map_err(|status| TransportError {
            operation: "stats",
            subject: Subject::Module,
            status,
        })?;
        Ok(stats)
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Transport({}, {})",
            self.0.attributes.provider, self.0.attributes.domain
        )
    }
}

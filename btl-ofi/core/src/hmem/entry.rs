//! The transport's functions for device memory, and where operations that touch it turn off the way of
//! host memory.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::PoisonError;

use libfabric_sys as ffi;
use plugin_api::{Access, AtomicOp, HmemInfo, IoVec, OverrideOps, Status, hmem_iface};

use super::agent::Agent;
use super::copy::Copier;
use super::cuda;
use super::region::Descriptor;
use super::staged::{Action, Ask, Op, Side};
use crate::address::Handle;
use crate::endpoint::Endpoint;
use crate::error::{CallError, Error};
use crate::record::Tag;
use crate::registration::Region;
use crate::rma::{Caller, Needs};
use crate::transport::Transport;

/// Most lanes of a mailbox: each is a megabyte.
const MOST_LANES: usize = 16;

impl Transport {
    /// Sets how device memory is reached by everything registered from now on; `None` goes back to
    /// our own functions. The provider is offered them first; where it does not take them, they are
    /// used here all the same, and by it not at all.
    pub fn set_overrides(&self, ops: Option<&OverrideOps>) {
        let copier = ops.map_or_else(Copier::default, Copier::new);
        *self
            .hmem
            .copier
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = copier;
        let mut offer = self
            .hmem
            .offer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if ops.is_none() && !offer.is_taken() {
            return;
        }
        // SAFETY: the device, and so its domain, lives as long as the transport.
        let rc = unsafe { offer.make(self.device.domain(), copier) };
        if rc == 0 {
            tracing::info!("the provider uses the user's functions for device memory too");
        } else if rc != -(ffi::FI_ENOSYS as i32) {
            let code = -rc;
            let call = "fi_set_ops(FI_SET_OPS_HMEM_OVERRIDE)";
            tracing::warn!(
                "{}; the transport uses the functions itself",
                CallError { call, code }
            );
        }
    }

    /// Registers `length` bytes at `base` on device number `device` of kind `iface`: directly where
    /// the provider takes it, else for copies.
    ///
    /// # Errors
    /// As for [`register`](Self::register); [`Status::NOT_SUPPORTED`] when nothing reaches this kind.
    ///
    /// # Safety
    /// As for [`register`](Self::register).
    pub unsafe fn register_hmem(
        &self,
        base: *mut c_void,
        length: usize,
        access: Access,
        iface: u32,
        device: u64,
    ) -> Result<Region, Error> {
        if iface == hmem_iface::SYSTEM {
            // SAFETY: the caller vouches for the memory.
            return unsafe { self.register(base, length, access) };
        }
        let copier = self.hmem.copier();
        if self.hmem_provider && length > 0 {
            match self
                .registrar
                .register_direct(base, length, access, iface, device, copier)
            {
                Ok(region) => return Ok(region),
                Err(e) => self.fall_back(iface, &e),
            }
        }
        if !copier.may_reach(iface) {
            return Err(Error::Call {
                doing: format!(
                    "registering {length} bytes of interface {iface} at {:#x}: the provider does \
                     not take it, no override is set, and the transport does not know it",
                    base as u64
                ),
                source: CallError {
                    call: "copy_from_hmem_iov",
                    code: ffi::FI_ENOSYS as i32,
                },
            });
        }
        let remote = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let mailbox = if access.intersects(remote) && length > 0 {
            self.mailbox()?
        } else {
            Handle::vacant()
        };
        self.registrar
            .register_staged(base, length, access, iface, copier, &mailbox)
    }

    fn mailbox(&self) -> Result<Handle, Error> {
        let limit = self.put_limit.min(self.get_limit);
        self.hmem.mailbox(
            || {
                let peers = self.lock_peers().known.len();
                let lanes = peers.clamp(1, MOST_LANES);
                let regions = self.registrar.device_regions();
                Some((Agent::new(lanes, limit, regions)?, self.hmem_thread))
            },
            |agent| {
                let all = Access::LOCAL_WRITE
                    | Access::REMOTE_READ
                    | Access::REMOTE_WRITE
                    | Access::REMOTE_ATOMIC;
                self.registrar
                    .register(agent.base().cast(), agent.bytes(), all)
            },
        )
    }

    #[cold]
    fn fall_back(&self, iface: u32, error: &Error) {
        if self
            .said_fall_back
            .swap(true, std::sync::atomic::Ordering::Relaxed)
        {
            return;
        }
        tracing::warn!(
            "the provider offers FI_HMEM, but refuses memory of interface {iface} ({error}); \
             copies are used instead"
        );
    }

    /// What is made of a kind of memory.
    pub fn hmem_info(&self, iface: u32) -> HmemInfo {
        let mut info = HmemInfo::new();
        info.provider = u32::from(self.hmem_provider);
        info.overrides = match (self.hmem.copier().is_overridden(), self.hmem.is_offered()) {
            (false, _) => HmemInfo::NONE,
            (true, false) => HmemInfo::TRANSPORT,
            (true, true) => HmemInfo::PROVIDER,
        };
        info.devices = match iface {
            hmem_iface::SYSTEM => 1,
            hmem_iface::CUDA => cuda::devices(),
            _ => 0,
        };
        (info.direct, info.staged) = self.registrar.device_regions().counts();
        info
    }

    /// `copy_from_hmem_iov` with what is in force.
    ///
    /// # Safety
    /// The arrays have `count` elements, `dest` is writable for `size` bytes, and the runs are memory
    /// of their kinds.
    pub unsafe fn copy_from_hmem(
        &self,
        dest: *mut c_void,
        size: usize,
        iov: *const IoVec,
        iface: *const u32,
        count: usize,
        offset: u64,
    ) -> isize {
        // SAFETY: as the caller vouches.
        unsafe {
            self.hmem
                .copier()
                .copy_from(dest, size, iov, iface, count, offset)
        }
    }

    /// `copy_to_hmem_iov` with what is in force.
    ///
    /// # Safety
    /// As for [`copy_from_hmem`](Self::copy_from_hmem), with `src` readable.
    pub unsafe fn copy_to_hmem(
        &self,
        iov: *const IoVec,
        iface: *const u32,
        count: usize,
        offset: u64,
        src: *const c_void,
        size: usize,
    ) -> isize {
        // SAFETY: as the caller vouches.
        unsafe {
            self.hmem
                .copier()
                .copy_to(iov, iface, count, offset, src, size)
        }
    }

    /// Where an operation goes that the way of host memory refused with `refusal`: because a handle
    /// is of device memory, or because it is wrong indeed.
    ///
    /// # Safety
    /// As for the operation that was asked.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn elsewhere(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        refusal: Status,
        remote: &Handle,
        ask: Ask,
    ) -> Status {
        // SAFETY: the caller vouches for the pointers.
        match unsafe { self.sides(remote, &ask) } {
            // SAFETY: likewise.
            Ok(Some((local, result))) => unsafe {
                self.staged(endpoint, caller, remote, ask, local, result)
            },
            Ok(None) => refusal,
            Err(status) => status,
        }
    }

    /// Where the bytes of an operation are; `None` when no part of it is of a device.
    ///
    /// # Safety
    /// The handles are NULL or readable.
    unsafe fn sides(&self, remote: &Handle, ask: &Ask) -> Result<Option<(Side, Side)>, Status> {
        let size = ask.size as u64;
        // SAFETY: the caller vouches for the handles.
        let any = unsafe {
            remote.is_device() || is_device(ask.local_handle) || is_device(ask.result_handle)
        };
        if !any {
            return Ok(None);
        }
        if !remote.is_staged() {
            remote.as_host()?.target(ask.address, size, true)?;
        }
        // SAFETY: the caller vouches for the handles.
        let (local, result) = unsafe {
            let local = match ask.value {
                Some(value) => Side::Value(value),
                None => self.side(ask.local, ask.local_handle, size)?,
            };
            (local, self.side(ask.result, ask.result_handle, size)?)
        };
        Ok(Some((local, result)))
    }

    /// # Safety
    /// `handle` is NULL or readable for the size of a handle.
    unsafe fn side(
        &self,
        at: *mut c_void,
        handle: *mut plugin_api::Handle,
        size: u64,
    ) -> Result<Side, Status> {
        if at.is_null() {
            return Ok(Side::Nowhere);
        }
        if handle.is_null() {
            return Ok(Side::Host(at.cast()));
        }
        // SAFETY: the caller vouches for it; nothing is assumed of the alignment.
        let handle = unsafe { ptr::read_unaligned(handle.cast::<Handle>()) };
        if handle.is_device() {
            let region = self
                .registrar
                .device_regions()
                .find(handle.generation())
                .ok_or(Status::BAD_PARAM)?;
            region.covers(at as u64, size)?;
            return Ok(Side::Device(region, at as u64));
        }
        handle.covers(at as u64, size)?;
        Ok(Side::Host(at.cast()))
    }

    /// # Safety
    /// As for [`elsewhere`](Self::elsewhere).
    unsafe fn staged(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        remote: &Handle,
        ask: Ask,
        local: Side,
        result: Side,
    ) -> Status {
        let limit = match ask.action {
            Action::Put => self.put_limit,
            Action::Get => self.get_limit,
            Action::Atomic { datatype, op, .. } => {
                if !ask.address.is_multiple_of(datatype.size() as u64)
                    || (op != AtomicOp::Read && matches!(local, Side::Nowhere) && ask.size > 0)
                {
                    return Status::BAD_PARAM;
                }
                usize::MAX
            }
        };
        if ask.size > limit {
            return Status::VALUE_OUT_OF_BOUNDS;
        }
        if ask.size == 0 {
            return self.nothing(endpoint, caller);
        }
        if remote.is_direct() && !local.is_device() && !result.is_device() {
            // SAFETY: the provider reaches the target, and this side is host memory.
            return unsafe { self.plain(endpoint, caller, &remote.as_live(), ask) };
        }
        if let (false, Side::Device(region, _)) = (remote.is_staged(), &local)
            && let Some(descriptor) = region.descriptor
            && !matches!(ask.action, Action::Atomic { .. })
        {
            // SAFETY: the provider reaches both sides.
            return unsafe { self.described(endpoint, caller, remote, ask, descriptor) };
        }
        let remote = if remote.is_staged() {
            *remote
        } else {
            remote.as_live()
        };
        self.issue_staged(endpoint, caller, remote, ask, local, result)
    }

    fn issue_staged(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        remote: Handle,
        ask: Ask,
        local: Side,
        result: Side,
    ) -> Status {
        // SAFETY: the caller of the operation vouched for the endpoint.
        let peer = unsafe { endpoint.as_ref() };
        let context = self.context();
        let record = {
            let mut state = context.state.lock();
            if let Some(status) = peer.failure() {
                return status;
            }
            let Some(mut record) = state.pool.take() else {
                return Status::OUT_OF_RESOURCE;
            };
            let tag = Tag::new(
                endpoint,
                context.tally.raise(self.threaded),
                peer.tally.raise(self.threaded),
            );
            // SAFETY: just taken from the pool, so nobody else has it.
            unsafe { record.as_mut() }.fill(
                tag,
                caller.completion,
                caller.local_address,
                caller.local_handle,
            );
            state.posted += 1;
            record
        };
        let op = Box::new(Op {
            record,
            context: self.own_index(),
            endpoint,
            action: ask.action,
            local,
            result,
            remote,
            address: ask.address,
            size: ask.size,
            next: 0,
            live: 0,
            status: Status::SUCCESS,
            what: String::new(),
        });
        if let Err(op) = self.hmem.issue(op) {
            let finished = {
                let mut state = context.state.lock();
                state.posted -= 1;
                // SAFETY: taken above; nobody else knows of it.
                unsafe { state.pool.give_back(op.record) }
            };
            self.lower(context, finished.tag, 1);
            return Status::OUT_OF_RESOURCE;
        }
        if !context
            .delivering
            .load(std::sync::atomic::Ordering::Relaxed)
        {
            self.drive();
        }
        Status::SUCCESS
    }

    /// The operation, with a remote handle of memory that the provider reaches.
    ///
    /// # Safety
    /// As for the operation that was asked; this side is host memory.
    unsafe fn plain(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        remote: &Handle,
        ask: Ask,
    ) -> Status {
        let Caller { completion, .. } = caller;
        let Ask {
            local,
            address,
            size,
            ..
        } = ask;
        let none = ptr::null_mut();
        // SAFETY: as the caller vouches.
        unsafe {
            match ask.action {
                Action::Put => self.put(endpoint, local, address, none, remote, size, completion),
                Action::Get => self.get(endpoint, local, address, none, remote, size, completion),
                Action::Atomic {
                    datatype,
                    op,
                    fetch,
                    compare,
                } => {
                    let what = (datatype, op, fetch, compare);
                    self.plain_atomic(endpoint, caller, remote, &ask, what)
                }
            }
        }
    }

    /// Puts or gets between device memory that the provider reaches here and memory that it reaches
    /// there.
    ///
    /// # Safety
    /// As for [`put`](Self::put) or [`get`](Self::get).
    unsafe fn described(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        remote: &Handle,
        ask: Ask,
        Descriptor(descriptor): Descriptor,
    ) -> Status {
        let target = remote
            .as_live()
            .target(ask.address, ask.size as u64, self.virtual_addresses);
        let target = match target {
            Ok(target) => target,
            Err(status) => return status,
        };
        // SAFETY: the caller vouches for the endpoint.
        let address = unsafe { endpoint.as_ref() }.address;
        let delivered = self.policy.delivered;
        let mut descriptor = descriptor;
        // SAFETY: the endpoint is live; the buffer is the caller's until completion, and its
        // registration lives.
        unsafe {
            self.post(endpoint, caller, Needs::default(), |context, pointer, _| {
                if matches!(ask.action, Action::Get) {
                    return (context.calls.read)(
                        context.tx,
                        ask.local,
                        ask.size,
                        descriptor,
                        address,
                        target.address,
                        target.key,
                        pointer,
                    );
                }
                let iov = ffi::iovec {
                    iov_base: ask.local,
                    iov_len: ask.size,
                };
                let rma = ffi::fi_rma_iov {
                    addr: target.address,
                    len: ask.size,
                    key: target.key,
                };
                let message = ffi::fi_msg_rma {
                    msg_iov: &iov,
                    desc: &mut descriptor,
                    iov_count: 1,
                    addr: address,
                    rma_iov: &rma,
                    rma_iov_count: 1,
                    context: pointer,
                    data: 0,
                };
                (context.calls.writemsg)(context.tx, &message, delivered)
            })
        }
    }
}

/// Whether a handle is one of device memory.
///
/// # Safety
/// `handle` is NULL or readable for the size of a handle.
unsafe fn is_device(handle: *mut plugin_api::Handle) -> bool {
    // SAFETY: the caller vouches for it; nothing is assumed of the alignment.
    !handle.is_null() && unsafe { ptr::read_unaligned(handle.cast::<Handle>()) }.is_device()
}

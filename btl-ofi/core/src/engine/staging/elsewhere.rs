//! Dispatch of operations on device memory: finds the location of each side, then the way of the operation.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use libfabric_sys as ffi;
use plugin_api::{AtomicOp, Status};

use super::staged::{Action, Ask, Op, Side};
use crate::engine::post::{Caller, Needs};
use crate::engine::transport::Transport;
use crate::mem::device_regions::Descriptor;
use crate::mem::handle::Handle;
use crate::mem::rights;
use crate::op::record::{Record, Tag};
use crate::peer::endpoint::Endpoint;

impl Transport {
    /// Handles an operation that the host memory path refused with `refusal`: dispatches it if one of its
    /// handles is of device memory, otherwise returns `refusal`.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers are valid until completion; the handles are NULL or readable.
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
        // SAFETY: the caller guarantees that the handles are NULL or readable.
        match unsafe { self.sides(remote, &ask) } {
            // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until
            // completion.
            Ok(Some((local, result))) => unsafe {
                self.staged(endpoint, caller, remote, ask, local, result)
            },
            Ok(None) => refusal,
            Err(status) => status,
        }
    }

    /// The location of an operation's local buffers; `None` if no handle is of device memory.
    ///
    /// # Safety
    /// The handles are NULL or readable.
    unsafe fn sides(&self, remote: &Handle, ask: &Ask) -> Result<Option<(Side, Side)>, Status> {
        let size = ask.size as u64;
        // SAFETY: the caller guarantees that the handles are NULL or readable.
        let any = unsafe {
            remote.is_device() || is_device(ask.local_handle) || is_device(ask.result_handle)
        };
        if !any {
            return Ok(None);
        }
        if !remote.is_staged() {
            remote.as_host()?.target(ask.address, size, true)?;
        }
        // SAFETY: the caller guarantees that the handles are NULL or readable.
        let (local, result) = unsafe {
            let local = match ask.value {
                Some(value) => Side::Value(value),
                None => self.side(ask.local, ask.local_handle, size)?,
            };
            (local, self.side(ask.result, ask.result_handle, size)?)
        };
        Ok(Some((local, result)))
    }

    /// The location of one local buffer.
    ///
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
        // SAFETY: the caller guarantees that a handle that is not NULL is readable; the read requires no
        // alignment.
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

    /// Checks an operation on device memory and issues it.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers are valid until completion.
    unsafe fn staged(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        remote: &Handle,
        ask: Ask,
        local: Side,
        result: Side,
    ) -> Status {
        let access = remote.access();
        let allowed = match ask.action {
            Action::Put => rights::allow_transfer(access, true),
            Action::Get => rights::allow_transfer(access, false),
            Action::Atomic { op, fetch, .. } => {
                rights::allow_atomic(access, rights::kind_of(op, fetch), op)
            }
        };
        if !allowed {
            return Status::PERM;
        }
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
            // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until
            // completion; the local side is host memory.
            return unsafe { self.plain(endpoint, &caller, &remote.as_live(), ask) };
        }
        if let (false, Side::Device(region, _)) = (remote.is_staged(), &local)
            && let Some(descriptor) = region.descriptor
            && !matches!(ask.action, Action::Atomic { .. })
        {
            // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until
            // completion; the provider reaches both sides.
            return unsafe { self.described(endpoint, caller, remote, ask, descriptor) };
        }
        self.issue_staged(endpoint, caller, *remote, ask, local, result)
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
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let context = self.context();
        let record = {
            let mut state = context.state.lock();
            if let Some(status) = peer.failure() {
                return status;
            }
            let Some(record) = state.pool.take() else {
                return Status::OUT_OF_RESOURCE;
            };
            let tag = Tag::new(
                endpoint,
                context.count.raise(self.threaded),
                peer.count.raise(self.threaded),
            );
            // SAFETY: the record was just taken from the pool, so nothing else uses it.
            unsafe {
                Record::fill(
                    record,
                    tag,
                    caller.completion,
                    caller.local_address,
                    caller.local_handle,
                );
            }
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
                // SAFETY: the record was taken from this pool above, and `issue` returned the only operation
                // that refers to it.
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

    /// Posts the operation to the provider, which reaches the device memory of the peer. No other way does.
    ///
    /// # Safety
    /// `endpoint` is live; the local buffers are host memory and valid until completion.
    unsafe fn plain(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        remote: &Handle,
        ask: Ask,
    ) -> Status {
        let target = remote.target(ask.address, ask.size as u64, self.virtual_addresses);
        let target = match target {
            Ok(target) => target,
            Err(status) => return status,
        };
        // SAFETY: the caller guarantees that `endpoint` is live and that the local buffers are valid until
        // completion.
        unsafe {
            self.leave_route(endpoint.as_ref());
            match ask.action {
                Action::Put => self.post_put(endpoint, caller, ask.size, target),
                Action::Get => self.post_get(endpoint, caller, ask.size, target),
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

    /// Puts or gets between local and remote device memory that the provider reaches at both sides.
    ///
    /// # Safety
    /// `endpoint` is live; the local buffer is valid until completion, and `descriptor` is of its registration.
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
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        self.leave_route(peer);
        let address = peer.address;
        let delivered = self.policy.delivered;
        let mut descriptor = descriptor;
        // SAFETY: the endpoint is live; the local buffer is the caller's until completion, and its registration
        // stays open.
        unsafe {
            self.post(endpoint, &caller, Needs::default(), |posting| {
                let (context, pointer) = (posting.context, posting.pointer);
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

/// Whether a handle is of device memory.
///
/// # Safety
/// `handle` is NULL or readable for the size of a handle.
unsafe fn is_device(handle: *mut plugin_api::Handle) -> bool {
    // SAFETY: the caller guarantees that a handle that is not NULL is readable; the read requires no alignment.
    !handle.is_null() && unsafe { ptr::read_unaligned(handle.cast::<Handle>()) }.is_device()
}

//! Dispatch of operations on device memory: finds the location of each buffer, and then the operation's
//! path.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use libfabric_sys as ffi;
use plugin_api::{AtomicOp, Status};

use super::staged::{Side, Staged};
use crate::engine::transport::Transport;
use crate::mem::device_regions::Descriptor;
use crate::mem::handle::Handle;
use crate::mem::rights;
use crate::op::record::Record;
use crate::op::request::Caller;
use crate::op::request::{Action, Op};
use crate::peer::endpoint::Endpoint;

impl Transport {
    /// Handles an operation that the path for host memory refused with `refusal`. Dispatches the
    /// operation if one of its handles is of device memory; otherwise returns `refusal`.
    ///
    /// # Safety
    /// `endpoint` is live; the buffers are valid until completion; the handles are NULL or readable.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn submit_device(
        &self,
        endpoint: NonNull<Endpoint>,
        refusal: Status,
        op: &Op<'_>,
    ) -> Status {
        // SAFETY: the caller guarantees that the handles are NULL or readable.
        match unsafe { self.sides(op) } {
            // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until
            // completion.
            Ok(Some((local, result))) => unsafe { self.staged(endpoint, op, local, result) },
            Ok(None) => refusal,
            Err(status) => status,
        }
    }

    /// The location of an operation's local buffers; `None` if no handle is of device memory.
    ///
    /// # Safety
    /// The handles are NULL or readable.
    unsafe fn sides(&self, op: &Op<'_>) -> Result<Option<(Side, Side)>, Status> {
        let size = op.size as u64;
        // SAFETY: the caller guarantees that the handles are NULL or readable.
        let any = unsafe {
            op.remote.is_device() || is_device(op.local_handle) || is_device(op.result_handle)
        };
        if !any {
            return Ok(None);
        }
        if !op.remote.is_staged() {
            op.remote.as_host()?.target(op.address, size, true)?;
        }
        // SAFETY: the caller guarantees that the handles are NULL or readable.
        let (local, result) = unsafe {
            let local = match op.value {
                Some(value) => Side::Value(value),
                None => self.side(op.local, op.local_handle, size)?,
            };
            (local, self.side(op.result, op.result_handle, size)?)
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
            let regions = self.registrar.device_regions();
            let region = regions.find(handle.generation()).ok_or(Status::BAD_PARAM)?;
            let copier = regions.copier();
            region.covers(at as u64, size)?;
            return Ok(Side::Device(region, at as u64, copier));
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
        op: &Op<'_>,
        local: Side,
        result: Side,
    ) -> Status {
        let (remote, caller) = (op.remote, Caller::of(op));
        let access = remote.access();
        let allowed = match op.action {
            Action::Put => rights::allow_transfer(access, true),
            Action::Get => rights::allow_transfer(access, false),
            Action::Atomic { kind, op, .. } => rights::allow_atomic(access, kind, op),
        };
        if !allowed {
            return Status::PERM;
        }
        let limit = match op.action {
            Action::Put => self.setup.put_limit,
            Action::Get => self.setup.get_limit,
            Action::Atomic {
                datatype, op: code, ..
            } => {
                if !op.address.is_multiple_of(datatype.size() as u64)
                    || (code != AtomicOp::Read && matches!(local, Side::Nowhere) && op.size > 0)
                {
                    return Status::BAD_PARAM;
                }
                usize::MAX
            }
        };
        if op.size > limit {
            return Status::VALUE_OUT_OF_BOUNDS;
        }
        if op.size == 0 {
            return self.complete_empty(endpoint, caller);
        }
        if remote.is_direct() && !local.is_device() && !result.is_device() {
            // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until
            // completion; the local buffers are host memory.
            return unsafe { self.plain(endpoint, op) };
        }
        if let (false, Side::Device(region, ..)) = (remote.is_staged(), &local)
            && let Some(descriptor) = region.descriptor
            && !matches!(op.action, Action::Atomic { .. })
        {
            // SAFETY: the caller guarantees that `endpoint` is live and that the buffers are valid until
            // completion; the provider reaches both sides.
            return unsafe { self.described(endpoint, op, descriptor) };
        }
        self.issue_staged(endpoint, op, local, result)
    }

    fn issue_staged(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        local: Side,
        result: Side,
    ) -> Status {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let (context, caller) = (self.context(), Caller::of(op));
        let record = {
            let mut state = context.state.lock();
            if let Some(status) = peer.failure() {
                return status;
            }
            let Some(record) = state.pool.take() else {
                return Status::OUT_OF_RESOURCE;
            };
            let tag = context.raise(peer, self.setup.threaded);
            // SAFETY: the record was just taken from the pool, so nothing else uses it.
            unsafe {
                Record::fill(
                    record,
                    tag.whole(),
                    caller.completion,
                    caller.local_address,
                    caller.local_handle,
                );
            }
            state.counts.others += 1;
            record
        };
        let staged = Box::new(Staged {
            record,
            context: self.own_index(),
            endpoint,
            action: op.action,
            local,
            result,
            remote: *op.remote,
            address: op.address,
            size: op.size,
            next: 0,
            live: 0,
            status: Status::SUCCESS,
            what: String::new(),
        });
        if let Err(staged) = self.hmem.issue(staged, &self.slow) {
            let finished = {
                let mut state = context.state.lock();
                state.counts.others -= 1;
                // SAFETY: the record was taken from this pool above, and `issue` returned the only operation
                // that refers to it.
                unsafe { state.pool.give_back(staged.record) }
            };
            self.lower(context, finished.tag, 1);
            return Status::OUT_OF_RESOURCE;
        }
        if !context.delivering.is_set() {
            self.drive();
        }
        Status::SUCCESS
    }

    /// Posts the operation to the provider, which reaches the peer's device memory. Only the provider
    /// reaches this memory.
    ///
    /// # Safety
    /// `endpoint` is live; the local buffers are host memory and valid until completion.
    unsafe fn plain(&self, endpoint: NonNull<Endpoint>, op: &Op<'_>) -> Status {
        let remote = &op.remote.as_live();
        let target = remote.target(op.address, op.size as u64, self.setup.virtual_addresses);
        let target = match target {
            Ok(target) => target,
            Err(status) => return status,
        };
        // SAFETY: the caller guarantees that `endpoint` is live and that the local buffers are valid until
        // completion.
        unsafe {
            match op.action {
                Action::Put => {
                    self.leave_route(endpoint.as_ref());
                    self.post_put(endpoint, &Caller::of(op), op.size, target)
                }
                Action::Get => {
                    self.leave_route(endpoint.as_ref());
                    self.post_get(endpoint, &Caller::of(op), op.size, target)
                }
                Action::Atomic {
                    kind,
                    datatype,
                    op: code,
                    compare,
                } => {
                    let what = (kind, datatype, code, compare);
                    self.atomic_by_fabric(endpoint, op, remote, what)
                }
            }
        }
    }

    /// Makes a put or get between local and remote device memory, if the provider reaches both.
    ///
    /// # Safety
    /// `endpoint` is live; the local buffer is valid until completion, and `descriptor` is of its registration.
    unsafe fn described(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        Descriptor(descriptor): Descriptor,
    ) -> Status {
        let target =
            op.remote
                .as_live()
                .target(op.address, op.size as u64, self.setup.virtual_addresses);
        let target = match target {
            Ok(target) => target,
            Err(status) => return status,
        };
        // SAFETY: the caller guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        self.leave_route(peer);
        let address = peer.address;
        let delivered = self.quick.delivered;
        let mut descriptor = descriptor;
        // SAFETY: the endpoint is live; the local buffer is the caller's until completion, and its registration
        // stays open.
        unsafe {
            self.post(endpoint, (&Caller::of(op), op.size), false, |posting| {
                let (context, pointer) = (posting.context, posting.pointer);
                if matches!(op.action, Action::Get) {
                    return (context.calls.read)(
                        context.tx,
                        op.local,
                        op.size,
                        descriptor,
                        address,
                        target.address,
                        target.key,
                        pointer,
                    );
                }
                let iov = ffi::iovec {
                    iov_base: op.local,
                    iov_len: op.size,
                };
                let rma = ffi::fi_rma_iov {
                    addr: target.address,
                    len: op.size,
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

/// Whether a handle names device memory.
///
/// # Safety
/// `handle` is NULL or readable for the size of a handle.
unsafe fn is_device(handle: *mut plugin_api::Handle) -> bool {
    // SAFETY: the caller guarantees that a handle that is not NULL is readable; the read requires no alignment.
    !handle.is_null() && unsafe { ptr::read_unaligned(handle.cast::<Handle>()) }.is_device()
}

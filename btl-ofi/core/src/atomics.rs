//! Posting atomics: the BTL's single words, and typed vectors.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use libfabric_sys as ffi;
use plugin_api::{AtomicKind, AtomicOp, BtlAtomicOp, Datatype, OpFlags, Status};

use crate::address::{Handle, Target};
use crate::atomic_table;
use crate::channel::Order;
use crate::context::Context;
use crate::endpoint::{Endpoint, Way};
use crate::hmem::{Ask, NOWHERE};
use crate::outbound::Operands;
use crate::record::Completion;
use crate::rma::{Caller, Needs, check_local};
use crate::transport::Transport;

/// The target's side of a typed atomic, checked.
#[derive(Clone, Copy)]
struct Remote {
    target: Target,
    /// The handle's mark.
    mark: u64,
    datatype: Datatype,
    op: AtomicOp,
    count: usize,
}

impl Transport {
    /// Checks everything about the target of a typed atomic.
    #[inline]
    fn remote(
        &self,
        kind: AtomicKind,
        handle: &Handle,
        address: u64,
        datatype: Datatype,
        op: AtomicOp,
        count: usize,
    ) -> Result<Remote, Status> {
        let most = self.atomics.count(kind, datatype, op) as usize;
        if most == 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        if count > most {
            return Err(Status::VALUE_OUT_OF_BOUNDS);
        }
        if !address.is_multiple_of(datatype.size() as u64) {
            return Err(Status::BAD_PARAM);
        }
        let size = (count * datatype.size()) as u64;
        let target = handle.target(address, size, self.virtual_addresses)?;
        Ok(Remote {
            target,
            mark: handle.mark(),
            datatype,
            op,
            count,
        })
    }

    /// Tries the way around the provider (`channel`); `None` if the provider is to be used.
    ///
    /// # Safety
    /// The endpoint is live; the buffers are good until completion.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "all of an atomic")]
    unsafe fn around(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        kind: AtomicKind,
        remote: Remote,
        operands: Operands,
        compare: u64,
        result: *mut c_void,
    ) -> Option<Status> {
        // SAFETY: the caller vouches for the endpoint.
        if unsafe { endpoint.as_ref() }.way() == Way::Provider {
            return None;
        }
        let order = Order {
            kind,
            datatype: remote.datatype,
            op: remote.op,
            count: remote.count,
            target: remote.target,
            mark: remote.mark,
            operands,
            compare,
            result,
        };
        // SAFETY: as the caller vouches.
        unsafe { self.command(endpoint, caller, &order) }
    }

    /// An update without result: asks for delivery, since it must be visible when complete.
    #[inline]
    unsafe fn update(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        remote: Remote,
        operands: Operands,
    ) -> Status {
        let (kind, none) = (AtomicKind::Update, ptr::null_mut());
        // SAFETY: the caller vouches for the endpoint and the operands.
        let around = unsafe { self.around(endpoint, caller, kind, remote, operands, 0, none) };
        if let Some(status) = around {
            return status;
        }
        if self.policy.updates_fetch {
            let scratch = self.scratch.pointer();
            // SAFETY: the scratch memory holds the largest update.
            return unsafe {
                self.fetch_through_provider(endpoint, caller, remote, operands, scratch)
            };
        }
        // SAFETY: the caller of the operation vouched for the endpoint.
        let address = unsafe { endpoint.as_ref() }.address;
        let flags = self.policy.delivered;
        let needs = Needs {
            record: matches!(operands, Operands::Value(_)),
            alone: false,
        };
        // SAFETY: the endpoint is live; operands live in the record or are the caller's until
        // completion.
        unsafe {
            self.post(endpoint, caller, needs, |context, pointer, record| {
                let operands = match (operands, record) {
                    (Operands::Value(value), Some(record)) => {
                        record.operand = value;
                        (&raw mut record.operand).cast()
                    }
                    (Operands::Buffer(buffer), _) => buffer.cast_mut(),
                    (Operands::Value(_), None) => return -(ffi::FI_ENOMEM as isize),
                };
                let source = ffi::fi_ioc {
                    addr: operands,
                    count: remote.count,
                };
                let target = ffi::fi_rma_ioc {
                    addr: remote.target.address,
                    count: remote.count,
                    key: remote.target.key,
                };
                let message = ffi::fi_msg_atomic {
                    msg_iov: &source,
                    desc: ptr::null_mut(),
                    iov_count: 1,
                    addr: address,
                    rma_iov: &target,
                    rma_iov_count: 1,
                    datatype: remote.datatype as u32,
                    op: remote.op as u32,
                    context: pointer,
                    data: 0,
                };
                (context.calls.update)(context.tx, &message, flags)
            })
        }
    }

    /// Whether the peer has been read from; reads from it if not. The read is outstanding when this
    /// first says no, so a fetch that must be alone finds it complete.
    fn introduced(&self, endpoint: NonNull<Endpoint>, remote: &Remote) -> bool {
        // SAFETY: the caller of the operation vouched for the endpoint.
        let peer = unsafe { endpoint.as_ref() };
        if peer.met.load(Ordering::Relaxed) {
            return true;
        }
        let caller = Caller {
            completion: None,
            local_address: ptr::null_mut(),
            local_handle: ptr::null_mut(),
        };
        let (scratch, address) = (self.scratch.pointer(), peer.address);
        let size = remote.datatype.size();
        // SAFETY: the endpoint is live; the scratch memory holds one element.
        let status = unsafe {
            self.post(endpoint, caller, Needs::default(), |context, pointer, _| {
                let none = ptr::null_mut();
                let Target { address: at, key } = remote.target;
                (context.calls.read)(context.tx, scratch, size, none, address, at, key, pointer)
            })
        };
        if status.is_ok() {
            peer.met.store(true, Ordering::Relaxed);
        }
        false
    }

    /// A fetching atomic: complete when the old value is here, which the target applied before.
    #[inline]
    unsafe fn fetch(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        remote: Remote,
        operands: Operands,
        result: *mut c_void,
    ) -> Status {
        let kind = AtomicKind::Fetch;
        // SAFETY: the caller vouches for the endpoint and the buffers.
        let around = unsafe { self.around(endpoint, caller, kind, remote, operands, 0, result) };
        if let Some(status) = around {
            return status;
        }
        // SAFETY: as above.
        unsafe { self.fetch_through_provider(endpoint, caller, remote, operands, result) }
    }

    unsafe fn fetch_through_provider(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        remote: Remote,
        operands: Operands,
        result: *mut c_void,
    ) -> Status {
        if self.policy.fetch_alone && !self.introduced(endpoint, &remote) {
            return Status::TEMP_OUT_OF_RESOURCE;
        }
        // SAFETY: the caller of the operation vouched for the endpoint.
        let address = unsafe { endpoint.as_ref() }.address;
        let needs = Needs {
            record: matches!(operands, Operands::Value(_)),
            alone: self.policy.fetch_alone,
        };
        // SAFETY: as for update.
        unsafe {
            self.post(endpoint, caller, needs, |context, pointer, record| {
                let operands: *const c_void = match (operands, record) {
                    (Operands::Value(value), Some(record)) => {
                        record.operand = value;
                        (&raw const record.operand).cast()
                    }
                    // A plain read has no operands; providers still want a readable buffer.
                    (Operands::Buffer(buffer), _) if buffer.is_null() => result,
                    (Operands::Buffer(buffer), _) => buffer,
                    (Operands::Value(_), None) => return -(ffi::FI_ENOMEM as isize),
                };
                (context.calls.fetch)(
                    context.tx,
                    operands,
                    remote.count,
                    ptr::null_mut(),
                    result,
                    ptr::null_mut(),
                    address,
                    remote.target.address,
                    remote.target.key,
                    remote.datatype as u32,
                    remote.op as u32,
                    pointer,
                )
            })
        }
    }

    #[inline]
    unsafe fn compare(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        remote: Remote,
        compare: u64,
        value: u64,
        result: *mut c_void,
    ) -> Status {
        let (kind, operand) = (AtomicKind::Compare, Operands::Value(value));
        // SAFETY: the caller vouches for the endpoint and the result.
        let around =
            unsafe { self.around(endpoint, caller, kind, remote, operand, compare, result) };
        if let Some(status) = around {
            return status;
        }
        if self.policy.fetch_alone && !self.introduced(endpoint, &remote) {
            return Status::TEMP_OUT_OF_RESOURCE;
        }
        // SAFETY: the caller of the operation vouched for the endpoint.
        let address = unsafe { endpoint.as_ref() }.address;
        // SAFETY: as for update.
        unsafe {
            self.post(
                endpoint,
                caller,
                Needs {
                    record: true,
                    alone: self.policy.fetch_alone,
                },
                |context: &Context, pointer, record| {
                    let Some(record) = record else {
                        return -(ffi::FI_ENOMEM as isize);
                    };
                    record.operand = value;
                    record.compare = compare;
                    (context.calls.compare)(
                        context.tx,
                        (&raw const record.operand).cast(),
                        1,
                        ptr::null_mut(),
                        (&raw const record.compare).cast(),
                        ptr::null_mut(),
                        result,
                        ptr::null_mut(),
                        address,
                        remote.target.address,
                        remote.target.key,
                        remote.datatype as u32,
                        AtomicOp::Cswap as u32,
                        pointer,
                    )
                },
            )
        }
    }

    /// An atomic of a caller whose memory was looked at, on memory that the provider reaches.
    ///
    /// # Safety
    /// As for the operation that was asked; the buffers are host memory.
    pub(crate) unsafe fn plain_atomic(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: Caller,
        handle: &Handle,
        ask: &Ask,
        (datatype, op, fetch, compare): (Datatype, AtomicOp, bool, u64),
    ) -> Status {
        let kind = match (op, fetch) {
            (AtomicOp::Cswap, _) => AtomicKind::Compare,
            (_, true) => AtomicKind::Fetch,
            (_, false) => AtomicKind::Update,
        };
        let count = ask.size / datatype.size();
        let remote = match self.remote(kind, handle, ask.address, datatype, op, count) {
            Ok(remote) => remote,
            Err(status) => return status,
        };
        let operands = match ask.value {
            Some(value) => Operands::Value(value),
            None => Operands::Buffer(ask.local),
        };
        // SAFETY: the caller vouches for the endpoint and the buffers.
        unsafe {
            match (kind, operands) {
                (AtomicKind::Compare, Operands::Value(value)) => {
                    self.compare(endpoint, caller, remote, compare, value, ask.result)
                }
                (AtomicKind::Update, operands) => self.update(endpoint, caller, remote, operands),
                (_, operands) => self.fetch(endpoint, caller, remote, operands, ask.result),
            }
        }
    }

    /// Updates one word. The operand is copied.
    ///
    /// # Safety
    /// `endpoint` came from [`connect`](Self::connect).
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the BTL's atomic_op")]
    pub unsafe fn atomic_op(
        &self,
        endpoint: NonNull<Endpoint>,
        remote_address: u64,
        remote: &Handle,
        op: BtlAtomicOp,
        operand: u64,
        flags: OpFlags,
        completion: Option<Completion>,
    ) -> Status {
        let (datatype, op) = typed(op, flags);
        let caller = Caller {
            completion,
            local_address: ptr::null_mut(),
            local_handle: ptr::null_mut(),
        };
        let handle = remote;
        let device = |status| {
            let what = (datatype, op, false, 0);
            let ask = Ask::atomic(what, Some(operand), NOWHERE, NOWHERE, remote_address, 1);
            // SAFETY: as the caller vouches.
            unsafe { self.elsewhere(endpoint, caller, status, handle, ask) }
        };
        let remote = match self.remote(AtomicKind::Update, remote, remote_address, datatype, op, 1)
        {
            Ok(remote) => remote,
            Err(status) => return device(status),
        };
        // SAFETY: the caller vouches for the endpoint.
        unsafe { self.update(endpoint, caller, remote, Operands::Value(operand)) }
    }

    /// Updates one word and fetches what was there to `local`. The operand is copied.
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the BTL's atomic_fop")]
    pub unsafe fn atomic_fop(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        remote_address: u64,
        local_handle: *mut plugin_api::Handle,
        remote: &Handle,
        op: BtlAtomicOp,
        operand: u64,
        flags: OpFlags,
        completion: Option<Completion>,
    ) -> Status {
        let (datatype, op) = typed(op, flags);
        let caller = Caller {
            completion,
            local_address: local,
            local_handle,
        };
        let handle = remote;
        let device = |status| {
            let what = (datatype, op, true, 0);
            let ask = Ask::atomic(
                what,
                Some(operand),
                NOWHERE,
                (local, local_handle),
                remote_address,
                1,
            );
            // SAFETY: as the caller vouches.
            unsafe { self.elsewhere(endpoint, caller, status, handle, ask) }
        };
        let remote = match self.remote(AtomicKind::Fetch, remote, remote_address, datatype, op, 1) {
            Ok(remote) => remote,
            Err(status) => return device(status),
        };
        // SAFETY: the caller vouches for the handle.
        if let Err(status) = unsafe { check_local(local_handle, local, datatype.size()) } {
            return device(status);
        }
        // SAFETY: the caller vouches for the endpoint and the buffer.
        unsafe { self.fetch(endpoint, caller, remote, Operands::Value(operand), local) }
    }

    /// Writes `value` if the word equals `compare`, and fetches what was there to `local`.
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the BTL's atomic_cswap")]
    pub unsafe fn atomic_cswap(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *mut c_void,
        remote_address: u64,
        local_handle: *mut plugin_api::Handle,
        remote: &Handle,
        compare: u64,
        value: u64,
        flags: OpFlags,
        completion: Option<Completion>,
    ) -> Status {
        let datatype = if flags.contains(OpFlags::WORD_32) {
            Datatype::Uint32
        } else {
            Datatype::Uint64
        };
        let op = AtomicOp::Cswap;
        let caller = Caller {
            completion,
            local_address: local,
            local_handle,
        };
        let handle = remote;
        let device = |status| {
            let what = (datatype, op, true, compare);
            let ask = Ask::atomic(
                what,
                Some(value),
                NOWHERE,
                (local, local_handle),
                remote_address,
                1,
            );
            // SAFETY: as the caller vouches.
            unsafe { self.elsewhere(endpoint, caller, status, handle, ask) }
        };
        let remote = match self.remote(AtomicKind::Compare, remote, remote_address, datatype, op, 1)
        {
            Ok(remote) => remote,
            Err(status) => return device(status),
        };
        // SAFETY: the caller vouches for the handle.
        if let Err(status) = unsafe { check_local(local_handle, local, datatype.size()) } {
            return device(status);
        }
        // SAFETY: the caller vouches for the endpoint and the buffer.
        unsafe { self.compare(endpoint, caller, remote, compare, value, local) }
    }

    /// Updates `count` elements with the operands at `local`, each element atomically.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the ABI's atomic_opv")]
    pub unsafe fn atomic_opv(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *const c_void,
        remote_address: u64,
        local_handle: *mut plugin_api::Handle,
        remote: &Handle,
        datatype: Datatype,
        op: AtomicOp,
        count: usize,
        completion: Option<Completion>,
    ) -> Status {
        let kind = AtomicKind::Update;
        let caller = Caller {
            completion,
            local_address: local.cast_mut(),
            local_handle,
        };
        let handle = remote;
        let device = |status| {
            let what = (datatype, op, false, 0);
            let ask = Ask::atomic(
                what,
                None,
                (local.cast_mut(), local_handle),
                NOWHERE,
                remote_address,
                count,
            );
            // SAFETY: as the caller vouches.
            unsafe { self.elsewhere(endpoint, caller, status, handle, ask) }
        };
        let remote = match self.remote(kind, remote, remote_address, datatype, op, count) {
            Ok(remote) => remote,
            Err(status) => return device(status),
        };
        // SAFETY: the caller vouches for the handle.
        let covered = unsafe { check_local(local_handle, local, count * datatype.size()) };
        if let Err(status) = covered {
            return device(status);
        }
        if count == 0 {
            return self.nothing(endpoint, caller);
        }
        // SAFETY: the caller vouches for the endpoint and the buffer.
        unsafe { self.update(endpoint, caller, remote, Operands::Buffer(local)) }
    }

    /// As [`atomic_opv`](Self::atomic_opv), and fetches what was there to `result`.
    ///
    /// # Safety
    /// As for [`put`](Self::put) and [`get`](Self::get); `local` may be NULL for a read.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the ABI's atomic_fopv")]
    pub unsafe fn atomic_fopv(
        &self,
        endpoint: NonNull<Endpoint>,
        local: *const c_void,
        result: *mut c_void,
        remote_address: u64,
        local_handle: *mut plugin_api::Handle,
        result_handle: *mut plugin_api::Handle,
        remote: &Handle,
        datatype: Datatype,
        op: AtomicOp,
        count: usize,
        completion: Option<Completion>,
    ) -> Status {
        let kind = AtomicKind::Fetch;
        let caller = Caller {
            completion,
            local_address: result,
            local_handle: result_handle,
        };
        let handle = remote;
        let device = |status| {
            let what = (datatype, op, true, 0);
            let ask = Ask::atomic(
                what,
                None,
                (local.cast_mut(), local_handle),
                (result, result_handle),
                remote_address,
                count,
            );
            // SAFETY: as the caller vouches.
            unsafe { self.elsewhere(endpoint, caller, status, handle, ask) }
        };
        let remote = match self.remote(kind, remote, remote_address, datatype, op, count) {
            Ok(remote) => remote,
            Err(status) => return device(status),
        };
        let size = count * datatype.size();
        // SAFETY: the caller vouches for the handles.
        let covered = unsafe {
            check_local(local_handle, local, size).and(check_local(result_handle, result, size))
        };
        if let Err(status) = covered {
            return device(status);
        }
        if count == 0 {
            return self.nothing(endpoint, caller);
        }
        if local.is_null() && op != AtomicOp::Read {
            return Status::BAD_PARAM;
        }
        // SAFETY: the caller vouches for the endpoint and the buffers.
        unsafe { self.fetch(endpoint, caller, remote, Operands::Buffer(local), result) }
    }

    /// Compares one element with `compare`, writes `value` if equal, and fetches what was there to
    /// `result`. Both values stand in the low bytes.
    ///
    /// # Safety
    /// As for [`get`](Self::get).
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the ABI's atomic_cswapv")]
    pub unsafe fn atomic_cswapv(
        &self,
        endpoint: NonNull<Endpoint>,
        value: u64,
        compare: u64,
        result: *mut c_void,
        remote_address: u64,
        result_handle: *mut plugin_api::Handle,
        remote: &Handle,
        datatype: Datatype,
        completion: Option<Completion>,
    ) -> Status {
        let (kind, op) = (AtomicKind::Compare, AtomicOp::Cswap);
        let caller = Caller {
            completion,
            local_address: result,
            local_handle: result_handle,
        };
        let handle = remote;
        let device = |status| {
            let what = (datatype, op, true, compare);
            let ask = Ask::atomic(
                what,
                Some(value),
                NOWHERE,
                (result, result_handle),
                remote_address,
                1,
            );
            // SAFETY: as the caller vouches.
            unsafe { self.elsewhere(endpoint, caller, status, handle, ask) }
        };
        let remote = match self.remote(kind, remote, remote_address, datatype, op, 1) {
            Ok(remote) => remote,
            Err(status) => return device(status),
        };
        // SAFETY: the caller vouches for the handle.
        if let Err(status) = unsafe { check_local(result_handle, result, datatype.size()) } {
            return device(status);
        }
        // SAFETY: the caller vouches for the endpoint and the buffer.
        unsafe { self.compare(endpoint, caller, remote, compare, value, result) }
    }
}

fn typed(op: BtlAtomicOp, flags: OpFlags) -> (Datatype, AtomicOp) {
    atomic_table::btl(
        op,
        flags.contains(OpFlags::WORD_32),
        flags.contains(OpFlags::FLOAT),
    )
}

//! Operations in the words of the BTL and of the ABI, made as a door makes them: by the quick paths, else a request that is
//! submitted.

use std::ffi::c_void;
use std::ptr::NonNull;

use btl_ofi::hints::{MESSAGE, NO_CALLBACK, OTHER, PROVIDER};
use btl_ofi::{Completion, Endpoint, Handle, Op, Transport};
use plugin_api::{AtomicKind, AtomicOp, BtlAtomicOp, Datatype, OpFlags, Status};

type Local = *mut plugin_api::Handle;
type Done = Option<Completion>;

/// Tries the quick paths of a call in the order of a door's table. `$route` says
/// whether the provider serves the peer, `$no_callback`, if it is given, whether there is no callback.
macro_rules! quick {
    ($transport:expr, $route:ident, $call:ident, $arguments:tt $(, $no_callback:expr)?) => {{
        let (t, (peer, ..)) = ($transport, $arguments);
        let no_callback = false $(|| $no_callback)?;
        // SAFETY: the constants are the transport's, and the caller of the operation guarantees the rest.
        unsafe {
            match (t.is_threaded(), t.uses_messages()) {
                (false, false) if peer.as_ref().$route::<false>() => {
                    let first = no_callback.then(|| t.$call::<false, NO_CALLBACK>$arguments);
                    first.flatten().or_else(|| t.$call::<false, PROVIDER>$arguments)
                }
                (true, false) if peer.as_ref().$route::<true>() => {
                    let first = no_callback.then(|| t.$call::<true, NO_CALLBACK>$arguments);
                    first.flatten().or_else(|| t.$call::<true, PROVIDER>$arguments)
                }
                (false, false) => t.$call::<false, OTHER>$arguments,
                (true, false) => t.$call::<true, OTHER>$arguments,
                (false, true) => {
                    let first = t.$call::<false, MESSAGE>$arguments;
                    first.or_else(|| t.$call::<false, OTHER>$arguments)
                }
                (true, true) => {
                    let first = t.$call::<true, MESSAGE>$arguments;
                    first.or_else(|| t.$call::<true, OTHER>$arguments)
                }
            }
        }
    }};
}

/// Every function is unsafe as [`Transport::submit`] is.
#[allow(clippy::too_many_arguments, reason = "the parameters of the BTL")]
pub(crate) trait Calls {
    unsafe fn submitted(&self, peer: NonNull<Endpoint>, op: Op<'_>, done: Done) -> Status;

    fn transport(&self) -> &Transport;

    unsafe fn put(
        &self,
        peer: NonNull<Endpoint>,
        local: *mut c_void,
        at: u64,
        handle: Local,
        h: &Handle,
        size: usize,
        done: Done,
    ) -> Status {
        if handle.is_null()
            && let Some(status) = quick!(
                self.transport(),
                sends_transfers_by_fabric,
                try_put,
                (peer, local, at, h, size, done),
                done.is_none()
            )
        {
            return status;
        }
        // SAFETY: the caller guarantees that the peer is connected and that the buffer is readable until completion.
        unsafe { self.submitted(peer, Op::put(h, at, (local, handle), size), done) }
    }

    unsafe fn get(
        &self,
        peer: NonNull<Endpoint>,
        local: *mut c_void,
        at: u64,
        handle: Local,
        h: &Handle,
        size: usize,
        done: Done,
    ) -> Status {
        if handle.is_null()
            && let Some(status) = quick!(
                self.transport(),
                sends_transfers_by_fabric,
                try_get,
                (peer, local, at, h, size, done),
                done.is_none()
            )
        {
            return status;
        }
        // SAFETY: the caller guarantees that the peer is connected and that the buffer is writable until completion.
        unsafe { self.submitted(peer, Op::get(h, at, (local, handle), size), done) }
    }

    unsafe fn atomic_op(
        &self,
        peer: NonNull<Endpoint>,
        at: u64,
        h: &Handle,
        op: BtlAtomicOp,
        operand: u64,
        flags: OpFlags,
        done: Done,
    ) -> Status {
        let codes = (op as u32, flags.bits());
        if let Some(status) = quick!(
            self.transport(),
            sends_atomics_by_fabric,
            try_atomic_op,
            (peer, at, h, codes, operand, done),
            done.is_none()
        ) {
            return status;
        }
        let op = Op::word((op, flags), (h, at), operand, None);
        // SAFETY: the caller guarantees that the peer is connected; the update has no local buffer.
        unsafe { self.submitted(peer, op, done) }
    }

    unsafe fn atomic_fop(
        &self,
        peer: NonNull<Endpoint>,
        local: *mut c_void,
        at: u64,
        handle: Local,
        h: &Handle,
        op: BtlAtomicOp,
        operand: u64,
        flags: OpFlags,
        done: Done,
    ) -> Status {
        let codes = (op as u32, flags.bits());
        if handle.is_null()
            && let Some(status) = quick!(
                self.transport(),
                sends_atomics_by_fabric,
                try_atomic_fop,
                (peer, local, at, h, codes, operand, done)
            )
        {
            return status;
        }
        let op = Op::word((op, flags), (h, at), operand, Some((local, handle)));
        // SAFETY: the caller guarantees that the peer is connected and that the result is writable until completion.
        unsafe { self.submitted(peer, op, done) }
    }

    unsafe fn atomic_cswap(
        &self,
        peer: NonNull<Endpoint>,
        local: *mut c_void,
        at: u64,
        handle: Local,
        h: &Handle,
        compare: u64,
        value: u64,
        flags: OpFlags,
        done: Done,
    ) -> Status {
        let (values, bits) = ((compare, value), flags.bits());
        if handle.is_null()
            && let Some(status) = quick!(
                self.transport(),
                sends_atomics_by_fabric,
                try_atomic_cswap,
                (peer, local, at, h, values, bits, done)
            )
        {
            return status;
        }
        let op = Op::swap_word(flags, (h, at), (compare, value), (local, handle));
        // SAFETY: the caller guarantees that the peer is connected and that the result is writable until completion.
        unsafe { self.submitted(peer, op, done) }
    }

    unsafe fn atomic_opv(
        &self,
        peer: NonNull<Endpoint>,
        local: *const c_void,
        at: u64,
        handle: Local,
        h: &Handle,
        datatype: Datatype,
        op: AtomicOp,
        count: usize,
        done: Done,
    ) -> Status {
        let what = (AtomicKind::Update, datatype, op);
        let op = Op::atomic(what, (h, at), count, (local.cast_mut(), handle), None);
        // SAFETY: the caller guarantees that the peer is connected and that the operands are readable until completion.
        unsafe { self.submitted(peer, op, done) }
    }

    unsafe fn atomic_fopv(
        &self,
        peer: NonNull<Endpoint>,
        local: *const c_void,
        result: *mut c_void,
        at: u64,
        handle: Local,
        result_handle: Local,
        h: &Handle,
        datatype: Datatype,
        op: AtomicOp,
        count: usize,
        done: Done,
    ) -> Status {
        let what = (AtomicKind::Fetch, datatype, op);
        let (from, into) = ((local.cast_mut(), handle), (result, result_handle));
        // SAFETY: the caller guarantees that the peer is connected, and that the operands are readable and the result
        // is writable until completion.
        unsafe {
            self.submitted(
                peer,
                Op::atomic(what, (h, at), count, from, Some(into)),
                done,
            )
        }
    }

    unsafe fn atomic_cswapv(
        &self,
        peer: NonNull<Endpoint>,
        value: u64,
        compare: u64,
        result: *mut c_void,
        at: u64,
        handle: Local,
        h: &Handle,
        datatype: Datatype,
        done: Done,
    ) -> Status {
        let op = Op::swap(datatype, (h, at), (compare, value), (result, handle));
        // SAFETY: the caller guarantees that the peer is connected and that the result is writable until completion.
        unsafe { self.submitted(peer, op, done) }
    }
}

impl Calls for Transport {
    unsafe fn submitted(&self, peer: NonNull<Endpoint>, op: Op<'_>, done: Done) -> Status {
        // SAFETY: the caller guarantees that the peer is connected and that the buffers of the request are valid until
        // completion.
        unsafe { self.submit(peer, &op.with_completion(done)) }
    }
    fn transport(&self) -> &Transport {
        self
    }
}

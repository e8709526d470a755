//! Operations in the terms of the BTL and of the ABI, made as a host makes them: by the fast paths, otherwise by submitting a
//! request.

use std::ffi::c_void;
use std::ptr::NonNull;

use btl_ofi::hints::{MESSAGE, NO_CALLBACK, OTHER, PROVIDER};
use btl_ofi::{Completion, Endpoint, Handle, Op, Transport};
use plugin_api::{AtomicKind, AtomicOp, BtlAtomicOp, Datatype, OpFlags, Status};

const NONE: Local = std::ptr::null_mut();

type Local = *mut plugin_api::Handle;
type Done = Option<Completion>;

/// Tries the fast paths of a call in the order of a door's table. `$route` says whether the provider serves the peer,
/// `$put` whether a transfer is a put, and `$no_callback`, if given, whether there is no callback.
macro_rules! quick {
    ($transport:expr, $route:ident, $call:ident $(($put:literal))?, $arguments:tt $(, $no_callback:expr)?) => {{
        let (t, (peer, ..)) = ($transport, $arguments);
        let no_callback = false $(|| $no_callback)?;
        // SAFETY: the constants belong to the transport, and the test keeps the buffers and the peer, as the trait
        // requires.
        unsafe {
            match (t.is_threaded(), t.uses_messages()) {
                (false, false) if peer.as_ref().$route::<false>() => {
                    let first = no_callback.then(|| t.$call::<false, NO_CALLBACK $(, $put)?>$arguments);
                    first.flatten().or_else(|| t.$call::<false, PROVIDER $(, $put)?>$arguments)
                }
                (true, false) if peer.as_ref().$route::<true>() => {
                    let first = no_callback.then(|| t.$call::<true, NO_CALLBACK $(, $put)?>$arguments);
                    first.flatten().or_else(|| t.$call::<true, PROVIDER $(, $put)?>$arguments)
                }
                (false, false) => t.$call::<false, OTHER $(, $put)?>$arguments,
                (true, false) => t.$call::<true, OTHER $(, $put)?>$arguments,
                (false, true) => {
                    let first = t.$call::<false, MESSAGE $(, $put)?>$arguments;
                    first.or_else(|| t.$call::<false, OTHER $(, $put)?>$arguments)
                }
                (true, true) => {
                    let first = t.$call::<true, MESSAGE $(, $put)?>$arguments;
                    first.or_else(|| t.$call::<true, OTHER $(, $put)?>$arguments)
                }
            }
        }
    }};
}

/// The operations of a transport. Local buffers are not registered unless a handle is given.
///
/// No function is unsafe, although [`Transport::submit`] is: the calling test keeps the peer connected and the buffers
/// valid until the operation is complete.
#[allow(clippy::too_many_arguments, reason = "the parameters of the BTL")]
pub(crate) trait Calls {
    fn transport(&self) -> &Transport;

    fn submitted(&self, peer: NonNull<Endpoint>, op: Op<'_>, done: Done) -> Status {
        // SAFETY: the test keeps the peer and the buffers of the request, as this trait requires.
        unsafe { self.transport().submit(peer, &op.with_completion(done)) }
    }

    fn put(
        &self,
        peer: NonNull<Endpoint>,
        local: *mut c_void,
        at: u64,
        h: &Handle,
        size: usize,
        done: Done,
    ) -> Status {
        quick!(
            self.transport(),
            sends_transfers_by_fabric,
            try_transfer(true),
            (peer, local, at, h, size, done),
            done.is_none()
        )
        .unwrap_or_else(|| self.put_with(peer, local, at, NONE, h, size, done))
    }

    fn put_with(
        &self,
        peer: NonNull<Endpoint>,
        local: *mut c_void,
        at: u64,
        handle: Local,
        h: &Handle,
        size: usize,
        done: Done,
    ) -> Status {
        self.submitted(peer, Op::put(h, at, (local, handle), size), done)
    }

    fn get(
        &self,
        peer: NonNull<Endpoint>,
        local: *mut c_void,
        at: u64,
        h: &Handle,
        size: usize,
        done: Done,
    ) -> Status {
        quick!(
            self.transport(),
            sends_transfers_by_fabric,
            try_transfer(false),
            (peer, local, at, h, size, done),
            done.is_none()
        )
        .unwrap_or_else(|| self.get_with(peer, local, at, NONE, h, size, done))
    }

    fn get_with(
        &self,
        peer: NonNull<Endpoint>,
        local: *mut c_void,
        at: u64,
        handle: Local,
        h: &Handle,
        size: usize,
        done: Done,
    ) -> Status {
        self.submitted(peer, Op::get(h, at, (local, handle), size), done)
    }

    /// An atomic on a word of 64 bits.
    fn atomic_op(
        &self,
        peer: NonNull<Endpoint>,
        at: u64,
        h: &Handle,
        op: BtlAtomicOp,
        operand: u64,
        done: Done,
    ) -> Status {
        self.atomic_op_of(peer, at, h, op, operand, OpFlags::empty(), done)
    }

    fn atomic_op_of(
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
        quick!(
            self.transport(),
            sends_atomics_by_fabric,
            try_atomic_op,
            (peer, at, h, codes, operand, done),
            done.is_none()
        )
        .unwrap_or_else(|| {
            self.submitted(peer, Op::word((op, flags), (h, at), operand, None), done)
        })
    }

    /// A fetching atomic on a word of 64 bits.
    fn atomic_fop(
        &self,
        peer: NonNull<Endpoint>,
        local: *mut c_void,
        at: u64,
        h: &Handle,
        op: BtlAtomicOp,
        operand: u64,
        done: Done,
    ) -> Status {
        self.atomic_fop_of(peer, local, at, h, op, operand, OpFlags::empty(), done)
    }

    fn atomic_fop_of(
        &self,
        peer: NonNull<Endpoint>,
        local: *mut c_void,
        at: u64,
        h: &Handle,
        op: BtlAtomicOp,
        operand: u64,
        flags: OpFlags,
        done: Done,
    ) -> Status {
        let codes = (op as u32, flags.bits());
        quick!(
            self.transport(),
            sends_atomics_by_fabric,
            try_atomic_fop,
            (peer, local, at, h, codes, operand, done)
        )
        .unwrap_or_else(|| {
            let op = Op::word((op, flags), (h, at), operand, Some((local, NONE)));
            self.submitted(peer, op, done)
        })
    }

    /// A compare-and-swap on a word of 64 bits.
    fn atomic_cswap(
        &self,
        peer: NonNull<Endpoint>,
        local: *mut c_void,
        at: u64,
        h: &Handle,
        compare: u64,
        value: u64,
        done: Done,
    ) -> Status {
        self.atomic_cswap_of(peer, local, at, h, compare, value, OpFlags::empty(), done)
    }

    fn atomic_cswap_of(
        &self,
        peer: NonNull<Endpoint>,
        local: *mut c_void,
        at: u64,
        h: &Handle,
        compare: u64,
        value: u64,
        flags: OpFlags,
        done: Done,
    ) -> Status {
        let (values, bits) = ((compare, value), flags.bits());
        quick!(
            self.transport(),
            sends_atomics_by_fabric,
            try_atomic_cswap,
            (peer, local, at, h, values, bits, done)
        )
        .unwrap_or_else(|| {
            let op = Op::swap_word(flags, (h, at), (compare, value), (local, NONE));
            self.submitted(peer, op, done)
        })
    }

    fn atomic_opv(
        &self,
        peer: NonNull<Endpoint>,
        local: *const c_void,
        at: u64,
        h: &Handle,
        datatype: Datatype,
        op: AtomicOp,
        count: usize,
        done: Done,
    ) -> Status {
        let what = (AtomicKind::Update, datatype, op);
        let op = Op::atomic(what, (h, at), count, (local.cast_mut(), NONE), None);
        self.submitted(peer, op, done)
    }

    fn atomic_fopv(
        &self,
        peer: NonNull<Endpoint>,
        local: *const c_void,
        result: *mut c_void,
        at: u64,
        h: &Handle,
        datatype: Datatype,
        op: AtomicOp,
        count: usize,
        done: Done,
    ) -> Status {
        self.atomic_fopv_with(
            peer, local, result, at, NONE, NONE, h, datatype, op, count, done,
        )
    }

    fn atomic_fopv_with(
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
        let op = Op::atomic(what, (h, at), count, from, Some(into));
        self.submitted(peer, op, done)
    }

    fn atomic_cswapv(
        &self,
        peer: NonNull<Endpoint>,
        value: u64,
        compare: u64,
        result: *mut c_void,
        at: u64,
        h: &Handle,
        datatype: Datatype,
        done: Done,
    ) -> Status {
        let op = Op::swap(datatype, (h, at), (compare, value), (result, NONE));
        self.submitted(peer, op, done)
    }
}

impl Calls for Transport {
    fn transport(&self) -> &Transport {
        self
    }
}

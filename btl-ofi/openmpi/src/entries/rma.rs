//! Put, get, AMOs and flush: converts arguments, calls the transport, converts results.
//!
//! osc/rdma relies on these rules:
//! - It takes every return value of put and get except 0 as a failure and tries again, even for 1.
//!   [`settle`](Call::settle) never returns 1.
//! - "Out of resource" means "make progress and try again". On every other error it loops for ever. So
//!   [`settle`](Call::settle) first passes such an error to the error callback, which ends the job with a message.
//! - An atomic that the provider lacks must return NOT_SUPPORTED; osc/rdma then takes its locked path. It never checks
//!   the flags of single operations before the call. The transport returns this status.
//! - 4.1.4 passes no handle for a compare-and-swap on the own window, and after NOT_SUPPORTED does it by plain loads and
//!   stores under its lock. Peers' compare-and-swaps go through the provider without that lock, so one of the two would be
//!   lost. Such a call takes the handle of the own region, and is executed like those of the peers.
//! - A put with no request, handle or fragment has a NULL callback. A local handle may be NULL where the registration
//!   thresholds allow it, which is always: the transport refuses providers that need local handles.
//! - It calls flush with a NULL endpoint, for all peers. Flush must run callbacks before it returns, because they use
//!   requests that osc/rdma frees afterwards. The transport's flush does both.
//! - Callbacks may call atomics and progress: this module holds no lock around a call, and the transport none around a
//!   callback.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr::{NonNull, null_mut};

use btl_ofi::{Completion, Endpoint, Handle, Op, branch, quick_entry};
use plugin_api::{CompletionFn, OpFlags, Status};

use crate::bindings as ffi;
use crate::guard::{guarded, use_argument};
use crate::module::Module;

type Btl = *mut ffi::mca_btl_base_module_t;
type BtlEndpoint = *mut ffi::mca_btl_base_endpoint_t;
type BtlHandle = *mut ffi::mca_btl_base_registration_handle_t;
type BtlCallback = ffi::mca_btl_base_rdma_completion_fn_t;

/// Converts Open MPI's callback to the transport's. The transport passes the module and endpoint pointers that Open MPI
/// knows.
fn completion(
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
) -> Option<Completion> {
    let callback = callback?;
    type Callback = unsafe extern "C" fn(
        Btl,
        BtlEndpoint,
        *mut c_void,
        BtlHandle,
        *mut c_void,
        *mut c_void,
        c_int,
    );
    // SAFETY: both types are C functions with the same seven parameters: six pointers and an int. Only the names of the
    // pointed-to types differ.
    let function = unsafe { transmute::<Callback, CompletionFn>(callback) };
    Some(Completion {
        function,
        context,
        data,
    })
}

/// The arguments that every operation has.
struct Call<'a> {
    module: &'a Module,
    endpoint: NonNull<Endpoint>,
    handle: &'a Handle,
}

impl<'a> Call<'a> {
    /// # Safety
    /// Each pointer is NULL or came from this module and is live; the handle may be a copy of a peer's handle.
    #[inline(always)]
    unsafe fn new(btl: Btl, endpoint: BtlEndpoint, handle: BtlHandle) -> Option<Call<'a>> {
        Some(Call {
            // SAFETY: the caller guarantees that `btl` is NULL or the live module.
            module: unsafe { Module::of(btl) }?,
            endpoint: NonNull::new(endpoint.cast())?,
            // SAFETY: the caller guarantees NULL or a readable handle; a handle needs no alignment.
            handle: unsafe { handle.cast::<Handle>().as_ref() }?,
        })
    }

    /// # Safety
    /// As for [`submit`](btl_ofi::Transport::submit).
    unsafe fn submit(&self, op: &Op<'_>) -> Status {
        // SAFETY: the endpoint is live; the caller guarantees the rest.
        unsafe { self.module.transport().submit(self.endpoint, op) }
    }

    /// The return value for osc/rdma; see the module's rules. The transport does not return COMPLETED: only
    /// `Transport::answer_at_once`, which this component does not call, enables inline completions.
    #[inline]
    fn settle(&self, what: &str, status: Status) -> c_int {
        if status == Status::SUCCESS || status.is_again() || status == Status::NOT_SUPPORTED {
            return status.0;
        }
        // SAFETY: `add_procs` returned the endpoint, and it is live until `del_procs`.
        let process = unsafe { self.endpoint.as_ref() }.proc();
        self.module.fail(
            self.endpoint.as_ptr(),
            &format!("a {what} to process {process} was refused: {status}"),
        );
        status.0
    }
}

/// Runs an operation. A panic or a NULL argument ends the job like a failure of the transport; see the module's rules.
#[inline]
fn operation(what: &str, btl: Btl, body: impl FnOnce() -> c_int) -> c_int {
    let code = guarded(what, Status::ERROR.0, body);
    if code != Status::SUCCESS.0 {
        end_unless_again(what, btl, Status(code));
    }
    code
}

#[cold]
#[inline(never)]
fn end_unless_again(what: &str, btl: Btl, status: Status) {
    if status.is_again() || status == Status::NOT_SUPPORTED {
        return;
    }
    // SAFETY: Open MPI passes NULL or the live module that `init` returned.
    if let Some(module) = unsafe { Module::of(btl) } {
        // If `settle` has reported the failure, this call does nothing: only the first report counts.
        module.fail(null_mut(), &format!("a {what} was refused: {status}"));
    }
}

quick_entry! {
    put, near_put, slow_put,
    (
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    size: usize,
    flags: c_int,
    order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
    ),
    FAR, {
        branch();
        if !local_handle.is_null() {
            return None;
        }
        // SAFETY: Open MPI passes NULL or live pointers from this module, a readable copy of the peer's handle, and buffers
        // that stay valid until completion; `T` is that of the module's table.
        let (call, status) = unsafe {
            let call = Call::new(btl, endpoint, remote_handle)?;
            let status = call.module.transport().try_put::<T, FAR>(call.endpoint, local, remote, call.handle, size, completion(callback, context, data));
            (call, status?)
        };
        Some(if status == Status::SUCCESS { 0 } else { call.settle("put", status) })
    } -> c_int
}

/// Writes to a peer, whichever way it goes.
#[inline(never)]
unsafe extern "C" fn slow_put(
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    size: usize,
    flags: c_int,
    order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    use_argument((flags, order));
    operation("put", btl, || {
        // SAFETY: Open MPI passes NULL or live pointers from this module, and a readable copy of the peer's handle.
        let Some(call) = (unsafe { Call::new(btl, endpoint, remote_handle) }) else {
            return Status::BAD_PARAM.0;
        };
        let done = completion(callback, context, data);
        // SAFETY: osc/rdma keeps `size` bytes at `local` readable and unchanged until completion.
        let status = unsafe {
            let op = Op::put(call.handle, remote, (local, local_handle.cast()), size);
            call.submit(&op.with_completion(done))
        };
        call.settle("put", status)
    })
}

quick_entry! {
    get, near_get, slow_get,
    (
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    size: usize,
    flags: c_int,
    order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
    ),
    FAR, {
        branch();
        if !local_handle.is_null() {
            return None;
        }
        // SAFETY: Open MPI passes NULL or live pointers from this module, a readable copy of the peer's handle, and buffers
        // that stay valid until completion; `T` is that of the module's table.
        let (call, status) = unsafe {
            let call = Call::new(btl, endpoint, remote_handle)?;
            let status = call.module.transport().try_get::<T, FAR>(call.endpoint, local, remote, call.handle, size, completion(callback, context, data));
            (call, status?)
        };
        Some(if status == Status::SUCCESS { 0 } else { call.settle("get", status) })
    } -> c_int
}

/// Reads from a peer, whichever way it goes.
#[inline(never)]
unsafe extern "C" fn slow_get(
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    size: usize,
    flags: c_int,
    order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    use_argument((flags, order));
    operation("get", btl, || {
        // SAFETY: Open MPI passes NULL or live pointers from this module, and a readable copy of the peer's handle.
        let Some(call) = (unsafe { Call::new(btl, endpoint, remote_handle) }) else {
            return Status::BAD_PARAM.0;
        };
        let done = completion(callback, context, data);
        // SAFETY: osc/rdma keeps `size` bytes at `local` writable, and does not use them, until completion.
        let status = unsafe {
            let op = Op::get(call.handle, remote, (local, local_handle.cast()), size);
            call.submit(&op.with_completion(done))
        };
        call.settle("get", status)
    })
}

quick_entry! {
    atomic_op, near_atomic_op, slow_atomic_op,
    (
    btl: Btl,
    endpoint: BtlEndpoint,
    remote: u64,
    remote_handle: BtlHandle,
    op: ffi::mca_btl_base_atomic_op_t,
    operand: u64,
    flags: c_int,
    order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
    ),
    FAR, {
        // SAFETY: Open MPI passes NULL or live pointers from this module, a readable copy of the peer's handle, and buffers
        // that stay valid until completion; `T` is that of the module's table.
        let (call, status) = unsafe {
            let call = Call::new(btl, endpoint, remote_handle)?;
            let status = call.module.transport().try_atomic_op::<T, FAR>(call.endpoint, remote, call.handle, (op, flags as u32), operand, completion(callback, context, data));
            (call, status?)
        };
        Some(if status == Status::SUCCESS { 0 } else { call.settle("non-fetching atomic", status) })
    } -> c_int
}

/// Updates a word of a peer's memory, whichever way it goes.
#[inline(never)]
unsafe extern "C" fn slow_atomic_op(
    btl: Btl,
    endpoint: BtlEndpoint,
    remote: u64,
    remote_handle: BtlHandle,
    op: ffi::mca_btl_base_atomic_op_t,
    operand: u64,
    flags: c_int,
    order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    use_argument(order);
    operation("non-fetching atomic", btl, || {
        // SAFETY: Open MPI passes NULL or live pointers from this module, and a readable copy of the peer's handle.
        let Some(call) = (unsafe { Call::new(btl, endpoint, remote_handle) }) else {
            return Status::NOT_SUPPORTED.0;
        };
        let (Ok(op), Some(flags)) = (op.try_into(), OpFlags::from_bits(flags as u32)) else {
            return Status::NOT_SUPPORTED.0;
        };
        let done = completion(callback, context, data);
        // SAFETY: the endpoint is live, and the operation uses no local memory.
        let status = unsafe {
            let op = Op::word((op, flags), (call.handle, remote), operand, None);
            call.submit(&op.with_completion(done))
        };
        call.settle("non-fetching atomic", status)
    })
}

quick_entry! {
    atomic_fop, near_atomic_fop, slow_atomic_fop,
    (
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    op: ffi::mca_btl_base_atomic_op_t,
    operand: u64,
    flags: c_int,
    order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
    ),
    FAR, {
        branch();
        if !local_handle.is_null() {
            return None;
        }
        // SAFETY: Open MPI passes NULL or live pointers from this module, a readable copy of the peer's handle, and buffers
        // that stay valid until completion; `T` is that of the module's table.
        let (call, status) = unsafe {
            let call = Call::new(btl, endpoint, remote_handle)?;
            let status = call.module.transport().try_atomic_fop::<T, FAR>(call.endpoint, local, remote, call.handle, (op, flags as u32), operand, completion(callback, context, data));
            (call, status?)
        };
        Some(if status == Status::SUCCESS { 0 } else { call.settle("fetching atomic", status) })
    } -> c_int
}

/// Updates a word of a peer's memory and fetches the old value, whichever way it goes.
#[inline(never)]
unsafe extern "C" fn slow_atomic_fop(
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    op: ffi::mca_btl_base_atomic_op_t,
    operand: u64,
    flags: c_int,
    order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    use_argument(order);
    operation("fetching atomic", btl, || {
        // SAFETY: Open MPI passes NULL or live pointers from this module, and a readable copy of the peer's handle.
        let Some(call) = (unsafe { Call::new(btl, endpoint, remote_handle) }) else {
            return Status::NOT_SUPPORTED.0;
        };
        let (Ok(op), Some(flags)) = (op.try_into(), OpFlags::from_bits(flags as u32)) else {
            return Status::NOT_SUPPORTED.0;
        };
        let done = completion(callback, context, data);
        // SAFETY: osc/rdma keeps 8 bytes at `local` writable, and does not use them, until completion.
        let status = unsafe {
            let result = Some((local, local_handle.cast()));
            let op = Op::word((op, flags), (call.handle, remote), operand, result);
            call.submit(&op.with_completion(done))
        };
        call.settle("fetching atomic", status)
    })
}

quick_entry! {
    atomic_cswap, near_atomic_cswap, slow_atomic_cswap,
    (
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    compare: u64,
    value: u64,
    flags: c_int,
    order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
    ),
    FAR, {
        branch();
        if !local_handle.is_null() {
            return None;
        }
        // SAFETY: Open MPI passes NULL or live pointers from this module, a readable copy of the peer's handle, and buffers
        // that stay valid until completion; `T` is that of the module's table.
        let (call, status) = unsafe {
            let call = Call::new(btl, endpoint, remote_handle)?;
            let status = call.module.transport().try_atomic_cswap::<T, FAR>(call.endpoint, local, remote, call.handle, (compare, value), flags as u32, completion(callback, context, data));
            (call, status?)
        };
        Some(if status == Status::SUCCESS { 0 } else { call.settle("compare-and-swap", status) })
    } -> c_int
}

/// Writes `value` to a word of a peer's memory if the word equals `compare`, and fetches the old value, whichever way it goes.
#[inline(never)]
unsafe extern "C" fn slow_atomic_cswap(
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    compare: u64,
    value: u64,
    flags: c_int,
    order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    use_argument(order);
    operation("compare-and-swap", btl, || {
        let own;
        // SAFETY: Open MPI passes NULL or live pointers from this module, and a readable copy of the peer's handle.
        let call = match unsafe { Call::new(btl, endpoint, remote_handle) } {
            Some(call) => call,
            None if !remote_handle.is_null() => return Status::NOT_SUPPORTED.0,
            None => {
                // SAFETY: Open MPI passes NULL or the live module.
                let module = unsafe { Module::of(btl) };
                match module.and_then(|m| m.own_word(endpoint.cast(), remote)) {
                    Some((module, endpoint, handle)) => {
                        own = handle;
                        let handle = &own;
                        Call {
                            module,
                            endpoint,
                            handle,
                        }
                    }
                    None => return Status::NOT_SUPPORTED.0,
                }
            }
        };
        let Some(flags) = OpFlags::from_bits(flags as u32) else {
            return Status::NOT_SUPPORTED.0;
        };
        let done = completion(callback, context, data);
        // SAFETY: osc/rdma keeps 8 bytes at `local` writable, and does not use them, until completion.
        let status = unsafe {
            let (target, result) = ((call.handle, remote), (local, local_handle.cast()));
            let op = Op::swap_word(flags, target, (compare, value), result);
            call.submit(&op.with_completion(done))
        };
        call.settle("compare-and-swap", status)
    })
}

/// Waits until every earlier operation of this thread to one peer, or to all peers with NULL, is complete.
pub(super) unsafe extern "C" fn flush(btl: Btl, endpoint: BtlEndpoint) -> c_int {
    guarded("flush", Status::ERROR.0, || {
        // SAFETY: Open MPI passes NULL or the live module that `init` returned.
        let Some(module) = (unsafe { Module::of(btl) }) else {
            return Status::BAD_PARAM.0;
        };
        // SAFETY: the endpoint is NULL or came from `add_procs`, and it is live until `del_procs`.
        let peer = unsafe { endpoint.cast::<Endpoint>().as_ref() };
        let status = module.transport().flush(peer);
        if !status.is_ok() && !status.is_again() {
            // osc/rdma ignores the return value of flush.
            module.fail(
                endpoint.cast(),
                &format!("operations failed before a flush: {status}"),
            );
        }
        status.0
    })
}

//! Put, get, atomics and flush: convert, call the transport, convert back.
//!
//! What osc/rdma relies on, and where it is kept:
//! - It takes any return value of put and get but 0 for a failure and tries again, 1 included: [`settle`] never
//!   returns 1.
//! - Out of resource means "progress and try again". Every other error makes it loop for ever, so that such an error
//!   first goes to the error callback, which ends the job with a message: [`settle`].
//! - An atomic that the provider lacks must be NOT_SUPPORTED, on which osc/rdma takes its locked path; the flags of
//!   single operations are never looked at before the call. The transport answers so. It is also the answer to an
//!   atomic without a remote handle: 4.1.4 asks for a compare-and-swap on the own window like that, and does it
//!   itself once it was told that it cannot be had.
//! - A put with no request, handle or fragment has a NULL callback, and a local handle may be NULL wherever the
//!   registration thresholds allow it (they always do: the transport refuses providers that need local handles).
//! - Flush is called with a NULL endpoint, for all, and runs callbacks before it returns, since these touch requests
//!   that osc/rdma frees afterwards: the transport's flush does both.
//! - Callbacks may call atomics and progress again: no lock is held here around a call, nor in the transport around
//!   a callback.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr::{NonNull, null_mut};

use btl_ofi::{Completion, Endpoint, Handle};
use plugin_api::{CompletionFn, OpFlags, Status};

use crate::bindings as ffi;
use crate::guard::guarded;
use crate::module::Module;

type Btl = *mut ffi::mca_btl_base_module_t;
type BtlEndpoint = *mut ffi::mca_btl_base_endpoint_t;
type BtlHandle = *mut ffi::mca_btl_base_registration_handle_t;
type BtlCallback = ffi::mca_btl_base_rdma_completion_fn_t;

/// Open MPI's callback as the transport's: the transport passes back the module and endpoint that Open MPI knows.
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
    // SAFETY: both are C functions of seven parameters that agree one by one, pointers of the same size and an int;
    // only what the pointers point to is named differently.
    let function = unsafe { transmute::<Callback, CompletionFn>(callback) };
    Some(Completion {
        function,
        context,
        data,
    })
}

/// The call's arguments that every operation shares.
struct Call<'a> {
    module: &'a Module,
    endpoint: NonNull<Endpoint>,
    handle: &'a Handle,
}

impl<'a> Call<'a> {
    /// # Safety
    /// The pointers are NULL, or those that Open MPI got from this module; the handle may be a peer's copy.
    #[inline]
    unsafe fn new(btl: Btl, endpoint: BtlEndpoint, handle: BtlHandle) -> Option<Call<'a>> {
        Some(Call {
            // SAFETY: the caller's promise.
            module: unsafe { Module::of(btl) }?,
            endpoint: NonNull::new(endpoint.cast())?,
            // SAFETY: osc/rdma keeps copies of handles at multiples of 8 bytes.
            handle: unsafe { handle.cast::<Handle>().as_ref() }?,
        })
    }

    /// What goes back to osc/rdma; see the rules above. The transport does not answer COMPLETED, unless it is told
    /// that its host knows that answer (`Transport::answer_at_once`).
    #[inline]
    fn settle(&self, what: &str, status: Status) -> c_int {
        if status == Status::SUCCESS || status.is_again() || status == Status::NOT_SUPPORTED {
            return status.0;
        }
        // SAFETY: an endpoint that `add_procs` handed out, alive until `del_procs`.
        let process = unsafe { self.endpoint.as_ref() }.proc();
        self.module.fail(
            self.endpoint.as_ptr(),
            &format!("a {what} to process {process} was refused: {status}"),
        );
        status.0
    }
}

/// Runs an operation. Whatever went wrong before the transport could say so, a panic or a NULL where none may be, ends
/// the job like any other failure; see the rules above.
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
    // SAFETY: Open MPI passes the module that `init` gave it.
    if let Some(module) = unsafe { Module::of(btl) } {
        // Said already where the transport refused: only the first report counts.
        module.fail(null_mut(), &format!("a {what} was refused: {status}"));
    }
}

/// Writes to a peer.
pub(super) unsafe extern "C" fn put(
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    size: usize,
    _flags: c_int,
    _order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    operation("put", btl, || {
        // SAFETY: Open MPI passes what it got from this module.
        let Some(call) = (unsafe { Call::new(btl, endpoint, remote_handle) }) else {
            return Status::BAD_PARAM.0;
        };
        let done = completion(callback, context, data);
        // SAFETY: osc/rdma keeps `size` bytes at `local` untouched until completion.
        let status = unsafe {
            call.module.transport().put(
                call.endpoint,
                local,
                remote,
                local_handle.cast(),
                call.handle,
                size,
                done,
            )
        };
        call.settle("put", status)
    })
}

/// Reads from a peer.
pub(super) unsafe extern "C" fn get(
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    size: usize,
    _flags: c_int,
    _order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    operation("get", btl, || {
        // SAFETY: Open MPI passes what it got from this module.
        let Some(call) = (unsafe { Call::new(btl, endpoint, remote_handle) }) else {
            return Status::BAD_PARAM.0;
        };
        let done = completion(callback, context, data);
        // SAFETY: osc/rdma leaves `size` bytes at `local` to the transport until completion.
        let status = unsafe {
            call.module.transport().get(
                call.endpoint,
                local,
                remote,
                local_handle.cast(),
                call.handle,
                size,
                done,
            )
        };
        call.settle("get", status)
    })
}

/// Updates a word of a peer.
pub(super) unsafe extern "C" fn atomic_op(
    btl: Btl,
    endpoint: BtlEndpoint,
    remote: u64,
    remote_handle: BtlHandle,
    op: ffi::mca_btl_base_atomic_op_t,
    operand: u64,
    flags: c_int,
    _order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    operation("update", btl, || {
        // SAFETY: Open MPI passes what it got from this module.
        let Some(call) = (unsafe { Call::new(btl, endpoint, remote_handle) }) else {
            return Status::NOT_SUPPORTED.0;
        };
        let (Ok(op), Some(flags)) = (op.try_into(), OpFlags::from_bits(flags as u32)) else {
            return Status::NOT_SUPPORTED.0;
        };
        let done = completion(callback, context, data);
        // SAFETY: no local memory takes part.
        let status = unsafe {
            call.module.transport().atomic_op(
                call.endpoint,
                remote,
                call.handle,
                op,
                operand,
                flags,
                done,
            )
        };
        call.settle("update", status)
    })
}

/// Updates a word of a peer and fetches what was there.
pub(super) unsafe extern "C" fn atomic_fop(
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    op: ffi::mca_btl_base_atomic_op_t,
    operand: u64,
    flags: c_int,
    _order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    operation("fetching update", btl, || {
        // SAFETY: Open MPI passes what it got from this module.
        let Some(call) = (unsafe { Call::new(btl, endpoint, remote_handle) }) else {
            return Status::NOT_SUPPORTED.0;
        };
        let (Ok(op), Some(flags)) = (op.try_into(), OpFlags::from_bits(flags as u32)) else {
            return Status::NOT_SUPPORTED.0;
        };
        let done = completion(callback, context, data);
        // SAFETY: osc/rdma leaves 8 bytes at `local` to the transport until completion.
        let status = unsafe {
            call.module.transport().atomic_fop(
                call.endpoint,
                local,
                remote,
                local_handle.cast(),
                call.handle,
                op,
                operand,
                flags,
                done,
            )
        };
        call.settle("fetching update", status)
    })
}

/// Replaces a word of a peer if it has a value, and fetches what was there.
pub(super) unsafe extern "C" fn atomic_cswap(
    btl: Btl,
    endpoint: BtlEndpoint,
    local: *mut c_void,
    remote: u64,
    local_handle: BtlHandle,
    remote_handle: BtlHandle,
    compare: u64,
    value: u64,
    flags: c_int,
    _order: c_int,
    callback: BtlCallback,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    operation("compare-and-swap", btl, || {
        // SAFETY: Open MPI passes what it got from this module.
        let Some(call) = (unsafe { Call::new(btl, endpoint, remote_handle) }) else {
            return Status::NOT_SUPPORTED.0;
        };
        let Some(flags) = OpFlags::from_bits(flags as u32) else {
            return Status::NOT_SUPPORTED.0;
        };
        let done = completion(callback, context, data);
        // SAFETY: osc/rdma leaves 8 bytes at `local` to the transport until completion.
        let status = unsafe {
            call.module.transport().atomic_cswap(
                call.endpoint,
                local,
                remote,
                local_handle.cast(),
                call.handle,
                compare,
                value,
                flags,
                done,
            )
        };
        call.settle("compare-and-swap", status)
    })
}

/// Waits until everything that this thread issued before is complete, to one peer or, with NULL, to all.
pub(super) unsafe extern "C" fn flush(btl: Btl, endpoint: BtlEndpoint) -> c_int {
    guarded("flush", Status::ERROR.0, || {
        // SAFETY: Open MPI passes the module that `init` gave it.
        let Some(module) = (unsafe { Module::of(btl) }) else {
            return Status::BAD_PARAM.0;
        };
        // SAFETY: an endpoint that `add_procs` handed out, alive until `del_procs`.
        let peer = unsafe { endpoint.cast::<Endpoint>().as_ref() };
        let status = module.transport().flush(peer);
        if !status.is_ok() && !status.is_again() {
            // osc/rdma does not look at what flush returns.
            module.fail(
                endpoint.cast(),
                &format!("operations failed before a flush: {status}"),
            );
        }
        status.0
    })
}

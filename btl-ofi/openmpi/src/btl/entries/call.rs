//! The common part of operation functions: their arguments, and the return values that osc/rdma may get.
//!
//! osc/rdma relies on these rules:
//! - osc/rdma takes every return value of put and get except 0, even 1, as a failure and tries again. [`settle`](Call::settle)
//!   never returns 1.
//! - "Out of resource" means "make progress and try again". On every other error it loops for ever. So
//!   [`settle`](Call::settle) first passes such an error to the error callback, which ends the job with a message.
//! - An atomic that the provider lacks must return NOT_SUPPORTED; osc/rdma then takes its locked path. osc/rdma never checks
//!   the flags of single operations before the call. The transport returns this status. An atomic on a misaligned word, which
//!   no processor makes, is [answered](word_flags) so too.
//! - 4.1.4 passes no handle for a compare-and-swap on the own window. After NOT_SUPPORTED osc/rdma makes the swap by plain
//!   loads and stores under its lock. This is correct only if the peers treat the same word alike (`own_words`).
//! - A put with no request, handle or fragment has a NULL callback. Local handles are NULL, because the
//!   registration thresholds have no limit. Fetching atomics come with the handle of osc/rdma's fragment, which is ignored.
//! - osc/rdma calls flush with a NULL endpoint, for all peers. Flush must run callbacks before it returns, because they use
//!   requests that osc/rdma frees afterwards. The transport's flush accepts NULL and runs callbacks.
//! - Callbacks may call atomics and progress: this module holds no lock around a call, and the transport none around a
//!   callback.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr::{NonNull, null};

use btl_ofi::hints::branch;
use btl_ofi::{Completion, Endpoint, Handle, Op};
use plugin_api::{CompletionFn, OpFlags, Status};

use crate::bindings as ffi;
use crate::btl::module::Module;
use crate::guard::guarded;

pub(super) type Btl = *mut ffi::mca_btl_base_module_t;
pub(super) type BtlEndpoint = *mut ffi::mca_btl_base_endpoint_t;
pub(super) type BtlHandle = *mut ffi::mca_btl_base_registration_handle_t;
pub(super) type BtlCallback = ffi::mca_btl_base_rdma_completion_fn_t;

/// Converts Open MPI's callback to a callback of the transport. The transport passes the module and endpoint pointers
/// that Open MPI knows.
pub(super) fn completion(
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
pub(super) struct Call<'a> {
    pub(super) module: &'a Module,
    pub(super) endpoint: NonNull<Endpoint>,
    pub(super) handle: &'a Handle,
}

impl<'a> Call<'a> {
    /// # Safety
    /// Each pointer is NULL or came from this module and is live; the handle may be a copy of a peer's handle.
    #[inline(always)]
    pub(super) unsafe fn new(
        btl: Btl,
        endpoint: BtlEndpoint,
        handle: BtlHandle,
    ) -> Option<Call<'a>> {
        branch();
        // SAFETY: the caller guarantees that `btl` is NULL or the live module.
        let module = unsafe { Module::of(btl) }?;
        let endpoint = NonNull::new(endpoint.cast())?;
        branch();
        Some(Call {
            module,
            endpoint,
            // SAFETY: the caller guarantees NULL or a readable handle; a handle needs no alignment.
            handle: unsafe { handle.cast::<Handle>().as_ref() }?,
        })
    }

    /// # Safety
    /// As for [`submit`](btl_ofi::Transport::submit).
    pub(super) unsafe fn submit(&self, op: &Op<'_>) -> Status {
        // SAFETY: the endpoint is live; the caller guarantees the rest.
        unsafe { self.module.transport().submit(self.endpoint, op) }
    }

    /// The return value for osc/rdma; see the module's rules. The transport does not return COMPLETED: only
    /// `Transport::answer_at_once`, which this component does not call, enables inline completions.
    #[inline]
    pub(super) fn settle(&self, what: &str, status: Status) -> c_int {
        match status {
            Status::SUCCESS => 0,
            _ => refused(self.module, self.endpoint, what, status),
        }
    }
}

/// Bytes of the word of an atomic.
pub(super) fn size_of_word(flags: OpFlags) -> u64 {
    match flags.contains(OpFlags::WORD_32) {
        true => 4,
        false => 8,
    }
}

/// The flags of an atomic on a word; `None` for unknown flags, and for a word that is not aligned to its size. All ranks find
/// the same, so all take osc/rdma's lock for that word.
pub(super) fn word_flags(flags: c_int, address: u64) -> Option<OpFlags> {
    let flags = OpFlags::from_bits(flags as u32)?;
    address.is_multiple_of(size_of_word(flags)).then_some(flags)
}

/// [`settle`](Call::settle) for an operation that the transport refused.
#[cold]
#[inline(never)]
pub(super) fn refused(
    module: &Module,
    endpoint: NonNull<Endpoint>,
    what: &str,
    status: Status,
) -> c_int {
    if !status.is_again() && status != Status::NOT_SUPPORTED {
        fail(module, endpoint, what, status);
    }
    status.0
}

/// Reports an operation that failed for good.
pub(super) fn fail(module: &Module, endpoint: NonNull<Endpoint>, what: &str, status: Status) {
    // SAFETY: `add_procs` returned the endpoint, which is live until `del_procs`, also while operations to it are kept.
    let process = unsafe { endpoint.as_ref() }.proc();
    let why = format!("a {what} to process {process} was refused: {status}");
    module.fail(endpoint.as_ptr(), status, &why);
}

/// Runs an operation, whose body returns what [`settle`](Call::settle) does. A panic, or an error of the body, ends the job like
/// a failure of the transport; see the module's rules.
#[inline]
pub(super) fn operation(
    what: &str,
    btl: Btl,
    body: impl FnOnce() -> Result<c_int, Status>,
) -> c_int {
    match guarded(what, Err(Status::ERROR), body) {
        Ok(code) => code,
        Err(status) => refuse(what, btl, status),
    }
}

/// [`operation`] for an atomic. `None` of the body is an atomic that osc/rdma makes itself, under its lock.
#[inline]
pub(super) fn atomic(what: &str, btl: Btl, body: impl FnOnce() -> Option<c_int>) -> c_int {
    operation(what, btl, || Ok(body().unwrap_or(Status::NOT_SUPPORTED.0)))
}

#[cold]
#[inline(never)]
fn refuse(what: &str, btl: Btl, status: Status) -> c_int {
    // SAFETY: Open MPI passes NULL or the live module that `init` returned.
    if let Some(module) = unsafe { Module::of(btl) } {
        module.fail(null(), status, &format!("a {what} was refused: {status}"));
    }
    status.0
}

//! Apply: operations on elements of any size, and the host's function for them.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::slice;

use plugin_api::{
    APPLY_BYTES, APPLY_OTHER, ApplyFn, ApplyRequest, AtomicOp, CompletionFn, Datatype, Endpoint,
    Handle, Module, Status, UnknownCode,
};
use transport::{Apply, Arithmetic, Change};

use super::{completion, module_ref, target};
use crate::guard::called;

/// A code, or `None` for one that the typed AMOs do not have.
fn known<T: TryFrom<u32, Error = UnknownCode>>(code: u32) -> Result<Option<T>, UnknownCode> {
    match code {
        APPLY_OTHER => Ok(None),
        code => T::try_from(code).map(Some),
    }
}

pub(super) unsafe extern "C" fn apply(
    module: *mut Module,
    endpoint: *mut Endpoint,
    remote_address: u64,
    remote_handle: *const Handle,
    request: *const ApplyRequest,
    callback: Option<CompletionFn>,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    // SAFETY: the host passes NULL or live objects of this module, and a readable request.
    let (target, request) = unsafe { (target(module, endpoint, remote_handle), request.as_ref()) };
    called("apply", target, |(module, peer, remote)| {
        let request = request?;
        let is_transfer = request.datatype == APPLY_BYTES;
        let datatype = match is_transfer {
            true => APPLY_OTHER,
            false => request.datatype,
        };
        let datatype = known::<Datatype>(datatype).ok()?;
        let op = known::<AtomicOp>(request.op).ok()?;
        let runs = NonNull::new(request.runs.cast_mut())?;
        // SAFETY: the host passes that many readable runs.
        let runs = unsafe { slice::from_raw_parts(runs.as_ptr(), request.run_count) };
        let apply = Apply {
            remote,
            address: remote_address,
            runs,
            change: Change {
                size: request.size as usize,
                datatype,
                op,
                code: request.code,
                is_transfer,
            },
            operands: request.operands,
            results: request.results,
            completion: completion(callback, context, data),
        };
        // SAFETY: the host keeps the endpoint live and the results writable until completion, and passes readable operands.
        Some(unsafe { module.transport.apply(peer, &apply) })
    })
}

pub(super) unsafe extern "C" fn register_apply(
    module: *mut Module,
    function: Option<ApplyFn>,
    context: *mut c_void,
) -> Status {
    // SAFETY: the host passes NULL or a module from `init` that is not finalised.
    called("register_apply", unsafe { module_ref(module) }, |module| {
        let arithmetic = function.map(|function| Arithmetic { function, context });
        module.transport.on_apply(arithmetic);
        Some(Status::SUCCESS)
    })
}

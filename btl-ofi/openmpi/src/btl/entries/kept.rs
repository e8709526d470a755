//! Puts and gets of pml/ob1 that find no room. ob1 repeats a refused get only after some later completion of its own, which may
//! never come; it sends the data of a refused put through messages. So the component keeps such a transfer and posts it in a
//! later progress. Transfers no longer than an immediately sent message are still refused: ob1 has hardly any, and osc/rdma,
//! which repeats refused transfers, should make progress instead of filling memory with them.

use std::ffi::c_int;
use std::ptr::NonNull;

use btl_ofi::{Completion, Endpoint};
use plugin_api::Status;

use super::call::{Call, fail};
use crate::btl::module::Module;
use crate::btl::transfers::Transfer;

/// The return value of a put or get, as of [`settle`](Call::settle), but 0 for a kept one.
#[cold]
#[inline(never)]
pub(super) fn settle(call: &Call<'_>, status: Status, transfer: &Transfer) -> c_int {
    let kept = status.is_again()
        && transfer.done.is_some()
        && call.module.is_long(transfer.size)
        && call.module.transfers().keep(call.endpoint, *transfer);
    match kept {
        true => Status::SUCCESS.0,
        false => call.settle(transfer.what(), status),
    }
}

/// Posts the transfers that wait for room. Returns the number of failed transfers; the others complete as if they had been
/// posted at once.
#[cold]
pub(crate) fn resume(module: &Module) -> usize {
    let failed = std::cell::Cell::new(0);
    module.transfers().resume(
        |endpoint, transfer| {
            // SAFETY: a waiting transfer's buffers are kept by its caller. The endpoint is released only after its queue is
            // closed, which waits for this call.
            unsafe { module.transport().submit(endpoint, &transfer.op()) }
        },
        |endpoint, transfer, status| {
            if status != Status::SUCCESS {
                failed.set(failed.get() + 1);
                fail(module, endpoint, transfer.what(), status);
                end(module, endpoint, &transfer, status);
            }
        },
    );
    failed.get()
}

/// Posts the transfers that wait for room at this peer, or at any peer, before a flush. If a peer fails, its transfers
/// fail, too. Does not wait for later transfers.
pub(super) fn post_all(module: &Module, endpoint: Option<NonNull<Endpoint>>) {
    let transfers = module.transfers();
    if !transfers.any() {
        return;
    }
    let end = transfers.now();
    while transfers.any_before(endpoint, end) {
        module.transport().progress();
        resume(module);
    }
}

/// Ends the transfers that wait for a peer that is to be released. No transfer is kept for this peer until
/// its queue is opened again.
pub(super) fn begin_release(module: &Module, endpoint: NonNull<Endpoint>) {
    for (_, transfer) in module.transfers().close(endpoint) {
        end(module, endpoint, &transfer, Status::UNREACH);
    }
}

/// Calls the function of a transfer that was not made.
fn end(module: &Module, endpoint: NonNull<Endpoint>, transfer: &Transfer, status: Status) {
    let Some(Completion {
        function,
        context,
        data,
    }) = transfer.done
    else {
        return;
    };
    // SAFETY: the function is Open MPI's, with the arguments that it expects; the transfer left its queue, so it ends once.
    unsafe {
        function(
            module.btl().cast(),
            endpoint.as_ptr().cast(),
            transfer.local,
            transfer.local_handle.cast(),
            context,
            data,
            status.0,
        );
    }
}

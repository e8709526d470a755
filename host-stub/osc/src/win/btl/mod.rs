//! The table of windows over the transport. Every operation becomes transport operations; every
//! synchronisation uses the transport's atomics on control blocks.

pub(super) mod accumulate;
pub(super) mod active;
pub(super) mod apply;
pub(super) mod callbacks;
mod command;
mod compare_swap;
mod gather;
pub(super) mod gathers;
pub(super) mod how;
pub(super) mod notify;
pub(super) mod passive;
pub(super) mod rma;
mod runs;
mod scatter;
mod tracked;

use super::dynamic::attach;
use super::queries;
use super::table::RmaTable;

/// The functions of a window over the transport.
pub(super) const TABLE: RmaTable = RmaTable {
    rput: rma::put,
    rget: rma::get,
    raccumulate: accumulate::accumulate,
    rget_accumulate: accumulate::accumulate,
    put: rma::put,
    get: rma::get,
    accumulate: accumulate::accumulate,
    get_accumulate: accumulate::accumulate,
    fetch_and_op: accumulate::accumulate,
    compare_and_swap: compare_swap::compare_and_swap,
    fence: active::fence,
    lock: passive::lock,
    unlock: passive::unlock,
    lock_all: passive::lock_all,
    unlock_all: passive::unlock_all,
    flush: passive::flush,
    flush_all: passive::flush_all,
    // A transport completion is remote completion, so the local forms wait for the same
    // completions.
    flush_local: passive::flush,
    flush_local_all: passive::flush_all,
    start: active::start,
    complete: active::complete,
    post: active::post,
    wait: active::wait,
    test: active::test,
    sync: active::sync,
    free: active::free,
    attach: attach::attach,
    detach: attach::detach,
    shared_query: queries::shared_query,
    set_info: queries::set_info,
    get_info: queries::get_info,
};

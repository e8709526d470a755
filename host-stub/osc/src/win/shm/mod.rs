//! The table of windows whose ranks share one segment of memory. Puts and gets are loads and
//! stores, accumulates use the processor's atomics, and locks and counters are words of the
//! segment.
//!
//! Every operation is complete when its call returns, so a flush waits for nothing: it only orders
//! earlier accesses before later ones. Only waiting loops and occasional flushes use the transport:
//! they make progress, because operations of other windows may need this process.

mod atomics;
mod locks;
pub(super) mod notify;
pub(super) mod plan;
mod rma;
pub(super) mod shared;
pub(super) mod sync;
mod update;

use super::dynamic::attach;
use super::error::{WinError, WinResult};
use super::queries;
use super::table::RmaTable;
use super::window::Window;
pub(super) use atomics::change;
use shared::Shared;

/// The functions of a window in one segment.
pub(super) const TABLE: RmaTable = RmaTable {
    put: rma::put,
    get: rma::get,
    accumulate: atomics::accumulate,
    get_accumulate: atomics::accumulate,
    fetch_and_op: atomics::fetch_and_op,
    compare_and_swap: atomics::compare_and_swap,
    rput: rma::rput,
    rget: rma::rget,
    raccumulate: atomics::raccumulate,
    rget_accumulate: atomics::raccumulate,
    fence: sync::fence,
    lock: locks::lock,
    unlock: locks::unlock,
    lock_all: locks::lock_all,
    unlock_all: locks::unlock_all,
    flush: sync::flush,
    flush_all: sync::flush_all,
    flush_local: sync::flush_local,
    flush_local_all: sync::flush_local_all,
    start: sync::start,
    complete: sync::complete,
    post: sync::post,
    wait: sync::wait,
    test: sync::test,
    sync: sync::sync,
    free: sync::free,
    attach: attach::attach,
    detach: attach::detach,
    shared_query: queries::shared_query,
    set_info: queries::set_info,
    get_info: queries::get_info,
};

impl Window {
    /// The segment of a window, if it contains the window's synchronisation words.
    #[inline]
    fn shared(&self, call: &'static str) -> WinResult<&Shared> {
        match &self.parts.shared {
            Some(shared) => Ok(shared),
            None => Err(no_segment(call)),
        }
    }
}

/// The error if a layer put this table's functions into the table of another window.
#[cold]
#[inline(never)]
fn no_segment(call: &'static str) -> Box<WinError> {
    Box::new(WinError::BadArgument {
        call,
        reason: "the window has no segment, and a function of those that have".to_owned(),
    })
}

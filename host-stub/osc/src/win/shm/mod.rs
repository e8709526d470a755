//! The table of windows whose ranks share one segment of memory. Puts and gets are loads and
//! stores, accumulates use the processor's atomics, and the control blocks lie in the segment, so
//! the functions of windows over the transport change their words here, too.
//!
//! Every operation is complete when its call returns, so a flush waits for nothing: it only orders
//! earlier accesses before later ones. Only waiting loops and occasional flushes use the transport:
//! they make progress, because operations of other windows may need this process.

mod atomics;
mod locks;
pub(super) mod plan;
mod rma;
pub(super) mod shared;
pub(super) mod spare;
pub(super) mod sync;
mod update;

use super::btl;
use super::error::{WinError, WinResult};
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
    flush: sync::flush,
    flush_all: sync::flush_all,
    flush_local: sync::flush_local,
    flush_local_all: sync::flush_local_all,
    ..btl::TABLE
};

impl Window {
    /// The segment of a window, if it contains the window's control blocks.
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

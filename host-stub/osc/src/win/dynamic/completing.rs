//! The calls that complete a dynamic window's operations: they end what an origin knows of its targets' regions.
//!
//! A region to which an operation of this rank is not complete is still attached: MPI forbids its owner to take it away
//! before, and the owner learns that it may from this rank's program, after one of these calls. So the key of such a region
//! needs no second look, and each of these calls ends that. They count themselves when all is complete and before they
//! return: before that nobody was told, and what is issued after that looks again. Operations with requests are known to be
//! complete without a call of the window, and keep no key.

use crate::win::btl::{active, passive};
use crate::win::epoch::{Assertion, FencePlan, LockKind};
use crate::win::error::WinResult;
use crate::win::table::RmaTable;
use crate::win::window::Window;

/// The functions of a dynamic window, of those that a window over the transport has.
pub(in crate::win) fn over(table: RmaTable) -> RmaTable {
    RmaTable {
        fence,
        unlock,
        unlock_all,
        flush,
        flush_all,
        flush_local: flush,
        flush_local_all: flush_all,
        complete,
        ..table
    }
}

/// Counts a call that has come to its end.
fn ended(window: &Window, outcome: WinResult<()>) -> WinResult<()> {
    window.parts.sync.count_completion();
    outcome
}

fn fence(window: &Window, plan: FencePlan, assertion: Assertion) -> WinResult<()> {
    ended(window, active::fence(window, plan, assertion))
}

fn complete(window: &Window, group: &[usize]) -> WinResult<()> {
    ended(window, active::complete(window, group))
}

fn unlock(window: &Window, rank: usize, held: Option<LockKind>) -> WinResult<()> {
    ended(window, passive::unlock(window, rank, held))
}

fn unlock_all(window: &Window, held: bool) -> WinResult<()> {
    ended(window, passive::unlock_all(window, held))
}

fn flush(window: &Window, call: &'static str, rank: usize) -> WinResult<()> {
    ended(window, passive::flush(window, call, rank))
}

fn flush_all(window: &Window, call: &'static str) -> WinResult<()> {
    ended(window, passive::flush_all(window, call))
}

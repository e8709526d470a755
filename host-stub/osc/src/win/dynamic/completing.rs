//! The calls that complete a dynamic window's operations. Each ends the validity of the keys that an origin holds for its
//! targets' regions.
//!
//! A region stays attached while an operation of this rank on the region is incomplete: MPI forbids the owner to detach the
//! region earlier. The owner learns from this rank's program that it may detach the region, and only after one of these
//! calls. So an origin may reuse the key of such a region until its next such call. A call counts itself after all
//! operations are complete and before it returns: before this moment no owner was told, and operations issued later look
//! the key up again. A program learns without a call of the window that operations with requests are complete, so these
//! operations keep no key.

use crate::win::btl::{active, passive};
use crate::win::epoch::{Assertion, FencePlan, LockKind};
use crate::win::error::WinResult;
use crate::win::table::RmaTable;
use crate::win::window::Window;

/// The functions of a dynamic window, based on those of a window over the transport.
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

/// Counts a completing call that is about to return.
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

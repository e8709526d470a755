//! The table of windows in which some ranks' memory is accessible without the transport: puts and
//! gets take the shortest path to each target, and everything else uses the transport.
//!
//! Reason: an accumulate must be atomic with respect to every other accumulate on the same element,
//! from any rank. A rank on another node has only the transport. The transport may change an
//! element in the target's software under its own lock, or in a network card without the processor.
//! Neither need be atomic with respect to the processor's instructions. So all accumulates,
//! fetching operations and compare-and-swaps of one window use the transport, which makes each
//! atomic with respect to every other. The same holds for the words of locks and counters. Puts and
//! gets promise no atomicity (MPI 4.1, 12.7), so each may take its own path. A synchronisation call
//! orders puts and gets with other operations. Here such a call begins with a flush, which waits
//! for the transport's operations and fences the processor's.

use std::sync::atomic::{Ordering, fence};

use super::btl;
use super::btl::{passive, rma};
use super::copy::{load, store};
use super::error::WinResult;
use super::peer::Reach;
use super::table::RmaTable;
use super::transfer::Transfer;
use super::window::Window;

/// The functions of a window with local and remote ranks.
pub(super) const TABLE: RmaTable = RmaTable {
    put,
    get,
    rput: put,
    rget: get,
    flush,
    flush_all,
    flush_local: flush,
    flush_local_all: flush_all,
    ..btl::TABLE
};

fn flush(window: &Window, call: &'static str, rank: usize) -> WinResult<()> {
    let flushed = passive::flush(window, call, rank);
    // Other ranks see earlier stores of this rank before any later read of this rank.
    fence(Ordering::SeqCst);
    flushed
}

fn flush_all(window: &Window, call: &'static str) -> WinResult<()> {
    let flushed = passive::flush_all(window, call);
    fence(Ordering::SeqCst);
    flushed
}

pub(super) unsafe fn put(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: the caller vouches for the transfer, whose target range was checked to lie in the
    // target's memory; this memory is mapped here at the given address.
    unsafe {
        match transfer.peer.reach {
            Reach::Mapped(shift) => {
                store(transfer, transfer.address.wrapping_add(shift) as *mut u8);
                Ok(())
            }
            Reach::Transport => rma::put(window, transfer),
        }
    }
}

pub(super) unsafe fn get(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: as in `put`.
    unsafe {
        match transfer.peer.reach {
            Reach::Mapped(shift) => {
                load(transfer, transfer.address.wrapping_add(shift) as *const u8);
                Ok(())
            }
            Reach::Transport => rma::get(window, transfer),
        }
    }
}

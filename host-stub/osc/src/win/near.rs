//! The table of windows in which some ranks' memory is accessible without the transport: puts and
//! gets take the shortest path to each target, and everything else uses the transport.
//!
//! Why everything else: an accumulate must be atomic with respect to every other accumulate on the
//! same element, from whatever rank. A rank on another node has only the transport, and what a
//! transport does to an element (in the target's software under a lock of its own, or in a network
//! card behind the processor's back) need not be atomic with respect to the processor's
//! instructions. So all accumulates, fetching operations and compare-and-swaps of one window have
//! one agent, the transport, and then each is atomic with respect to every other because the agent
//! says so. The same holds for the words that locks and counters are made of. Puts and gets promise
//! no atomicity (MPI 4.1, 12.7), so each may go its own way; what orders them with all else is the
//! synchronisation call between, which here begins with a flush: it waits for the transport's
//! operations and fences the processor's.

use std::sync::atomic::{Ordering, fence};

use super::btl;
use super::btl::{passive, rma};
use super::copy::{load, store};
use super::error::WinResult;
use super::peer::Reach;
use super::table::RmaTable;
use super::transfer::Transfer;
use super::window::Window;

/// The functions of a window with ranks near and far.
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
    // What was stored here is seen by others before anything that this rank reads from here on.
    fence(Ordering::SeqCst);
    flushed
}

fn flush_all(window: &Window, call: &'static str) -> WinResult<()> {
    let flushed = passive::flush_all(window, call);
    fence(Ordering::SeqCst);
    flushed
}

unsafe fn put(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: the caller vouches for the transfer, whose target range was checked to lie in the
    // target's memory; that memory is mapped here as said.
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

unsafe fn get(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
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

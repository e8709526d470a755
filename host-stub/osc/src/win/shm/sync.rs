//! Flushes, and the meeting of all ranks.

use std::sync::atomic::{Ordering, compiler_fence, fence as memory_fence};

use crate::win::epoch::{Assertion, FencePlan};
use crate::win::error::WinResult;
use crate::win::window::Window;

/// Flushes between two that make progress; a power of two.
const SILENT: u64 = 32;

impl Window {
    /// Makes progress once in [`SILENT`] calls: a program that polls a window's memory by calls
    /// without the transport must still answer operations of other ranks.
    #[inline]
    pub(in crate::win) fn now_and_then(&self, call: &'static str) -> WinResult<()> {
        let shared = self.shared(call)?;
        // The addition is not atomic, because a count lost between threads does no harm.
        let count = shared.flushes.load(Ordering::Relaxed).wrapping_add(1);
        shared.flushes.store(count, Ordering::Relaxed);
        if count.is_multiple_of(SILENT) {
            return self.link.progress(call).map(drop);
        }
        Ok(())
    }
}

pub(super) fn flush(window: &Window, call: &'static str, _rank: usize) -> WinResult<()> {
    flush_all(window, call)
}

#[inline]
pub(super) fn flush_all(window: &Window, call: &'static str) -> WinResult<()> {
    // Other processes see the earlier stores of this rank before this rank reads further data.
    memory_fence(Ordering::SeqCst);
    window.now_and_then(call)
}

pub(super) fn flush_local(window: &Window, call: &'static str, _rank: usize) -> WinResult<()> {
    flush_local_all(window, call)
}

pub(super) fn flush_local_all(window: &Window, call: &'static str) -> WinResult<()> {
    // Buffers of this rank were read and written before the calls returned.
    compiler_fence(Ordering::SeqCst);
    window.now_and_then(call)
}

/// Meets all ranks: each adds one, and waits until all have added as often.
pub(in crate::win) fn barrier(window: &Window, call: &'static str) -> WinResult<()> {
    let shared = window.shared(call)?;
    let entered = window.parts.sync.barriers.fetch_add(1, Ordering::Relaxed) + 1;
    let all = entered * window.link.size as u64;
    // One word for all ranks, at the first rank; it only grows, so it is never reset.
    let word = shared.word(0, shared.plan.control.barrier(0));
    word.fetch_add(1, Ordering::Release);
    // Pairs with the Release of the other ranks, whose earlier writes are visible after this.
    window
        .link
        .wait_until(call, || word.load(Ordering::Acquire) >= all)
}

pub(super) fn fence(window: &Window, plan: FencePlan, _assertion: Assertion) -> WinResult<()> {
    memory_fence(Ordering::SeqCst);
    if plan.meet {
        barrier(window, "fence")?;
        memory_fence(Ordering::SeqCst);
    }
    Ok(())
}

//! Flushes, fences and post-start-complete-wait over words of the segment.
//!
//! Each counter has one meaning and only grows. A waiter knows the value that it waits for, so no
//! counter is ever reset.

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
    pub(super) fn now_and_then(&self, call: &'static str) -> WinResult<()> {
        let shared = self.shared(call)?;
        // The addition is not atomic, because a count lost between threads does no harm.
        let count = shared.flushes.load(Ordering::Relaxed).wrapping_add(1);
        shared.flushes.store(count, Ordering::Relaxed);
        if count.is_multiple_of(SILENT) {
            return self.link.progress(call).map(drop);
        }
        Ok(())
    }

    /// Waits until a word of the segment has reached a value.
    pub(super) fn wait_for_word(
        &self,
        call: &'static str,
        index: usize,
        value: u64,
    ) -> WinResult<()> {
        let word = self.shared(call)?.segment.word(index);
        // Pairs with the Release of the counting rank, whose earlier writes are visible after this.
        self.link
            .wait_until(call, || word.load(Ordering::Acquire) >= value)
    }

    pub(super) fn count_up(&self, call: &'static str, index: usize) -> WinResult<()> {
        let word = self.shared(call)?.segment.word(index);
        word.fetch_add(1, Ordering::Release);
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
    let size = window.link.size as u64;
    let entered = window.parts.sync.barriers.fetch_add(1, Ordering::Relaxed) + 1;
    let index = window.shared(call)?.plan.barrier();
    window.count_up(call, index)?;
    window.wait_for_word(call, index, entered * size)
}

pub(super) fn fence(window: &Window, plan: FencePlan, _assertion: Assertion) -> WinResult<()> {
    memory_fence(Ordering::SeqCst);
    if plan.meet {
        barrier(window, "fence")?;
        memory_fence(Ordering::SeqCst);
    }
    Ok(())
}

pub(super) fn post(window: &Window, group: &[usize], assertion: Assertion) -> WinResult<()> {
    let call = "post";
    let plan = &window.shared(call)?.plan;
    let due = &window.parts.sync.completions_due;
    due.fetch_add(group.len() as u64, Ordering::Relaxed);
    if assertion.contains(Assertion::NOCHECK) {
        // The matching starts send no request, so this fence makes the rank's earlier stores
        // visible.
        memory_fence(Ordering::SeqCst);
        return Ok(());
    }
    for origin in group {
        window.count_up(call, plan.posts(*origin, window.link.rank))?;
    }
    Ok(())
}

pub(super) fn start(window: &Window, group: &[usize], assertion: Assertion) -> WinResult<()> {
    let call = "start";
    if assertion.contains(Assertion::NOCHECK) {
        return Ok(());
    }
    let plan = &window.shared(call)?.plan;
    for target in group {
        let peer = window.peer(call, *target)?;
        let next = peer.posts_matched.fetch_add(1, Ordering::Relaxed) + 1;
        window.wait_for_word(call, plan.posts(window.link.rank, *target), next)?;
    }
    Ok(())
}

pub(super) fn complete(window: &Window, group: &[usize]) -> WinResult<()> {
    let call = "complete";
    let plan = &window.shared(call)?.plan;
    for target in group {
        window.count_up(call, plan.completed(*target))?;
    }
    Ok(())
}

fn is_complete(window: &Window, call: &'static str) -> WinResult<bool> {
    let shared = window.shared(call)?;
    let due = window.parts.sync.completions_due.load(Ordering::Relaxed);
    let completed = shared.segment.word(shared.plan.completed(window.link.rank));
    Ok(completed.load(Ordering::Acquire) >= due)
}

pub(super) fn wait(window: &Window) -> WinResult<()> {
    let call = "wait";
    let shared = window.shared(call)?;
    let due = window.parts.sync.completions_due.load(Ordering::Relaxed);
    window.wait_for_word(call, shared.plan.completed(window.link.rank), due)
}

pub(super) fn test(window: &Window) -> WinResult<bool> {
    let call = "test";
    if is_complete(window, call)? {
        return Ok(true);
    }
    window.link.progress(call)?;
    window.link.check(call)?;
    is_complete(window, call)
}

pub(super) fn sync(window: &Window) -> WinResult<()> {
    memory_fence(Ordering::SeqCst);
    window.link.progress("sync").map(drop)
}

pub(super) fn free(window: &Window) -> WinResult<()> {
    // After this barrier no rank's operation reaches this rank's memory. Each rank then drops its
    // own mapping.
    barrier(window, "free")
}

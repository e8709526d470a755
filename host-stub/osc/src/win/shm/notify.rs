//! Counters of puts with notification, in the segment.

use crate::win::error::WinResult;
use crate::win::window::Window;

/// Raises a counter of a rank after bytes were stored there.
pub(in crate::win) fn count(
    window: &Window,
    call: &'static str,
    rank: usize,
    counter: usize,
) -> WinResult<()> {
    let word = window.shared(call)?.plan.notified(rank, counter);
    window.count_up(call, word)?;
    window.now_and_then(call)
}

/// Waits until a counter of this rank has reached a value.
pub(in crate::win) fn wait(
    window: &Window,
    call: &'static str,
    counter: usize,
    at_least: u64,
) -> WinResult<()> {
    let word = window
        .shared(call)?
        .plan
        .notified(window.link.rank, counter);
    window.wait_for_word(call, word, at_least)
}

//! The lock of a rank's memory for updates that the processor's atomics do not serve.
//!
//! A waiting rank checks the other processes of the window: if a holder was killed, the wait ends
//! with an error. The holder's lock stays taken; the job cannot recover.

use std::sync::atomic::Ordering;

use crate::win::btl::passive::SHARED_PACE;
use crate::win::control::UPDATE_LOCK;
use crate::win::error::WinResult;
use crate::win::window::Window;

/// Runs a short update of a rank's memory under the rank's update lock.
pub(super) fn alone(
    window: &Window,
    call: &'static str,
    rank: usize,
    update: impl FnOnce(),
) -> WinResult<()> {
    let word = window.shared(call)?.word(rank, UPDATE_LOCK);
    let mut waiter = window.link.tries(call);
    let mut tries = 0;
    // Acquire pairs with the Release of the last holder.
    while word.swap(1, Ordering::Acquire) != 0 {
        while word.load(Ordering::Relaxed) != 0 {
            tries += 1;
            waiter.back_off(tries / SHARED_PACE)?;
        }
    }
    update();
    word.store(0, Ordering::Release);
    Ok(())
}

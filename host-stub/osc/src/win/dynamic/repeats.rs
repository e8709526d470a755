//! Waits for puts and gets of a dynamic window. The waits repeat refused ones ([`super::attempts`]).

use std::ffi::c_void;

use plugin_api::{CompletionFn, Status, TransferFlags};

use crate::win::btl::callbacks::done;
use crate::win::dynamic::keeping::keeping;
use crate::win::dynamic::refused::Attempt;
use crate::win::dynamic::regions::KeyWords;
use crate::win::error::WinResult;
use crate::win::peer::Peer;
use crate::win::window::Window;

/// Hands a put, or a get, to the transport.
///
/// # Safety
/// The buffer belongs to the operation until completion, and the callback takes this context. If the target may have detached
/// the key's memory, the flags say so.
pub(super) unsafe fn post(
    window: &Window,
    peer: &Peer,
    how: (bool, TransferFlags),
    ((local, remote, size), key): ((*mut u8, u64, usize), &KeyWords),
    told: (CompletionFn, *mut c_void),
) -> Status {
    let (local, remote) = ((local, std::ptr::null_mut()), (remote, key.as_ptr().cast()));
    let report = (Some(told.0), told.1, std::ptr::null_mut());
    let transport = &window.link.transport;
    // SAFETY: the endpoint is the job's; the caller vouches for the rest.
    unsafe { transport.transfer(how, peer.endpoint, local, remote, size, report) }
}

impl Window {
    /// Waits until the counted puts and gets to a rank have ended, and repeats refused ones.
    #[inline(never)]
    pub(in crate::win) fn wait_attempts(&self, call: &'static str, peer: &Peer) -> WinResult<()> {
        let (pending, refused) = (&peer.transfers, &self.parts.refused);
        let mut outcome = Ok(());
        let mut wait = |done: &(dyn Fn() -> bool + Sync)| -> WinResult<()> {
            while !done() {
                let is_due = || done() || refused.has(peer.rank);
                self.link.wait_until_of(call, None, is_due)?;
                let repeated = self.repeat_refused(call, peer);
                outcome = std::mem::replace(&mut outcome, Ok(())).and(repeated);
            }
            Ok(())
        };
        let flush = pending.flush();
        wait(&|| flush.is_done())?;
        outcome
    }

    /// Repeats all puts and gets that a rank refused. Returns the first error.
    fn repeat_refused(&self, call: &'static str, peer: &Peer) -> WinResult<()> {
        let mut outcome = Ok(());
        while let Some(attempt) = self.parts.refused.take(peer.rank) {
            // No operation may begin on this thread now: its flush would wait for this call, which lies below it on the stack.
            let repeated = keeping(self.link.waiter(), || self.repeat(call, peer, &attempt));
            outcome = outcome.and(repeated);
        }
        outcome
    }

    /// Repeats an attempt. The operation's range may now lie in several regions.
    fn repeat(&self, call: &'static str, peer: &Peer, attempt: &Attempt) -> WinResult<()> {
        // SAFETY: the cell belongs to the window.
        let cell = unsafe { attempt.cell.as_ref() };
        let mut rest = (attempt.local, attempt.remote, attempt.size);
        let mut outcome = Ok(());
        while rest.2 > 0 && outcome.is_ok() {
            let (local, remote, left) = rest;
            outcome = self.region_at(call, peer, remote).and_then(|(key, bytes)| {
                let size = left.min(usize::try_from(bytes).unwrap_or(usize::MAX));
                rest = (local.wrapping_add(size), remote + size as u64, left - size);
                let part = (local, remote, size);
                cell.add();
                let issued = self.issue(call, peer.rank, || {
                    let told = (done as _, attempt.cell.as_ptr().cast());
                    let how = (attempt.puts, TransferFlags::empty());
                    // SAFETY: the buffer belongs to the attempt, which is not complete; `done` takes the cell, which counts
                    // this part.
                    unsafe { post(self, peer, how, (part, &key), told) }
                });
                if !matches!(issued, Ok(Status::SUCCESS)) {
                    // No callback will run.
                    cell.finish(0);
                }
                issued.map(drop)
            });
        }
        // The attempt itself has ended; its parts are counted separately.
        cell.finish(0);
        outcome
    }
}

//! Small accumulates to a target that still has earlier ones under way, gathered into one command of many runs. An accumulate
//! that finds nothing under way is issued at once, so a single one waits for nothing.
//!
//! What is gathered leaves when there is no room for more, before any other accumulate to its target, and at every call that
//! completes operations. So accumulates stay in order, and one command carries those of one target, one type and one operation.
//!
//! The first accumulate of a target that could be gathered leaves as a command by itself. It shows whether the target takes commands for
//! such elements; a refused command of many could not be undone.
//!
//! All of a command are one operation of the target's count, which is raised when the first is gathered. A flush directs new
//! operations to the other cell and sends after that, so what it waits for is on its way.

use std::sync::atomic::Ordering;

use super::command::issue;
use super::gathers::{Place, Sent};
use super::how::How;
use crate::win::error::WinResult;
use crate::win::kind::WindowKind;
use crate::win::layout::Segment;
use crate::win::peer::Peer;
use crate::win::request::request_state::RequestState;
use crate::win::transfer::Transfer;
use crate::win::window::Window;

/// Bytes of an accumulate up to which it is gathered.
const SMALL: usize = 64;

impl Window {
    /// Whether an accumulate to a rank follows others that are under way.
    #[inline(always)]
    pub(in crate::win) fn follows(&self, peer: &Peer) -> bool {
        !peer.accumulates.is_idle()
    }

    /// Gathers an accumulate behind others to its target. False: it is to be issued by itself, and what was gathered has left.
    ///
    /// # Safety
    /// The caller vouches for the transfer.
    #[inline(never)]
    pub(in crate::win) unsafe fn gather(
        &self,
        transfer: &Transfer<'_>,
        request: Option<&RequestState>,
        how: How,
    ) -> WinResult<bool> {
        let small = transfer.target_layout.bytes() <= SMALL && transfer.is_contiguous();
        let alone = request.is_none() && transfer.result_layout.is_none();
        if small && alone && self.may_gather(&how) {
            // SAFETY: the caller vouches for the transfer.
            return unsafe { self.add(transfer, how) };
        }
        self.send_gathered(transfer.call, transfer.peer);
        Ok(false)
    }

    /// Whether commands to all ranks keep the order that the program asks for. The key of a dynamic window's memory is that of
    /// one call.
    fn may_gather(&self, how: &How) -> bool {
        let in_order = self.link.ordered || self.rules.now().unordered;
        let is_static = self.kind() != WindowKind::Dynamic;
        let refused = how.has_atomics() && self.parts.gathers.refused.load(Ordering::Relaxed);
        in_order && is_static && !refused
    }

    /// # Safety
    /// The caller vouches for the transfer, which is small and without gaps.
    unsafe fn add(&self, transfer: &Transfer<'_>, how: How) -> WinResult<bool> {
        let (call, peer) = (transfer.call, transfer.peer);
        let run = Segment {
            // From where the command counts its runs.
            offset: transfer.address.wrapping_sub(peer.base) as usize,
            len: transfer.target_layout.bytes(),
        };
        let place = self.parts.gathers.place(peer.rank);
        let mut waiter = None;
        loop {
            let mut gathered = place.take();
            if gathered.rank != peer.rank + 1 {
                if gathered.command.is_some() {
                    return Ok(false);
                }
                (gathered.rank, gathered.takes) = (peer.rank + 1, [false; 2]);
            }
            if !gathered.takes[usize::from(how.has_atomics())] {
                let sent = place.try_send(&self.link, peer, &mut gathered);
                drop(gathered);
                if let Sent::Later = sent {
                    self.send_gathered(call, peer);
                }
                // SAFETY: the caller vouches for the transfer.
                return unsafe { self.is_taken(transfer, &how, place) };
            }
            if gathered.fits(&how, run.len)
                || matches!(place.try_send(&self.link, peer, &mut gathered), Sent::All)
            {
                // SAFETY: the caller vouches for the transfer.
                unsafe { gathered.push(place, peer, how, run, transfer.origin) };
                drop(gathered);
                self.note(peer);
                return Ok(true);
            }
            drop(gathered);
            let waiter = waiter.get_or_insert_with(|| self.link.tries_of(call, peer.rank));
            waiter.step()?;
        }
    }

    /// Issues the first command of a target by itself: where a network card changes such elements, or where they lie on a device, it
    /// is refused, and none of them is gathered from then on.
    ///
    /// # Safety
    /// The caller vouches for the transfer, which has no gaps.
    unsafe fn is_taken(
        &self,
        transfer: &Transfer<'_>,
        how: &How,
        place: &Place,
    ) -> WinResult<bool> {
        let pending = &transfer.peer.accumulates;
        // SAFETY: the caller vouches for the transfer.
        let made = unsafe { issue(self, transfer, how, None, pending) }?;
        // It is small, so it is one command.
        let taken = made > 0;
        let mut gathered = place.take();
        if gathered.rank == transfer.peer.rank + 1 {
            gathered.takes[usize::from(how.has_atomics())] = taken;
        }
        if !taken && how.has_atomics() {
            self.parts.gathers.refused.store(true, Ordering::Relaxed);
        }
        Ok(taken)
    }
}

//! Gathers small accumulates to a target into one command of many runs while earlier ones are outstanding. An accumulate
//! without outstanding predecessors is issued at once, so a single accumulate is never delayed.
//!
//! Gathered accumulates are sent when the command is full, before any other accumulate to the target, and in every call that
//! completes operations. So accumulates stay in order. One command carries accumulates of one target, one type and one
//! operation.
//!
//! The first accumulate to a target that could be gathered is sent as a command by itself. This command shows whether the
//! target takes commands for such elements. The refusal of a command with many accumulates could not be undone.
//!
//! All accumulates of a command count as one operation of the target, from the time when the first is gathered. A flush directs
//! new operations to the other cell and then sends the command, so all operations that the flush waits for are issued.

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

/// Accumulates of at most this many bytes are gathered.
const SMALL: usize = 64;

impl Window {
    /// Whether earlier accumulates to a rank are outstanding.
    #[inline(always)]
    pub(in crate::win) fn follows(&self, peer: &Peer) -> bool {
        !peer.accumulates.is_idle()
    }

    /// Gathers an accumulate behind others to its target. False: the caller must issue the accumulate by itself, and the
    /// gathered ones were sent.
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

    /// Whether commands to all ranks keep the order that the program asks for. False for a dynamic window, because the
    /// key of its memory is valid for one call.
    fn may_gather(&self, how: &How) -> bool {
        let in_order = self.link.ordered || self.rules.now().unordered;
        let is_static = self.kind() != WindowKind::Dynamic;
        let refused = how.has_atomics() && self.parts.gathers.refused.load(Ordering::Relaxed);
        self.link.applies && in_order && is_static && !refused
    }

    /// # Safety
    /// The caller vouches for the transfer, which is small and without gaps.
    unsafe fn add(&self, transfer: &Transfer<'_>, how: How) -> WinResult<bool> {
        let (call, peer) = (transfer.call, transfer.peer);
        let run = Segment {
            // Relative to the address where the command's runs begin to count.
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

    /// Issues the first command to a target by itself. The transport refuses this command if a network card changes such
    /// elements or if they lie on a device; then no further accumulate on such elements is gathered.
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
        // The accumulate is small, so it is one command.
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

//! Transport operations that a call waits for: single words of control blocks, and bytes to and
//! from buffers of the window.
//!
//! An operation ends early only with its own target's failure, never with another rank's: a living target executes
//! all operations handed to the transport, so a wait that ended earlier would not know the state of a lock.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use plugin_api::{AtomicOp, BtlAtomicOp, Datatype, Endpoint, Handle, Module, OpFlags, Status};

use super::bounce::Bounce;
use super::control::Word;
use super::error::{WinError, WinResult};
use super::peer::Peer;
use super::slots::{Slot, Slots};
use super::window::Window;
use crate::door::alone;
use crate::transport::Report;

/// Ends the wait for a slot's operation.
pub(super) unsafe extern "C" fn slot_done(
    _module: *mut Module,
    _endpoint: *mut Endpoint,
    _local_address: *mut c_void,
    _local_handle: *mut Handle,
    context: *mut c_void,
    _data: *mut c_void,
    status: i32,
) {
    // SAFETY: the context is a slot of a window that lives while any of its operations is under way.
    unsafe { &*context.cast::<Slot>() }.finish(status);
}

/// A transport operation that was handed a slot. The caller must end the operation by
/// [`Window::finish_word`], or by [`Window::wait_issued`] and [`Window::take_word`].
#[must_use]
pub(super) struct Issued<'p> {
    peer: &'p Peer,
    slot: usize,
}

/// Remote memory: an address in the peer's process, and the registration that covers it.
type Remote = (u64, *const Handle);

/// Report of a slot's operation.
#[inline(always)]
fn report(slot: *mut c_void) -> Report {
    (Some(slot_done), slot, std::ptr::null_mut())
}

impl Window {
    /// Hands an operation to the transport, and again while it is busy.
    #[inline]
    pub(super) fn issue(
        &self,
        call: &'static str,
        rank: usize,
        mut post: impl FnMut() -> Status,
    ) -> WinResult<Status> {
        let mut status = post();
        if status.is_again() {
            let mut waiter = self.link.tries_of(call, rank);
            while status.is_again() {
                waiter.step()?;
                status = post();
            }
        }
        status
            .ok()
            .map_err(|status| Box::new(WinError::Transport { call, rank, status }))
    }

    fn issue_slot<'p>(
        &self,
        call: &'static str,
        peer: &'p Peer,
        post: impl FnMut(*mut u64, *mut c_void) -> Status,
    ) -> WinResult<Issued<'p>> {
        let slot = loop {
            match self.parts.slots.take() {
                Some(slot) => break slot,
                None => self.link.wait_until(call, || self.parts.slots.any_free())?,
            }
        };
        self.issue_in(call, peer, slot, post)
    }

    /// As [`issue_slot`](Self::issue_slot), with a slot that was taken.
    fn issue_in<'p>(
        &self,
        call: &'static str,
        peer: &'p Peer,
        slot: usize,
        mut post: impl FnMut(*mut u64, *mut c_void) -> Status,
    ) -> WinResult<Issued<'p>> {
        let word = self
            .parts
            .control
            .address(Slots::word(self.parts.control.plan(), slot));
        let state = self.parts.slots.slot(slot);
        state.arm();
        let context = std::ptr::from_ref(state).cast_mut().cast::<c_void>();
        match self.issue(call, peer.rank, || post(word, context)) {
            // No callback will run.
            Ok(Status::COMPLETED) => state.finish(0),
            Ok(_) => {}
            Err(error) => {
                // Nothing is under way, so the slot is free again.
                self.parts.slots.give_back(slot);
                return Err(error);
            }
        }
        Ok(Issued { peer, slot })
    }

    /// Waits for an operation and returns the word that it fetched, if any.
    pub(super) fn finish_word(&self, call: &'static str, issued: Issued<'_>) -> WinResult<u64> {
        self.wait_issued(call, &issued)?;
        self.take_word(call, issued)
    }

    /// Waits until an operation has succeeded or failed. On an error the wait was given up: the slot stays
    /// taken, because the operation may still complete.
    fn wait_issued(&self, call: &'static str, issued: &Issued<'_>) -> WinResult<()> {
        let state = self.parts.slots.slot(issued.slot);
        let rank = issued.peer.rank;
        let wait = || {
            self.link
                .wait_until_of(call, Some(rank), || state.status().is_some())
        };
        match self.parts.slots.any_free() {
            true => wait(),
            // No other task may run on this thread during the wait. Another task could ask for a slot, and the callers
            // that hold the slots lie below it on the stack, so they could not return one.
            false => alone(self.link.waiter(), wait),
        }
    }

    /// Returns the word that an ended operation fetched, and frees its slot.
    fn take_word(&self, call: &'static str, issued: Issued<'_>) -> WinResult<u64> {
        let status = self.parts.slots.slot(issued.slot).status().unwrap_or(0);
        let word = Slots::word(self.parts.control.plan(), issued.slot);
        let value = self.parts.control.word(word).load(Ordering::Relaxed);
        self.parts.slots.give_back(issued.slot);
        if status < 0 {
            return Err(Box::new(WinError::Transport {
                call,
                rank: issued.peer.rank,
                status: Status(status),
            }));
        }
        Ok(value)
    }

    /// Hands an addition to a word of a peer's control block to the transport.
    fn post_add(
        &self,
        (peer, word, operand): (&Peer, Word, u64),
    ) -> impl FnMut(*mut u64, *mut c_void) -> Status {
        move |result, context| {
            let result = (result.cast(), self.parts.control.handle());
            let remote = peer.control(word);
            // SAFETY: the endpoint is the job's; the result is a scratch word that this slot owns,
            // covered by the control block's handle; the remote word lies in the peer's control
            // block, which lives until every rank freed the window; the callback takes a slot.
            unsafe {
                self.link.transport.atomic_fop(
                    peer.endpoint,
                    result,
                    remote,
                    BtlAtomicOp::Add,
                    operand,
                    OpFlags::empty(),
                    report(context),
                )
            }
        }
    }

    /// Hands a compare-and-swap of such a word to the transport.
    fn post_swap_if(
        &self,
        (peer, word): (&Peer, Word),
        compare: u64,
        value: u64,
    ) -> impl FnMut(*mut u64, *mut c_void) -> Status {
        move |result, context| {
            let result = (result.cast(), self.parts.control.handle());
            let remote = peer.control(word);
            // SAFETY: as in `post_add`.
            unsafe {
                self.link.transport.atomic_cswap(
                    peer.endpoint,
                    result,
                    remote,
                    (compare, value),
                    OpFlags::empty(),
                    report(context),
                )
            }
        }
    }

    /// Adds to a word of a peer's control block; returns the old value.
    pub(super) fn add_word(
        &self,
        call: &'static str,
        peer: &Peer,
        word: Word,
        operand: u64,
    ) -> WinResult<u64> {
        if let Some(shared) = &self.parts.shared {
            let word = shared.word(peer.rank, word);
            return Ok(word.fetch_add(operand, Ordering::AcqRel));
        }
        let post = self.post_add((peer, word, operand));
        let issued = self.issue_slot(call, peer, post)?;
        self.finish_word(call, issued)
    }

    /// Replaces a word of a peer's control block if it has the expected value; returns the old
    /// value.
    pub(super) fn swap_word_if(
        &self,
        call: &'static str,
        peer: &Peer,
        word: Word,
        compare: u64,
        value: u64,
    ) -> WinResult<u64> {
        if let Some(shared) = &self.parts.shared {
            let (order, failed) = (Ordering::AcqRel, Ordering::Relaxed);
            let word = shared.word(peer.rank, word);
            let swapped = word.compare_exchange(compare, value, order, failed);
            return Ok(swapped.unwrap_or_else(|found| found));
        }
        let post = self.post_swap_if((peer, word), compare, value);
        let issued = self.issue_slot(call, peer, post)?;
        self.finish_word(call, issued)
    }

    /// Adds to a word of one peer and replaces a word of another (or the same) if it is 0, both at once. Returns
    /// the old values.
    pub(super) fn add_and_swap_words(
        &self,
        call: &'static str,
        (adds, added, operand): (&Peer, Word, u64),
        (swaps, swapped, value): (&Peer, Word, u64),
    ) -> [WinResult<u64>; 2] {
        if self.parts.shared.is_some() {
            let before = self.add_word(call, adds, added, operand);
            return [before, self.swap_word_if(call, swaps, swapped, 0, value)];
        }
        let add = self.issue_slot(call, adds, self.post_add((adds, added, operand)));
        let post = self.post_swap_if((swaps, swapped), 0, value);
        // Never waits for a second slot while it holds one: other threads may do the same.
        let Some(slot) = self.parts.slots.take() else {
            let before = add.and_then(|add| self.finish_word(call, add));
            let swap = self.issue_slot(call, swaps, post);
            return [before, swap.and_then(|swap| self.finish_word(call, swap))];
        };
        let swap = self.issue_in(call, swaps, slot, post);
        [add, swap].map(|issued| self.finish_word(call, issued?))
    }

    /// Reads a word of a peer's control block that only that peer's processor writes.
    pub(super) fn read_word(&self, call: &'static str, peer: &Peer, word: Word) -> WinResult<u64> {
        if let Some(shared) = &self.parts.shared {
            return Ok(shared.word(peer.rank, word).load(Ordering::Acquire));
        }
        let issued = self.issue_slot(call, peer, |result, context| {
            let remote = peer.control(word);
            let (word, report) = (
                (result.cast(), self.parts.control.handle()),
                report(context),
            );
            let (transport, size) = (&self.link.transport, size_of::<u64>());
            // SAFETY: as in `post_add`.
            unsafe { transport.get(peer.endpoint, word, remote, size, report) }
        })?;
        self.finish_word(call, issued)
    }

    /// Fetches one element of a target, or, with a compare value, swaps it; returns its old bytes.
    /// Operands and result are the low bytes of the words.
    pub(super) fn element(
        &self,
        call: &'static str,
        peer: &Peer,
        remote: Remote,
        datatype: Datatype,
        swap: Option<(&[u8; 8], &[u8; 8])>,
    ) -> WinResult<[u8; 8]> {
        let issued = self.issue_slot(call, peer, |result, context| {
            let result = (result.cast(), self.parts.control.handle());
            // SAFETY: as in `post_add`, with an element of the target's window, which the caller
            // checked; operand and compare value are copied before the call returns, and a read
            // takes no operand.
            unsafe {
                match swap {
                    None => self.link.transport.atomic_fopv(
                        peer.endpoint,
                        (std::ptr::null(), std::ptr::null_mut()),
                        result,
                        remote,
                        (datatype, AtomicOp::Read),
                        1,
                        report(context),
                    ),
                    Some((compare, value)) => self.link.transport.atomic_cswapv(
                        peer.endpoint,
                        (compare.as_ptr(), value.as_ptr()),
                        result,
                        remote,
                        datatype,
                        report(context),
                    ),
                }
            }
        })?;
        Ok(self.finish_word(call, issued)?.to_ne_bytes())
    }

    /// Copies remote bytes to a bounce buffer, from its start.
    pub(super) fn fetch_bytes(
        &self,
        call: &'static str,
        peer: &Peer,
        bounce: &mut Bounce,
        (address, handle): Remote,
        len: usize,
    ) -> WinResult<()> {
        let limit = self.link.transport.attributes().get_limit;
        let len = len.min(bounce.len());
        let mut offset = 0;
        while offset < len {
            let step = (len - offset).min(limit);
            let local = (
                bounce.as_mut_ptr().wrapping_add(offset),
                std::ptr::null_mut(),
            );
            let remote = (address + offset as u64, handle);
            // SAFETY: as in `post_add`; the range lies in the bounce buffer, which is kept while the operation is under way,
            // and in the target's memory (checked by the caller).
            let issued = self.issue_slot(call, peer, |_, context| unsafe {
                let transport = &self.link.transport;
                transport.get(peer.endpoint, local, remote, step, report(context))
            })?;
            // The flag stays set if the wait is given up, but not after an operation that has
            // failed.
            bounce.set_in_use(true);
            self.wait_issued(call, &issued)?;
            bounce.set_in_use(false);
            self.take_word(call, issued)?;
            offset += step;
        }
        Ok(())
    }
}

//! Tracked operations: counted before they are issued, finished by their callback. Flushes and requests wait for
//! tracked operations.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plugin_api::{BtlAtomicOp, OpFlags, Status};

use super::callbacks::notified;
use super::command::is_not_supported;
use crate::win::control::Word;
use crate::win::error::{WinError, WinResult};
use crate::win::kind::WindowKind;
use crate::win::peer::Peer;
use crate::win::pending::{Cell, Pending};
use crate::win::request::request_state::RequestState;
use crate::win::window::Window;

/// Pause between two checks of operations that outlived their epoch.
const NAP: Duration = Duration::from_micros(100);

/// An operation that is counted, but not yet handed to the transport.
#[derive(Clone, Copy)]
pub(super) struct CountedOperation<'a> {
    pending: &'a Pending,
    cell: &'a Cell,
    request: Option<&'a RequestState>,
}

impl<'a> CountedOperation<'a> {
    #[inline(always)]
    pub(super) fn begin(
        pending: &'a Pending,
        request: Option<&'a RequestState>,
    ) -> CountedOperation<'a> {
        let cell = pending.begin();
        if let Some(request) = request {
            request.begin();
        }
        CountedOperation {
            pending,
            cell,
            request,
        }
    }

    /// The context for [`done`](super::callbacks::done).
    #[inline(always)]
    pub(super) fn context(self) -> *mut c_void {
        std::ptr::from_ref(self.cell).cast_mut().cast()
    }

    /// The data for [`done`](super::callbacks::done).
    #[inline(always)]
    pub(super) fn data(self) -> *mut c_void {
        self.request.map_or(std::ptr::null_mut(), |request| {
            std::ptr::from_ref(request).cast_mut().cast()
        })
    }

    /// Whether the transport took the operation. A taken operation is counted until it ends, and may have ended already.
    #[inline(always)]
    pub(super) fn is_taken(self, status: Status) -> bool {
        match status {
            Status::SUCCESS => true,
            Status::COMPLETED => {
                // No callback will run.
                self.end();
                true
            }
            _ => false,
        }
    }

    fn end(self) {
        if let Some(request) = self.request {
            request.finish(0);
        }
        self.cell.finish(0);
    }
}

impl Window {
    /// Issues an operation that `pending` counts, and `request` too if present. `post` gets the context and data for
    /// [`done`](super::callbacks::done).
    #[inline(always)]
    pub(super) fn tracked(
        &self,
        call: &'static str,
        rank: usize,
        pending: &Pending,
        request: Option<&RequestState>,
        mut post: impl FnMut(*mut c_void, *mut c_void) -> Status,
    ) -> WinResult<()> {
        let counted = CountedOperation::begin(pending, request);
        let status = post(counted.context(), counted.data());
        if counted.is_taken(status) {
            return Ok(());
        }
        // By value, so that the captured values need not be in memory before.
        self.tracked_again(call, rank, (status, counted), post)
    }

    /// As [`tracked`](Self::tracked), for an operation that a count of its peer counts.
    #[inline(always)]
    pub(super) fn tracked_to(
        &self,
        call: &'static str,
        peer: &Peer,
        pending: &Pending,
        request: Option<&RequestState>,
        post: impl FnMut(*mut c_void, *mut c_void) -> Status,
    ) -> WinResult<()> {
        let issued = self.tracked(call, peer.rank, pending, request, post);
        self.note(peer);
        issued
    }

    /// Adds to a word of a peer's control block without waiting for an answer. Returns once the transport has taken the
    /// operation.
    pub(super) fn add_unanswered(
        &self,
        call: &'static str,
        target: (&Peer, Word, u64),
        pending: &Pending,
    ) -> WinResult<()> {
        self.add_with(OpFlags::empty(), call, target, pending)
    }

    /// As [`add_unanswered`](Self::add_unanswered), behind all operations to the peer that this rank issued before, as the flags
    /// [`FENCE`](OpFlags::FENCE) or [`COPIED`](OpFlags::COPIED) say. Returns `false`, without an effect, if the transport cannot
    /// promise this: the caller flushes first, then adds.
    pub(super) fn add_in_order(
        &self,
        flags: OpFlags,
        call: &'static str,
        target: (&Peer, Word, u64),
        pending: &Pending,
    ) -> WinResult<bool> {
        // A flush repeats what a target refused, so nothing may follow these operations before.
        if self.kind() == WindowKind::Dynamic {
            return Ok(false);
        }
        match self.add_with(flags, call, target, pending) {
            Err(error) if is_not_supported(&error) => Ok(false),
            added => added.map(|()| true),
        }
    }

    /// As [`add_unanswered`](Self::add_unanswered), with flags.
    pub(super) fn add_with(
        &self,
        flags: OpFlags,
        call: &'static str,
        (peer, word, operand): (&Peer, Word, u64),
        pending: &Pending,
    ) -> WinResult<()> {
        let link = &self.link;
        if let Some(shared) = &self.parts.shared {
            // Operations to the peer are complete there, and the Release orders them before the addition.
            let word = shared.word(peer.rank, word);
            word.fetch_add(operand, Ordering::Release);
            return Ok(());
        }
        self.tracked(call, peer.rank, pending, None, |context, _| {
            let remote = peer.control(word);
            // SAFETY: the endpoint is the job's; the word lies in the peer's control block, which lives until every rank
            // freed the window; `notified` takes this context and data.
            unsafe {
                let data = Arc::as_ptr(&link.context).cast_mut().cast();
                let report = (Some(notified as _), context, data);
                let add = BtlAtomicOp::Add;
                link.transport
                    .atomic_op(peer.endpoint, remote, add, operand, flags, report)
            }
        })
    }

    /// Sends additions for whose answers this rank does not wait. Those in a segment need no sending.
    pub(super) fn send_posted(&self, call: &'static str) -> WinResult<()> {
        match self.parts.shared {
            Some(_) => self.now_and_then(call),
            None => self.link.progress(call).map(drop),
        }
    }

    /// Sends the accumulates gathered for a rank. The next flush reports a failure.
    #[inline]
    pub(super) fn send_gathered(&self, call: &'static str, peer: &Peer) {
        self.parts.gathers.send(&self.link, call, peer);
    }

    /// As [`send_gathered`](Self::send_gathered), for all ranks.
    pub(super) fn send_all_gathered(&self, call: &'static str) {
        let parts = &self.parts;
        parts.gathers.send_all(&self.link, call, &parts.peers);
    }

    /// Makes the next flush of all ranks visit a peer: the peer's count was raised, or a failure was added.
    #[inline(always)]
    pub(in crate::win) fn note(&self, peer: &Peer) {
        if !peer.listed.is_set() {
            self.parts.sync.busy.list(peer.rank, &peer.listed);
        }
    }

    /// Visits all peers with outstanding or failed operations. Returns the first error.
    pub(in crate::win) fn each_busy(
        &self,
        mut visit: impl FnMut(&Peer) -> WinResult<()>,
    ) -> WinResult<()> {
        let (peers, busy) = (&self.parts.peers, &self.parts.sync.busy);
        let ranks = busy.unsettled(|rank| {
            let peer = peers.made(rank)?;
            Some((&peer.listed, peer.is_settled()))
        });
        let mut outcome = Ok(());
        for peer in ranks.iter().filter_map(|rank| peers.made(*rank)) {
            outcome = outcome.and(visit(peer));
        }
        busy.give_back(ranks);
        outcome
    }

    /// Issues again an operation that the transport did not take at once. Between two tries the operation is not counted: the thread
    /// may give up its processor there, and flushes of other threads would wait until it runs again.
    #[cold]
    #[inline(never)]
    pub(super) fn tracked_again(
        &self,
        call: &'static str,
        rank: usize,
        (mut status, mut counted): (Status, CountedOperation<'_>),
        mut post: impl FnMut(*mut c_void, *mut c_void) -> Status,
    ) -> WinResult<()> {
        let mut tries = self.link.tries_of(call, rank);
        while status.is_again() {
            counted.end();
            tries.step()?;
            counted = CountedOperation::begin(counted.pending, counted.request);
            status = post(counted.context(), counted.data());
        }
        if counted.is_taken(status) {
            return Ok(());
        }
        counted.end();
        Err(Box::new(WinError::Transport { call, rank, status }))
    }

    /// Waits until all operations that `pending` counts now have ended.
    #[inline]
    pub(in crate::win) fn wait_pending(
        &self,
        call: &'static str,
        pending: &Pending,
    ) -> WinResult<()> {
        self.wait_pending_of(call, None, pending)
    }

    /// As [`wait_pending`](Self::wait_pending). If a member is given, only the failure of that member ends the wait, not the
    /// failure of any rank of the window.
    #[inline]
    pub(in crate::win) fn wait_pending_of(
        &self,
        call: &'static str,
        member: Option<usize>,
        pending: &Pending,
    ) -> WinResult<()> {
        if pending.is_idle() {
            return Ok(());
        }
        self.wait_busy(call, member, pending, || {})
    }

    /// As [`wait_pending`](Self::wait_pending), for the puts and gets to a target.
    #[inline]
    pub(in crate::win) fn wait_transfers(&self, call: &'static str, peer: &Peer) -> WinResult<()> {
        if peer.transfers.is_idle() {
            return Ok(());
        }
        match self.kind() {
            WindowKind::Dynamic => self.wait_attempts(call, peer),
            _ => self.wait_busy(call, None, &peer.transfers, || {}),
        }
    }

    /// As [`wait_pending`](Self::wait_pending), for the accumulates to a target.
    #[inline]
    pub(in crate::win) fn wait_accumulates(
        &self,
        call: &'static str,
        peer: &Peer,
    ) -> WinResult<()> {
        if peer.accumulates.is_idle() {
            return Ok(());
        }
        let send = || self.send_gathered(call, peer);
        self.wait_busy(call, None, &peer.accumulates, send)
    }

    /// `send` sends operations that were counted and not yet issued.
    #[inline(never)]
    fn wait_busy(
        &self,
        call: &'static str,
        member: Option<usize>,
        pending: &Pending,
        send: impl Fn(),
    ) -> WinResult<()> {
        let flush = pending.flush();
        send();
        self.link
            .wait_until_of(call, member, || flush.has_parted())?;
        // Other threads may have counted more operations in the awaited cell meanwhile.
        send();
        self.link.wait_until_of(call, member, || flush.is_done())
    }

    /// Waits until this rank has no operation outstanding to `target`, or to any target; afterwards no buffer is in use.
    /// Works in a failed job too: the transport reports every operation, so the wait ends.
    pub fn wait_idle(&self, target: Option<usize>) {
        let is_idle = |peer: &Peer| peer.transfers.is_idle() && peer.accumulates.is_idle();
        let is_busy = || match target {
            Some(rank) => self
                .parts
                .peers
                .made(rank)
                .is_some_and(|peer| !is_idle(peer)),
            None => !self.parts.peers.all_made().all(is_idle),
        };
        // Operations of a dynamic window may have ended since the program last asked.
        self.parts.sync.count_completion();
        if !is_busy() {
            return;
        }
        tracing::warn!(
            "an epoch of a window failed; waiting until the transport has reported its operations"
        );
        while is_busy() {
            self.send_all_gathered("wait_idle");
            self.parts.refused.give_up();
            self.link.waiter().visit();
            std::thread::sleep(NAP);
        }
        self.parts.sync.count_completion();
    }

    /// Waits as [`wait_pending`](Self::wait_pending), and returns the first failure.
    #[inline]
    pub(in crate::win) fn flush_pending(
        &self,
        call: &'static str,
        rank: usize,
        pending: &Pending,
    ) -> WinResult<()> {
        self.wait_pending(call, pending)?;
        failure_of(call, rank, pending)
    }

    /// As [`flush_pending`](Self::flush_pending), for the puts and gets to a target.
    #[inline]
    pub(in crate::win) fn flush_transfers(&self, call: &'static str, peer: &Peer) -> WinResult<()> {
        self.wait_transfers(call, peer)?;
        failure_of(call, peer.rank, &peer.transfers)
    }

    /// As [`flush_pending`](Self::flush_pending), for the accumulates to a target.
    #[inline]
    pub(in crate::win) fn flush_accumulates(
        &self,
        call: &'static str,
        peer: &Peer,
    ) -> WinResult<()> {
        self.wait_accumulates(call, peer)?;
        failure_of(call, peer.rank, &peer.accumulates)
    }
}

fn failure_of(call: &'static str, rank: usize, pending: &Pending) -> WinResult<()> {
    match pending.take_failure() {
        None => Ok(()),
        Some(status) => Err(Box::new(WinError::Transport { call, rank, status })),
    }
}

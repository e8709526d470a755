//! The assignment of contexts to threads, and the counts of an operation from its post to its callback: the outstanding
//! operations, and the operations of each carrier. Callbacks run without a lock.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use plugin_api::Status;
use plugin_api::counters::Carrier;

use crate::core::context::Context;
use crate::core::state::Core;
use crate::op::completion::Finished;
use crate::op::tag::Tag;
use crate::peer::counters::add;
use crate::peer::endpoint::Endpoint;
use crate::peer::outstanding::Phase;
use crate::peer::reach::COPIES_PER_CHECK;
use crate::peer::share::Share;

thread_local! {
    /// The thread's number, assigned on first use. The number distinguishes threads and selects the thread's
    /// context.
    static THREAD: Cell<usize> = const { Cell::new(usize::MAX) };
}

pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    THREAD.with(|t| {
        if t.get() == usize::MAX {
            t.set(NEXT.fetch_add(1, Ordering::Relaxed) as usize);
        }
        t.get()
    })
}

impl Context {
    /// Counts an operation that is about to be posted as outstanding at this context and at its peer.
    #[inline(always)]
    pub(crate) fn raise(&self, peer: &Endpoint, threaded: bool) -> Tag {
        let (own, peers) = self.raise_both(peer, threaded);
        Tag::new(NonNull::from(peer), own, peers)
    }

    /// [`raise`](Self::raise) for a caller that stores the phases. Returns this context's phase, then the
    /// peer's phase.
    #[inline(always)]
    pub(crate) fn raise_both(&self, peer: &Endpoint, threaded: bool) -> (Phase, Phase) {
        let own = self.count.raise(self.count.pair(), threaded);
        (own, peer.raise(self.share, threaded))
    }

    /// Lowers the outstanding counts of the peer, then of the context. `settle_unattributed` depends on this
    /// order: when the context's count contains only the operations that it accounts for, no other operation
    /// may still be counted at a peer.
    #[inline(always)]
    pub(crate) fn lower(&self, tag: Tag, n: u32, threaded: bool) {
        // SAFETY: endpoints outlive the operations whose tags name them.
        let peer = unsafe { &*tag.endpoint() };
        let pair = peer.pair(self.share, threaded);
        pair.lower(tag.endpoint_phase(), n, threaded);
        let pair = self.count.pair();
        pair.lower(tag.context_phase(), n, threaded);
    }
}

impl Core {
    /// This thread's context. Without threads, the first context serves all calls.
    #[inline(always)]
    pub(crate) fn context_as<const T: bool>(&self) -> &Context {
        if T && self.quick.several {
            return self.context_of_thread();
        }
        // SAFETY: `first` points to a context that lives as long as the transport.
        unsafe { &*self.quick.first }
    }

    /// This thread's transmit context, for callers that do not have the threading as a constant.
    #[inline]
    pub(crate) fn context(&self) -> &Context {
        if self.setup.threaded {
            self.context_as::<true>()
        } else {
            self.context_as::<false>()
        }
    }

    #[inline(never)]
    fn context_of_thread(&self) -> &Context {
        &self.contexts[self.own_index()]
    }

    /// Counts an operation for its carrier, in a context's share. `shared` says that another thread may count at the same time
    /// for the same context, peer and carrier.
    #[inline(always)]
    pub(crate) fn carried(
        &self,
        share: Share,
        (peer, carrier, bytes): (&Endpoint, Carrier, usize),
        shared: bool,
    ) {
        let carried = &self.quick.counters.of(peer, share).carried[carrier as usize];
        add(&carried.operations, 1, shared);
        add(&carried.bytes, bytes as u64, shared);
    }

    /// Counts an operation that is about to be posted to a ring: for its carrier, and as outstanding. Only the first context has
    /// rings, and its lock is held.
    #[inline(always)]
    pub(crate) fn count_in_ring(&self, context: &Context, peer: &Endpoint, bytes: usize) -> Tag {
        self.carried(Share::ONLY, (peer, Carrier::Ring, bytes), false);
        context.raise(peer, self.setup.threaded)
    }

    /// [`Context::lower`] for callers that do not have the threading as a constant.
    #[inline(always)]
    pub(crate) fn lower(&self, context: &Context, tag: Tag, n: u32) {
        context.lower(tag, n, self.setup.threaded);
    }

    #[inline]
    pub(crate) fn own_index(&self) -> usize {
        match self.contexts.len() {
            n if n > 1 && self.setup.threaded => thread_number() % n,
            _ => 0,
        }
    }

    /// Gives a peer more time, because a long transfer was posted to it.
    #[inline(never)]
    pub(crate) fn expect_long(&self, peer: &Endpoint, bytes: usize) {
        if self.setup.peer_timeout_ms > 0 {
            self.detector.lock().long.add(peer, bytes);
        }
    }

    /// Tells the failure detector how much the contexts have posted and completed.
    pub(crate) fn count_activity(&self) {
        let (mut moves, mut copies) = (0, 0);
        for context in &self.contexts {
            let state = context.state.lock();
            // This sum grows with each post and with each completion.
            let over = state.counts.completed + state.counts.failed;
            moves += u64::from(context.count.outstanding()) + 2 * over;
            copies += context.direct.load(Ordering::Relaxed);
        }
        self.detector.lock().activity(moves, copies);
    }

    /// Counts an inline transfer. Returns, at intervals, that the caller must check the peers, because a host that makes
    /// only inline transfers may never poll.
    #[must_use]
    #[inline(always)]
    pub(crate) fn count_copy(
        &self,
        context: &Context,
        (peer, carrier, size): (&Endpoint, Carrier, usize),
        threaded: bool,
    ) -> bool {
        let share = if threaded { context.share } else { Share::ONLY };
        self.carried(share, (peer, carrier, size), threaded);
        let before = if threaded {
            context.direct.fetch_add(1, Ordering::Relaxed)
        } else {
            let before = context.direct.load(Ordering::Relaxed);
            context.direct.store(before + 1, Ordering::Relaxed);
            before
        };
        before.is_multiple_of(COPIES_PER_CHECK)
    }

    /// Runs callbacks; counts each operation as done after its callback. The caller holds no lock.
    pub(crate) fn deliver(&self, context: &Context, finished: &[Finished], status: Status) {
        if finished.is_empty() {
            return;
        }
        let nested = context.delivering.begin();
        for f in finished {
            self.call_back(context, f, status, self.setup.threaded);
        }
        context.delivering.end(nested);
    }

    /// Runs an operation's callback, and counts the operation as done.
    #[inline(always)]
    pub(crate) fn call_back(
        &self,
        context: &Context,
        f: &Finished,
        status: Status,
        threaded: bool,
    ) {
        self.call_only(f, status);
        context.lower(f.tag, 1, threaded);
    }

    /// Runs a callback without counting the operation as done, for example because the provider still holds the
    /// operation.
    #[inline(always)]
    pub(crate) fn call_only(&self, f: &Finished, status: Status) {
        if let Some(function) = f.function {
            // SAFETY: the caller of the operation passed this function with its arguments, and allows it to run
            // on any thread that makes progress.
            unsafe {
                function(
                    self.setup.owner.load(Ordering::Relaxed),
                    f.tag.endpoint().cast(),
                    f.local_address,
                    f.local_handle,
                    f.context,
                    f.data,
                    status.0,
                );
            }
        }
    }

    /// Runs the callbacks of operations that needed no provider, then returns the list for reuse.
    #[inline]
    pub(crate) fn deliver_ready(&self, context: &Context, mut ready: Vec<Finished>) -> usize {
        let n = ready.len();
        if n > 0 {
            self.deliver(context, &ready, Status::SUCCESS);
            ready.clear();
            let mut state = context.state.lock();
            if state.ready.is_empty() {
                // The list with the larger allocation is used first again.
                std::mem::swap(&mut state.ready, &mut ready);
            }
            state.spare = ready;
        }
        n
    }
}

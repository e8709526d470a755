//! The assignment of contexts to threads, and the counts of operations: the outstanding operations, and the
//! operations of each carrier.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use plugin_api::counters::{Carrier, PeerCounters};

use crate::core::context::Context;
use crate::core::state::Core;
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;
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

    /// The counters of a peer in the first context's share.
    #[inline(always)]
    pub(crate) fn counters_of<'a>(&self, peer: &'a Endpoint) -> &'a PeerCounters {
        self.quick.counters.of_first(peer)
    }

    /// Counts an operation that goes by a ring or a message. Only the first context has such operations, and
    /// its lock is held.
    #[inline(always)]
    pub(crate) fn count_by_first(&self, peer: &Endpoint, carrier: Carrier, bytes: usize) {
        self.quick
            .counters
            .carried(Share::ONLY, (peer, carrier, bytes), false);
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
        self.quick
            .counters
            .carried(share, (peer, carrier, size), threaded);
        let before = if threaded {
            context.direct.fetch_add(1, Ordering::Relaxed)
        } else {
            let before = context.direct.load(Ordering::Relaxed);
            context.direct.store(before + 1, Ordering::Relaxed);
            before
        };
        before.is_multiple_of(COPIES_PER_CHECK)
    }
}

//! Polls of contexts: one poll polls all carriers of a context. First the rings, with commands of peers and answers to this
//! process; then the provider's queue, which also completes messages.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use plugin_api::Status;

use crate::base::guarded::guarded;
use crate::base::hints::branch;
use crate::base::lock::Guard;
use crate::base::ticks;
use crate::core::context::{Carriers, Context, State};
use crate::core::failures::{Found, Reporting};
use crate::core::state::Core;
use crate::detector::Cause;
use crate::op::completion::Finished;
use crate::peer::share::Share;
use crate::sm::requester::Done;

/// One of this many polls reads the provider's queue even if the rings have work.
const PROVIDER_INTERVAL: u32 = 8;

/// After this many successful polls of the own context, another context is polled, too. A smaller number would take locks
/// and cache lines from the threads of the other contexts more often.
const BUSY_POLLS: u32 = 8;

/// A read of the queue that makes system calls takes 20 to 50 times as long as a poll of the rings. While there is traffic
/// (`Context::has_paused`), every poll reads such a queue. Otherwise a poll reads the queue when this many times the
/// duration of a read has passed since the last read. The larger number applies if the provider serves peers itself and
/// this process reaches no peer through it, because the queue then stays empty. A number of polls would be no measure,
/// because a host may poll seldom.
const COSTLY_PAUSE: u64 = 8;
const COSTLY_PAUSE_IDLE: u64 = 64;

/// After this many polls of a context without completion (consecutive or not), the clock is read. This is rare enough to
/// cost nothing, and frequent enough for a host that sleeps about 50 us between polls.
const IDLE_CHECK: u32 = 1 << 10;

impl Core {
    #[inline(always)]
    pub(crate) fn progress_contexts(&self) -> usize {
        // SAFETY: `first` points to a context that lives as long as the transport, and has its threading.
        unsafe {
            if !self.setup.threaded {
                return self.poll_now::<false>(&*self.quick.first);
            }
            if self.quick.several {
                return self.poll_two();
            }
            self.poll_now::<true>(&*self.quick.first)
        }
    }

    #[inline(never)]
    fn poll_two(&self) -> usize {
        let (own, n) = (self.own_index(), self.contexts.len());
        let context = &self.contexts[own];
        let done = self.poll(context);
        // A load and a store instead of an atomic increment: two threads of one context may lose a count, which
        // is harmless.
        let polls = context.polls.load(Ordering::Relaxed).wrapping_add(1);
        context.polls.store(polls, Ordering::Relaxed);
        if done > 0 && !polls.is_multiple_of(BUSY_POLLS) {
            return done;
        }
        let other_polls = context.other_polls.load(Ordering::Relaxed);
        context
            .other_polls
            .store(other_polls.wrapping_add(1), Ordering::Relaxed);
        // Polls any other context. Every second call polls the first context, if that context
        // serves peers.
        let other = match self.first_serves() && own != 0 && other_polls.is_multiple_of(2) {
            true => 0,
            false => (own + 1 + (other_polls / 2) as usize % (n - 1)) % n,
        };
        done + self.poll(&self.contexts[other])
    }

    /// Whether the first context serves peers.
    fn first_serves(&self) -> bool {
        self.node.has_rings || self.policy.has_messages()
    }

    /// Reads one context's queue once. Returns immediately if another thread reads the queue.
    #[inline(never)]
    pub(crate) fn poll(&self, context: &Context) -> usize {
        // SAFETY: contexts have their transport's threading.
        unsafe {
            match self.setup.threaded {
                true => self.poll_now::<true>(context),
                false => self.poll_now::<false>(context),
            }
        }
    }

    /// # Safety
    /// `T` is the transport's threading.
    #[inline(always)]
    unsafe fn poll_now<const T: bool>(&self, context: &Context) -> usize {
        // SAFETY: the caller guarantees `T`.
        let Some(state) = (unsafe { context.state.try_lock_as(T) }) else {
            return 0;
        };
        let share = if T { context.share } else { Share::ONLY };
        self.quick.counters.polled(share);
        let carriers = state.carriers;
        if carriers == Carriers::None {
            // SAFETY: the caller guarantees `T`.
            return unsafe { self.read_queue_as::<T>(context, state) };
        }
        branch();
        if carriers == Carriers::Rings {
            return self.poll_rings_and_queue(context, state);
        }
        branch();
        if carriers == Carriers::RingsAndKernel {
            return self.poll_rings_and_kernel(context, state);
        }
        self.poll_slow(context, state)
    }

    /// Posts reads that confirm puts, sends waiting messages, then polls rings and queue.
    #[inline(never)]
    fn poll_slow(&self, context: &Context, mut state: Guard<'_, State>) -> usize {
        if state.confirmations.as_ref().is_some_and(|c| c.is_due()) {
            state = match self.post_confirmations(context, state) {
                Ok(state) => state,
                Err(ended) => return ended,
            };
        }
        if let Some(messages) = &mut state.messages {
            if messages.has_work() {
                messages.send_waiting();
                if messages.origin.has_failures() {
                    return self.tell_failures(context, state);
                }
            }
            if messages.is_full() {
                // A thread, perhaps this one further up its stack, is passing earlier sends to the
                // host.
                return 0;
            }
        }
        if state.channel.is_none() {
            return self.read_queue(context, state);
        }
        if self.policy.polls_kernel {
            return self.poll_rings_and_kernel(context, state);
        }
        self.poll_rings_and_queue(context, state)
    }

    /// Polls the rings. Also polls the provider's queue if enough time has passed, because reading
    /// it makes system calls.
    #[inline(never)]
    fn poll_rings_and_kernel(&self, context: &Context, state: Guard<'_, State>) -> usize {
        let idle = self.policy.serves_itself && !self.node.uses_fabric.load(Ordering::Relaxed);
        let pause = if idle {
            COSTLY_PAUSE_IDLE
        } else {
            COSTLY_PAUSE
        };
        let due = context.has_paused(pause);
        let (n, state) = match self.poll_channel(context, state, false) {
            Ok(n) if due => (n, context.state.try_lock()),
            Ok(n) => return n,
            Err(state) => (0, Some(state)),
        };
        let Some(state) = state else {
            return n;
        };
        let before = ticks::now();
        let found = self.read_queue(context, state);
        context.has_read(before, found);
        n + found
    }

    /// Polls the rings. Also polls the provider's queue at intervals, or if nothing completed in the rings and the
    /// provider reaches a peer.
    #[inline(never)]
    fn poll_rings_and_queue(&self, context: &Context, state: Guard<'_, State>) -> usize {
        match self.poll_channel(context, state, true) {
            Ok(n) => n,
            Err(state) => self.read_queue(context, state),
        }
    }

    /// Executes the commands that arrived, reads answers and delivers them. Returns the guard if this context has no
    /// rings. With `with_queue`, also returns it if the caller must read the provider's queue: at intervals, and if the
    /// rings are empty and the provider reaches a peer.
    #[inline(always)]
    fn poll_channel<'a>(
        &self,
        context: &Context,
        mut state: Guard<'a, State>,
        with_queue: bool,
    ) -> Result<usize, Guard<'a, State>> {
        let Some(channel) = &mut state.channel else {
            return Err(state);
        };
        channel.attend(self.registrar.table());
        if with_queue && channel.polls().is_multiple_of(PROVIDER_INTERVAL) {
            return Err(state);
        }
        let only_rings = !(with_queue && self.node.uses_fabric.load(Ordering::Relaxed));
        if channel.is_quiet() {
            return self.nothing_in_rings(context, state, only_rings);
        }
        branch();
        if !channel.is_active() {
            return Ok(self.only_served(context, state));
        }
        let mut done = Done::new();
        channel.collect(&mut done);
        let n = done.finished().len() + usize::from(done.refused.is_some());
        if n == 0 {
            if let Some((endpoint, refused)) = done.doubted {
                self.defer(Found::CmaRefused(endpoint, refused));
                return Ok(0);
            }
            if channel.has_served() {
                return Ok(self.only_served(context, state));
            }
            return self.nothing_in_rings(context, state, only_rings);
        }
        state.counts.completed += done.finished().len() as u64;
        state.counts.failed += u64::from(done.refused.is_some());
        let ready = state.take_ready();
        drop(state);
        self.deliver(context, done.finished(), Status::SUCCESS);
        if let Some((f, status)) = done.refused {
            self.deliver_refused(context, f, status);
        }
        Ok(n + self.deliver_ready(context, ready))
    }

    /// Ends a poll in which no ring had an answer. The poll may continue with the provider's queue.
    #[inline]
    fn nothing_in_rings<'a>(
        &self,
        context: &Context,
        state: Guard<'a, State>,
        only_rings: bool,
    ) -> Result<usize, Guard<'a, State>> {
        if only_rings {
            Ok(self.without_entry(context, state))
        } else {
            Err(state)
        }
    }

    /// Ends a poll that executed commands of peers and found no answer. Such a poll counts as successful, because the
    /// next commands will probably arrive soon.
    #[inline(never)]
    fn only_served(&self, context: &Context, mut state: Guard<'_, State>) -> usize {
        if let Some(channel) = &mut state.channel {
            channel.clear_served();
        }
        self.without_entry(context, state) + 1
    }

    #[cold]
    pub(super) fn deliver_refused(&self, context: &Context, f: Finished, status: Status) {
        let gone = status == Status::UNREACH;
        // A release that waits for the operation keeps the endpoint until this report is over.
        let _reporting = gone.then(|| Reporting::begin(&self.failures));
        let what = if gone {
            "its process no longer runs"
        } else {
            "the target refused it: its handle names no region there with this access, or the memory is not mapped"
        };
        self.tell_failed(&[f], status, what);
        self.deliver(context, &[f], status);
        if gone && let Some(endpoint) = NonNull::new(f.tag.endpoint()) {
            self.fail_peer(endpoint, Cause::Gone, status, what);
        }
    }

    /// Reads answers while batches are sent, so that both advance. Sends nothing: the newest batch has only one command,
    /// and more commands are likely to follow. Reads nothing while callbacks run, because callbacks would nest.
    #[cold]
    #[inline(never)]
    pub(crate) fn poll_while_sending(&self, context: &Context) {
        guarded(|| {
            if !self.must_not_poll(context)
                && let Some(state) = context.state.try_lock()
                && !state.messages.as_ref().is_some_and(|m| m.is_full())
            {
                self.read_queue(context, state);
            }
            Status::SUCCESS
        });
    }

    /// Handles a poll without completions.
    #[inline(always)]
    pub(crate) fn without_entry(&self, context: &Context, mut state: Guard<'_, State>) -> usize {
        if !state.ready.is_empty() {
            return self.complete_ready(context, state);
        }
        state.idle = state.idle.wrapping_add(1);
        let check = state.idle.is_multiple_of(IDLE_CHECK);
        let unattributed = state.unattributed;
        drop(state);
        // This also runs with nothing outstanding, because the host may wait for a signal from a
        // peer that is dead.
        if check {
            self.check_peers_now_and_then();
        }
        if unattributed > 0 && context.count.outstanding() > 0 {
            return self.settle_unattributed();
        }
        0
    }

    #[inline(never)]
    fn complete_ready(&self, context: &Context, mut state: Guard<'_, State>) -> usize {
        let ready = state.take_ready();
        drop(state);
        self.deliver_ready(context, ready)
    }

    /// The same as [`poll_if_many`](Self::poll_if_many), after a post whose caller catches no
    /// panic.
    #[inline(always)]
    pub(crate) fn poll_after_post(&self, context: &Context) {
        if context.count.outstanding() > self.setup.progress_threshold {
            guarded(|| {
                self.poll_if_many(context);
                Status::SUCCESS
            });
        }
    }

    /// Makes progress if many operations are outstanding.
    #[inline]
    pub(crate) fn poll_if_many(&self, context: &Context) {
        if context.count.outstanding() > self.setup.progress_threshold
            && !self.must_not_poll(context)
        {
            self.poll(context);
        }
    }
}

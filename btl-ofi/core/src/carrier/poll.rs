//! Polls of contexts: one asks all carriers of a context what they brought.

use crate::base::hints::branch;
use crate::base::lock::Guard;
use crate::core::context::{Carriers, Context, State};
use crate::core::state::Core;
use crate::peer::share::Share;
use std::sync::atomic::Ordering;

/// Successful polls of the own context after which another context is polled too. A smaller number would take
/// locks and cache lines from the threads of the other contexts more often.
const BUSY_POLLS: u32 = 8;

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
        // Any context except its own; every second time the first, which serves peers.
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

    /// Reads one context's queue once. Returns immediately if another thread reads it.
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

    /// Posts reads that confirm puts, sends what gathered, then polls rings and queue.
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
                if messages.has_failures() {
                    return self.tell_failures(context, state);
                }
            }
            if messages.is_full() {
                // A thread, perhaps this one further up its stack, hands to the host what came before.
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
}

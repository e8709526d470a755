//! Progress: reads completion queues under their locks and runs callbacks without a lock.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use libfabric_sys as ffi;
use plugin_api::Status;

use crate::base::hints::branch;
use crate::base::lock::Guard;
use crate::base::params::MAX_CQ_READ;
use crate::engine::context::{Carriers, Context, State};
use crate::engine::transport::Transport;
use crate::fabric::confirmation::Puts;
use crate::op::completion::Finished;
use crate::op::marked::Marked;
use crate::op::record::{Pool, Record};
use crate::op::tag::Tag;
use crate::peer::share::Share;

/// Polls of a context without completion (in a row or not) after which the clock is read. Rare enough to cost
/// nothing; often enough for a host that sleeps about 50 us between polls.
const IDLE_CHECK: u32 = 1 << 10;

/// Successful polls of the own context after which another context is polled too. A smaller number would take
/// locks and cache lines from the threads of the other contexts more often.
const BUSY_POLLS: u32 = 8;

impl Transport {
    /// Makes progress: polls this thread's context. If that finds nothing, and at intervals otherwise, it also
    /// polls one other context, in turn, so that the operations of a thread that stopped polling still
    /// complete. Runs callbacks; callbacks may call it. Returns the number of completed operations, or more where it
    /// served peers: 0 if nothing happened.
    #[inline(always)]
    pub fn progress(&self) -> usize {
        // Checked first, so that the poll can be a tail call.
        if self.hmem.is_awake() {
            return self.progress_devices();
        }
        self.progress_contexts()
    }

    #[inline(always)]
    fn progress_contexts(&self) -> usize {
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

    /// [`progress`](Self::progress) when staged or compound operations may need to advance.
    #[cold]
    #[inline(never)]
    fn progress_devices(&self) -> usize {
        if self.is_copy() {
            return 0;
        }
        let done = self.progress_contexts()
            + self.progress_rails()
            + self.advance_compounds()
            + self.drive();
        // This process may make no further progress, but peers wait for what was posted here.
        self.send_gathered();
        done
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

    /// Reads the queue once.
    #[inline(always)]
    pub(crate) fn read_queue(&self, context: &Context, state: Guard<'_, State>) -> usize {
        // SAFETY: contexts have their transport's threading.
        unsafe {
            match self.setup.threaded {
                true => self.read_queue_as::<true>(context, state),
                false => self.read_queue_as::<false>(context, state),
            }
        }
    }

    /// # Safety
    /// `T` is the transport's threading.
    #[inline(always)]
    unsafe fn read_queue_as<const T: bool>(
        &self,
        context: &Context,
        mut state: Guard<'_, State>,
    ) -> usize {
        let (read, room) = (state.read, state.completions.room());
        // SAFETY: there is room for MAX_CQ_READ entries in the queue's format, and num_cq_read is at most that; the queue
        // is read only under the lock.
        let n = unsafe { read(context.cq, room, self.setup.num_cq_read) };
        if n == 1 && state.ready.is_empty() {
            // SAFETY: the caller guarantees `T`.
            return unsafe { self.complete_one::<T>(context, state) };
        }
        branch();
        if n == -(ffi::FI_EAGAIN as isize) || n == 0 {
            return self.without_entry(context, state);
        }
        if n < 0 {
            drop(state);
            return self.poll_error(context, n);
        }
        self.complete(context, state, n as usize)
    }

    /// Completes the operation of the queue's only entry.
    ///
    /// # Safety
    /// `T` is the transport's threading.
    #[inline(always)]
    unsafe fn complete_one<const T: bool>(
        &self,
        context: &Context,
        mut state: Guard<'_, State>,
    ) -> usize {
        let pointer = state.completions.first();
        if let Some(tag) = Tag::from_untracked(pointer) {
            state.counts.completed += 1;
            // SAFETY: the caller guarantees `T`.
            unsafe { state.unlock_as(T) };
            self.lower_as(context, tag, 1, T);
            return 1;
        }
        // A completion without context is not for an operation of this transport. A completion of a free record
        // is for an operation that was already reported as failed.
        if Marked::is(pointer) {
            return match Marked::of(pointer) {
                Some(Marked::Message(message)) => {
                    let length = state.completions.first_length();
                    self.complete_message(context, state, (message, length))
                }
                _ => self.complete(context, state, 1),
            };
        }
        let Some(record) = NonNull::new(pointer.cast::<Record>()) else {
            return 0;
        };
        // SAFETY: a context that is neither NULL nor a tag is a record that this transport posted.
        if unsafe { Pool::is_free(record) } {
            return 0;
        }
        state.counts.completed += 1;
        // SAFETY: a context that is neither NULL nor a tag is a posted record, and `is_free` says that it is in
        // use.
        let finished = unsafe { state.pool.give_back(record) };
        // SAFETY: the caller guarantees `T`.
        unsafe { state.unlock_as(T) };
        let nested = context.delivering.begin();
        self.call_back(context, &finished, Status::SUCCESS, T);
        context.delivering.end(nested);
        1
    }

    /// Completes the operations of the queue's first `n` entries.
    #[inline(never)]
    fn complete(&self, context: &Context, mut state: Guard<'_, State>, n: usize) -> usize {
        let n = n.min(MAX_CQ_READ);
        let mut finished = [const { MaybeUninit::<Finished>::uninit() }; MAX_CQ_READ];
        let (mut recorded, mut stray) = (0, 0);
        let mut run: *mut c_void = ptr::null_mut();
        let mut length = 0;
        let mut told = false;
        let mut confirmed = Puts::default();
        let State {
            completions,
            pool,
            messages,
            confirmations,
            ..
        } = &mut *state;
        for (entry, pointer) in completions.contexts(n) {
            // Counts untracked operations as done at once: consecutive ones with the same tag together.
            if pointer == run && length > 0 {
                length += 1;
                continue;
            }
            if Tag::from_untracked(pointer).is_some() {
                self.lower_untracked(context, run, length);
                (run, length) = (pointer, 1);
                continue;
            }
            if let Some(marked) = Marked::of(pointer) {
                told |= matches!(marked, Marked::Message(_));
                stray += 1;
                let marked = (marked, completions.length(entry));
                self.take_marked(marked, pool, messages, confirmations, &mut confirmed);
                continue;
            }
            // A completion without context is not for an operation of this transport.
            let Some(record) = NonNull::new(pointer.cast::<Record>()) else {
                stray += 1;
                continue;
            };
            // SAFETY: a context that is neither NULL nor a tag is a record that this transport posted.
            if unsafe { Pool::is_free(record) } {
                stray += 1;
                continue;
            }
            // SAFETY: the context is a record that this transport posted, and `is_free` says that it is in use.
            finished[recorded].write(unsafe { pool.give_back(record) });
            recorded += 1;
        }
        self.lower_untracked(context, run, length);
        let mut n = n - stray;
        state.counts.completed += n as u64;
        let mut arrived = None;
        if told {
            let reported;
            (reported, arrived) = self.report_messages(context, state);
            n += reported;
        } else {
            let ready = state.take_ready();
            drop(state);
            n += self.deliver_ready(context, ready);
        }
        // SAFETY: the loop above wrote the first `recorded` elements.
        let finished =
            unsafe { std::slice::from_raw_parts(finished.as_ptr().cast::<Finished>(), recorded) };
        self.deliver(context, finished, Status::SUCCESS);
        n += self.end_puts(context, confirmed, Status::SUCCESS, "");
        // Last: it goes on while messages come, and a flush of another thread may wait for the above.
        n + self.deliver_arrived(context, arrived)
    }

    /// Counts a run of untracked operations as done.
    #[inline(always)]
    fn lower_untracked(&self, context: &Context, run: *mut c_void, length: u32) {
        if let Some(tag) = Tag::from_untracked(run) {
            self.lower(context, tag, length);
        }
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
        // Also with nothing outstanding: the host may be waiting for a signal from a dead peer.
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
}

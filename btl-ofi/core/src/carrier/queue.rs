//! Reading a completion queue, and the ends of the operations and messages in it.

mod errors;

use crate::base::hints::branch;
use crate::base::lock::Guard;
use crate::base::params::MAX_CQ_READ;
use crate::core::context::{Context, State};
use crate::core::state::Core;
use crate::fabric::confirmation::Puts;
use crate::op::completion::Finished;
use crate::op::marked::Marked;
use crate::op::record::{Pool, Record};
use crate::op::tag::Tag;
use libfabric_sys as ffi;
use plugin_api::Status;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

impl Core {
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
    pub(crate) unsafe fn read_queue_as<const T: bool>(
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

    /// Completes the operation whose entry is the only one in the queue.
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
            context.lower(tag, 1, T);
            return 1;
        }
        // A completion without context belongs to no operation of this transport. A completion of a free record
        // belongs to an operation that was already reported as failed.
        if Marked::is(pointer) {
            // SAFETY: the provider returns the contexts that this transport gave to it.
            return match unsafe { Marked::of(pointer) } {
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
            // Counts untracked operations as done. Consecutive operations with the same tag are counted
            // together.
            if pointer == run && length > 0 {
                length += 1;
                continue;
            }
            if Tag::from_untracked(pointer).is_some() {
                self.lower_untracked(context, run, length);
                (run, length) = (pointer, 1);
                continue;
            }
            // SAFETY: the provider returns the contexts that this transport gave to it.
            if let Some(marked) = unsafe { Marked::of(pointer) } {
                told |= matches!(marked, Marked::Message(_));
                stray += 1;
                let marked = (marked, completions.length(entry));
                self.take_marked(marked, pool, messages, confirmations, &mut confirmed);
                continue;
            }
            // A completion without context belongs to no operation of this transport.
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
        // The sends come last: their delivery continues while messages arrive, and a flush in another
        // thread may wait for the operations above.
        n + self.deliver_arrived(context, arrived)
    }

    /// Counts a run of untracked operations as done.
    #[inline(always)]
    fn lower_untracked(&self, context: &Context, run: *mut c_void, length: u32) {
        if let Some(tag) = Tag::from_untracked(run) {
            self.lower(context, tag, length);
        }
    }
}

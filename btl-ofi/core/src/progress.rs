//! Completing operations: reading a queue under its lock, running callbacks after it.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use libfabric_sys as ffi;
use plugin_api::Status;

use crate::context::{Context, State};
use crate::error::{describe, peer_is_gone, status_of};
use crate::params::MAX_CQ_READ;
use crate::record::{Finished, Record, Tag};
use crate::transport::Transport;

/// Polls of a context without completion, in a row or not, after which the clock is looked at: rare enough to cost
/// nothing, and often enough for a host that sleeps some 50 us between polls.
const IDLE_CHECK: u32 = 1 << 10;

impl Transport {
    /// Completes what is complete: reads this thread's context and, in turn, one of the others, so
    /// that what a thread left behind is completed by those that stay. Runs callbacks. May be called
    /// from callbacks. Returns the number of operations completed.
    #[inline]
    pub fn progress(&self) -> usize {
        // Asked first, so that nothing is left to do after the poll.
        if self.hmem.is_awake() {
            return self.progress_devices();
        }
        self.progress_contexts()
    }

    #[inline]
    fn progress_contexts(&self) -> usize {
        let n = self.contexts.len();
        if n == 1 {
            return self.poll(&self.contexts[0]);
        }
        let own = self.own_index();
        let mut done = self.poll(&self.contexts[own]);
        let other = self.turn.fetch_add(1, Ordering::Relaxed) as usize % n;
        if other != own {
            done += self.poll(&self.contexts[other]);
        }
        done
    }

    /// As [`progress`](Self::progress), where there may be something to do for device memory.
    #[cold]
    #[inline(never)]
    fn progress_devices(&self) -> usize {
        self.progress_contexts() + self.drive()
    }

    /// Reads one context's queue once. Gives way when another thread is at it: that one completes
    /// what there is.
    pub(crate) fn poll(&self, context: &Context) -> usize {
        let Some(mut state) = context.state.try_lock() else {
            return 0;
        };
        if state.channel.is_some() {
            state = match self.poll_channel(context, state) {
                Ok(n) => return n,
                Err(state) => state,
            };
        }
        let mut entries = [const { MaybeUninit::<ffi::fi_cq_entry>::uninit() }; MAX_CQ_READ];
        // SAFETY: the array has room for MAX_CQ_READ entries, and num_cq_read is at most that; the
        // queue was opened with this entry format and is only read under the lock.
        let n = unsafe { (state.read)(context.cq, entries.as_mut_ptr().cast(), self.num_cq_read) };
        if n <= 0 {
            return self.poll_without_entry(context, state, n);
        }
        let n = (n as usize).min(MAX_CQ_READ);
        // SAFETY: the provider filled the first n entries.
        let entries =
            unsafe { std::slice::from_raw_parts(entries.as_ptr().cast::<ffi::fi_cq_entry>(), n) };
        let mut finished = [const { MaybeUninit::<Finished>::uninit() }; MAX_CQ_READ];
        let (mut recorded, mut stray) = (0, 0);
        for entry in entries {
            if Tag::from_bare(entry.op_context).is_some() {
                continue;
            }
            // A completion without context belongs to no operation of ours.
            let Some(record) = NonNull::new(entry.op_context.cast::<Record>()) else {
                stray += 1;
                continue;
            };
            // SAFETY: a non-NULL context that is no tag is a record we posted and the provider just
            // finished with.
            finished[recorded].write(unsafe { state.pool.give_back(record) });
            recorded += 1;
        }
        let n = n - stray;
        state.completed += n as u64;
        let ready = state.take_ready();
        drop(state);

        self.lower_bare(context, entries);
        // SAFETY: the first `recorded` were written above.
        let finished =
            unsafe { std::slice::from_raw_parts(finished.as_ptr().cast::<Finished>(), recorded) };
        self.deliver(context, finished, Status::SUCCESS);
        n + self.deliver_ready(context, ready)
    }

    /// Counts operations without record as done, runs of one peer at once.
    #[inline]
    fn lower_bare(&self, context: &Context, entries: &[ffi::fi_cq_entry]) {
        let mut run: *mut std::ffi::c_void = ptr::null_mut();
        let mut length = 0;
        for entry in entries {
            if entry.op_context == run {
                length += 1;
                continue;
            }
            if let Some(tag) = Tag::from_bare(run) {
                self.lower(context, tag, length);
            }
            (run, length) = (entry.op_context, 1);
        }
        if let Some(tag) = Tag::from_bare(run) {
            self.lower(context, tag, length);
        }
    }

    /// Runs callbacks, and counts each operation as done after its own. No lock is held.
    pub(crate) fn deliver(&self, context: &Context, finished: &[Finished], status: Status) {
        if finished.is_empty() {
            return;
        }
        let nested = context.delivering.swap(true, Ordering::Relaxed);
        let owner = self.owner.load(Ordering::Relaxed);
        for f in finished {
            if let Some(function) = f.function {
                // SAFETY: the caller of the operation gave the function with its arguments, and
                // lets it run on any thread that makes progress.
                unsafe {
                    function(
                        owner,
                        f.tag.endpoint().cast(),
                        f.local_address,
                        f.local_handle,
                        f.context,
                        f.data,
                        status.0,
                    );
                }
            }
            self.lower(context, f.tag, 1);
        }
        if !nested {
            context.delivering.store(false, Ordering::Relaxed);
        }
    }

    /// Delivers what needed no provider, and gives the list back to be filled again.
    #[inline]
    pub(crate) fn deliver_ready(&self, context: &Context, mut ready: Vec<Finished>) -> usize {
        let n = ready.len();
        if n > 0 {
            self.deliver(context, &ready, Status::SUCCESS);
            ready.clear();
            let mut state = context.state.lock();
            if state.ready.is_empty() {
                // The list that is known to be long enough goes first again.
                std::mem::swap(&mut state.ready, &mut ready);
            }
            state.spare = ready;
        }
        n
    }

    /// What there is to do when the queue gave no completion.
    #[inline]
    pub(crate) fn poll_without_entry(
        &self,
        context: &Context,
        mut state: crate::lock::Guard<'_, State>,
        n: isize,
    ) -> usize {
        if n == -(ffi::FI_EAGAIN as isize) || n == 0 {
            if !state.ready.is_empty() {
                let ready = state.take_ready();
                drop(state);
                return self.deliver_ready(context, ready);
            }
            state.idle = state.idle.wrapping_add(1);
            let look = state.idle.is_multiple_of(IDLE_CHECK);
            let unattributed = state.unattributed;
            drop(state);
            // Also with nothing outstanding: whoever polls may wait for a signal of a dead peer.
            if look {
                self.check_peers_now_and_then();
            }
            if unattributed > 0 && context.tally.outstanding() > 0 {
                return self.settle_unattributed();
            }
            return 0;
        }
        drop(state);
        self.poll_error(context, n)
    }

    /// Reads error completions. Each is reported once: to its callback, or through the error
    /// function and the next flush.
    #[cold]
    #[inline(never)]
    fn poll_error(&self, context: &Context, n: isize) -> usize {
        if n != -(ffi::FI_EAVAIL as isize) {
            let code = i32::try_from(-n).unwrap_or(ffi::FI_EOTHER as i32);
            self.report_module(
                status_of(code),
                &format!("fi_cq_read returned {n} ({})", describe(code)),
            );
            return 0;
        }
        let Some(mut state) = context.state.try_lock() else {
            return 0;
        };
        let mut entry = ffi::fi_cq_err_entry::default();
        // SAFETY: a live queue, read under the lock; the entry is complete and without buffer.
        let rc = unsafe { ffi::fi_cq_readerr(context.cq, &mut entry) };
        if rc < 0 {
            return 0;
        }
        let code = match entry.err {
            0 => ffi::FI_EIO as c_int,
            err => err.abs(),
        };
        let status = match status_of(code) {
            // A failed operation is over: it must not look like back-pressure.
            s if s.is_ok() || s.is_again() => Status::ERROR,
            s => s,
        };
        state.failed += 1;
        let tag = Tag::from_bare(entry.op_context);
        let finished = match (tag, state.pool.owns(entry.op_context)) {
            // SAFETY: `owns` found it in use.
            (None, Some(record)) => Some(unsafe { state.pool.give_back(record) }),
            _ => None,
        };
        if tag.is_none() && finished.is_none() {
            state.unattributed += 1;
            drop(state);
            tracing::warn!(
                "an operation failed without saying which: {}",
                describe(code)
            );
            return self.settle_unattributed_as(status);
        }
        drop(state);
        let what = format!(
            "{} (error {code}, provider's {})",
            describe(code),
            entry.prov_errno
        );
        match (tag, finished) {
            (Some(tag), _) => {
                self.lose(tag, 1, status, &what);
                self.lower(context, tag, 1);
            }
            (None, Some(f)) => {
                if f.function.is_none() {
                    self.lose(f.tag, 1, status, &what);
                }
                self.deliver(context, &[f], status);
            }
            (None, None) => {}
        }
        if peer_is_gone(code)
            && let Some(tag) = tag.or(finished.map(|f| f.tag))
            && let Some(endpoint) = NonNull::new(tag.endpoint())
        {
            self.fail_peer(endpoint, status, &what);
        } else {
            // The provider may have had no better word for it.
            self.check_peers();
        }
        1
    }
}

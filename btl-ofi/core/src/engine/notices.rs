//! Puts with notification whose two parts are posted one after the other: the atomic when the put has completed.
//!
//! Such an operation has a record of its own, with the caller's completion, and counts as outstanding from the call on. Its
//! parts are operations of this transport that count beside it. So a flush that begins between the two parts waits for the
//! second one too, and the failure of a peer is reported from the record like that of any operation.
//!
//! The callbacks of the parts only note what happened. Progress takes the next step, without a lock held; what finds no room
//! is tried again by the next progress.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plugin_api::{Module, Status};

use crate::engine::notify::Raise;
use crate::engine::post::Caller;
use crate::engine::transport::Transport;
use crate::op::completion::{Completion, Finished};
use crate::op::record::{Pool, Record};
use crate::op::request::Op;
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;

/// What an operation does next.
#[derive(Clone, Copy)]
enum Step {
    /// The bytes are visible: raise the counter.
    Raise,
    /// Report the end.
    End(Status),
}

/// A put with notification in progress. Its parts know it by its address.
struct Notified {
    /// The operation record, with the caller's completion, in the pool of `context`.
    record: NonNull<Record>,
    /// Index of the context that counts it.
    context: usize,
    tag: Tag,
    raise: Raise,
    /// Written by the callback of the part that is outstanding, read by progress once the queue has it.
    step: Step,
    queue: Arc<Queue>,
}

/// The operations of one transport.
#[derive(Default)]
pub(crate) struct Notices(Arc<Queue>);

#[derive(Default)]
struct Queue {
    lists: Mutex<Lists>,
    held: AtomicU32,
}

#[derive(Default)]
struct Lists {
    all: HashMap<NonNull<Record>, NonNull<Notified>>,
    /// Those that can take their next step.
    ready: Vec<NonNull<Notified>>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notices {
    /// Operations in the outstanding count that are not at the provider.
    pub(crate) fn held(&self) -> u32 {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Whether a record is that of an operation here.
    pub(crate) fn has(&self, record: NonNull<Record>) -> bool {
        self.0.lock().all.contains_key(&record)
    }

    /// The contexts that count the operations here, and their tags.
    pub(crate) fn tags(&self) -> Vec<(usize, Tag)> {
        let lists = self.0.lock();
        // SAFETY: operations live until they are removed from the list; context and tag do not change.
        let all = lists.all.values().map(|n| unsafe { n.as_ref() });
        all.map(|n| (n.context, n.tag)).collect()
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        for notified in std::mem::take(&mut self.0.lock().all).into_values() {
            // SAFETY: `begin_notified` made the pointer with Box::leak, and the operation was not removed. The transport
            // closes, so no callback follows the pointer any more.
            drop(unsafe { Box::from_raw(notified.as_ptr()) });
        }
    }
}

/// Notes the end of one part.
///
/// # Safety
/// `notified` is an operation whose only outstanding part has ended.
unsafe fn note(notified: *mut c_void, step: Step) {
    let notified: *mut Notified = notified.cast();
    // SAFETY: the caller guarantees an operation that waits for this part, so nothing else accesses it until the queue
    // has it.
    unsafe {
        (*notified).step = step;
        let queue = Arc::clone(&(*notified).queue);
        queue.lock().ready.push(NonNull::new_unchecked(notified));
    }
}

/// The callback of the put.
unsafe extern "C" fn put_ended(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    context: *mut c_void,
    _: *mut c_void,
    status: i32,
) {
    let step = match Status(status) {
        Status::SUCCESS => Step::Raise,
        failure => Step::End(failure),
    };
    // SAFETY: `put_then_raise` passed the operation, whose put has ended.
    unsafe { note(context, step) };
}

/// The callback of the atomic.
unsafe extern "C" fn raise_ended(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    context: *mut c_void,
    _: *mut c_void,
    status: i32,
) {
    // SAFETY: `advance_notices` passed the operation, whose atomic has ended.
    unsafe { note(context, Step::End(Status(status))) };
}

impl Transport {
    /// Makes a put, and raises the counter when it has completed.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit).
    pub(crate) unsafe fn put_then_raise(
        &self,
        endpoint: NonNull<Endpoint>,
        op: &Op<'_>,
        raise: &Raise,
    ) -> Status {
        let notified = match self.begin_notified(endpoint, &Caller::of(op), raise) {
            Ok(notified) => notified,
            Err(status) => return status,
        };
        let part = op.with_completion(Some(Completion {
            function: put_ended,
            context: notified.as_ptr().cast(),
            data: ptr::null_mut(),
        }));
        // SAFETY: the caller guarantees that `endpoint` is live, the buffers are valid until completion, and the handles are
        // NULL or readable.
        match unsafe { self.transfer(endpoint, &part, true) } {
            Status::SUCCESS => Status::SUCCESS,
            Status::COMPLETED => {
                // SAFETY: the put is complete, and its callback does not run.
                unsafe { note(notified.as_ptr().cast(), Step::Raise) };
                Status::SUCCESS
            }
            refused => {
                let (context, finished) = self.remove_notified(notified);
                self.lower(&self.contexts[context], finished.tag, 1);
                // The peer may have failed during the call, and its operations been reported, this one included.
                if Pool::was_reported(&finished) {
                    return Status::SUCCESS;
                }
                refused
            }
        }
    }

    /// Has progress raise the counter of a put that is complete.
    #[cold]
    pub(crate) fn raise_later(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        raise: &Raise,
    ) -> Status {
        match self.begin_notified(endpoint, caller, raise) {
            Ok(notified) => {
                // SAFETY: the operation has no outstanding part.
                unsafe { note(notified.as_ptr().cast(), Step::Raise) };
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }

    /// Counts an operation, and keeps its record.
    fn begin_notified(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        raise: &Raise,
    ) -> Result<NonNull<Notified>, Status> {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let index = self.own_index();
        let context = &self.contexts[index];
        let mut state = context.state.lock();
        // Checked under the lock, because `cut_off` marks a peer as failed with all contexts locked.
        if let Some(status) = peer.failure() {
            return Err(status);
        }
        let mut lists = self.atomics.notices.0.lock();
        if lists.all.try_reserve(1).is_err() {
            return Err(Status::OUT_OF_RESOURCE);
        }
        let record = state.pool.take().ok_or(Status::OUT_OF_RESOURCE)?;
        let tag = Tag::new(
            endpoint,
            context.count.raise(self.setup.threaded),
            peer.count.raise(self.setup.threaded),
        );
        let (local, handle) = (caller.local_address, caller.local_handle);
        // SAFETY: the record was just taken from the pool, so nothing else uses it.
        unsafe { Record::fill(record, tag, caller.completion, local, handle) };
        let notified = NonNull::from(Box::leak(Box::new(Notified {
            record,
            context: index,
            tag,
            raise: *raise,
            step: Step::Raise,
            queue: Arc::clone(&self.atomics.notices.0),
        })));
        // Under the context's lock, so that the record is never in use without being listed.
        lists.all.insert(record, notified);
        self.atomics.notices.0.held.fetch_add(1, Ordering::Relaxed);
        self.hmem.wake();
        Ok(notified)
    }

    /// Removes an operation. Returns the index of its context and what its callback needs. The caller lowers the counts.
    fn remove_notified(&self, notified: NonNull<Notified>) -> (usize, Finished) {
        // SAFETY: `begin_notified` made the pointer with Box::leak, no part of the operation is outstanding, and each
        // operation is removed once. The list forgets it below.
        let notified = unsafe { Box::from_raw(notified.as_ptr()) };
        let mut state = self.contexts[notified.context].state.lock();
        self.atomics.notices.0.lock().all.remove(&notified.record);
        // Lowered before the outstanding count, so that meanwhile the provider seems to have one operation too many, never
        // one too few.
        self.atomics.notices.0.held.fetch_sub(1, Ordering::Relaxed);
        self.hmem.rest();
        // SAFETY: `begin_notified` took the record from this pool, and only this call gives it back.
        let finished = unsafe { state.pool.give_back(notified.record) };
        (notified.context, finished)
    }

    /// Takes the next step of each operation that can take one. Returns the number of steps.
    pub(crate) fn advance_notices(&self) -> usize {
        let ready = std::mem::take(&mut self.atomics.notices.0.lock().ready);
        let (mut steps, mut waiting) = (0, Vec::new());
        for at in ready {
            // SAFETY: the operation lives until it is removed, and no part of it is outstanding, so this thread alone
            // accesses it.
            let Notified {
                step, tag, raise, ..
            } = *unsafe { at.as_ref() };
            steps += 1;
            let status = match (step, NonNull::new(tag.endpoint())) {
                (Step::End(status), _) => status,
                (Step::Raise, None) => Status::ERROR,
                (Step::Raise, Some(endpoint)) => {
                    let caller = Caller {
                        completion: Some(Completion {
                            function: raise_ended,
                            context: at.as_ptr().cast(),
                            data: ptr::null_mut(),
                        }),
                        local_address: ptr::null_mut(),
                        local_handle: ptr::null_mut(),
                    };
                    // SAFETY: endpoints outlive the operations whose tags name them.
                    match unsafe { self.raise(endpoint, &caller, &raise) } {
                        Status::SUCCESS => continue,
                        Status::COMPLETED => Status::SUCCESS,
                        again if again.is_again() => {
                            steps -= 1;
                            waiting.push(at);
                            continue;
                        }
                        refused => refused,
                    }
                }
            };
            self.end_notified(at, status);
        }
        if !waiting.is_empty() {
            self.atomics.notices.0.lock().ready.append(&mut waiting);
        }
        steps
    }

    /// Reports the end of an operation.
    fn end_notified(&self, notified: NonNull<Notified>, status: Status) {
        // The operation is over: its status must not mean that the caller should retry.
        let status = match status {
            s if s.is_again() => Status::ERROR,
            s => s,
        };
        let (context, finished) = self.remove_notified(notified);
        if !status.is_ok() && finished.function.is_none() {
            let what = "a put with notification; its counter was not raised";
            self.lose(finished.tag, 1, status, what);
        }
        self.deliver(&self.contexts[context], &[finished], status);
    }
}

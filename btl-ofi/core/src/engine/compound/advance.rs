//! Starts, advances and ends compound operations.

use crate::engine::compound::state::{Compound, Event, Next, Parts};
use crate::engine::transport::Transport;
use crate::op::completion::Finished;
use crate::op::record::{Pool, Record};
use crate::op::request::Caller;
use crate::peer::endpoint::Endpoint;
use plugin_api::Status;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

impl Transport {
    /// Counts an operation, and keeps its record.
    pub(crate) fn begin_compound(
        &self,
        endpoint: NonNull<Endpoint>,
        caller: &Caller,
        parts: Parts,
    ) -> Result<NonNull<Compound>, Status> {
        // SAFETY: the caller of the operation guarantees that `endpoint` is live.
        let peer = unsafe { endpoint.as_ref() };
        let index = self.own_index();
        let context = &self.contexts[index];
        let mut state = context.state.lock();
        // The check is under the lock, because `close_endpoints_for` marks a peer as failed with all contexts
        // locked.
        if let Some(status) = peer.failure() {
            return Err(status);
        }
        let (what, striped) = match parts {
            Parts::Notified(_) => ("a put with notification; its counter was not raised", 0),
            Parts::Striped(_) => ("a transfer over several interfaces", 1),
        };
        let mut lists = self.compounds.0.lock();
        if lists.all.try_reserve(1).is_err() {
            return Err(Status::OUT_OF_RESOURCE);
        }
        let record = state.pool.take().ok_or(Status::OUT_OF_RESOURCE)?;
        let tag = context.raise(peer, self.setup.threaded);
        let (local, handle) = (caller.local_address, caller.local_handle);
        // SAFETY: the record was just taken from the pool, so nothing else uses it.
        unsafe { Record::fill(record, tag.whole(), caller.completion, local, handle) };
        let compound = NonNull::from(Box::leak(Box::new(Compound {
            record,
            context: index,
            tag,
            parts: Mutex::new(parts),
            what,
            queue: Arc::clone(&self.compounds.0),
        })));
        lists.all.insert(record, compound);
        self.compounds
            .0
            .striped
            .fetch_add(striped, Ordering::Relaxed);
        self.slow.hold();
        Ok(compound)
    }

    /// Removes an operation without posted parts. Returns whether the operation was already reported, with its peer's
    /// failure.
    pub(crate) fn withdraw_compound(&self, compound: NonNull<Compound>) -> bool {
        let (context, finished) = self.remove_compound(compound);
        self.lower(&self.contexts[context], finished.tag, 1);
        Pool::was_reported(&finished)
    }

    /// Removes an operation. Returns the index of the operation's context and the arguments of its callback. The caller
    /// lowers the counts.
    fn remove_compound(&self, compound: NonNull<Compound>) -> (usize, Finished) {
        // SAFETY: the operation lives until it is dropped below. The reference is shared, because `watch` may hold another
        // one, and the lock on the parts, until the operation is removed from the list.
        let (context, record) = unsafe {
            let compound = compound.as_ref();
            (compound.context, compound.record)
        };
        let mut state = self.contexts[context].state.lock();
        self.compounds.0.lock().all.remove(&record);
        // SAFETY: `begin_compound` made the pointer with Box::leak, no part of the operation is outstanding, and each
        // operation is removed once. `watch` follows pointers of the list only, under its lock.
        let mut compound = unsafe { Box::from_raw(compound.as_ptr()) };
        let parts = compound.parts.get_mut();
        let striped = match parts.unwrap_or_else(PoisonError::into_inner) {
            Parts::Striped(_) => 1,
            Parts::Notified(_) => 0,
        };
        self.compounds
            .0
            .striped
            .fetch_sub(striped, Ordering::Relaxed);
        self.slow.release();
        // SAFETY: `begin_compound` took the record from this pool, and only this call gives it back.
        let finished = unsafe { state.pool.give_back(record) };
        drop(state);
        (context, finished)
    }

    /// Takes the first step of an operation that has just begun. Only this operation advances, so no callback of another
    /// operation runs inside the caller's callback. Returns the status for the caller.
    pub(crate) fn start_compound(&self, at: NonNull<Compound>) -> Status {
        match self.act(at, Event::Room) {
            Next::Parts => Status::SUCCESS,
            Next::Again(event) => {
                self.compounds.0.put_off((at, event));
                Status::SUCCESS
            }
            // The peer may have failed during the call. Then all its operations, including this one, have
            // been reported.
            Next::End(_) if self.withdraw_compound(at) => Status::SUCCESS,
            Next::End(status) => status,
        }
    }

    /// Acts on the events of compound operations. Returns the number of steps.
    pub(crate) fn advance_compounds(&self) -> usize {
        let queue = &self.compounds.0;
        if !queue.noted.load(Ordering::Relaxed) {
            return 0;
        }
        queue.resume();
        let mut steps = 0;
        while let Some((at, event)) = queue.next() {
            match self.act(at, event) {
                Next::Parts => steps += 1,
                Next::Again(event) => queue.put_off((at, event)),
                Next::End(status) => {
                    steps += 1;
                    self.end_compound(at, status);
                }
            }
        }
        steps
    }

    /// Takes the next step of an operation.
    fn act(&self, at: NonNull<Compound>, event: Event) -> Next {
        self.quietly(|| self.act_locked(at, event))
    }

    /// [`act`](Self::act), with the operation locked. No callback runs.
    fn act_locked(&self, at: NonNull<Compound>, event: Event) -> Next {
        // SAFETY: an operation that has an event is not over, so it lives; it is accessed by shared references only.
        let compound = unsafe { at.as_ref() };
        let Some(endpoint) = NonNull::new(compound.tag.endpoint()) else {
            return Next::End(Status::ERROR);
        };
        // Another thread holds the operation. The event is handled again later.
        let mut parts = match compound.parts.try_lock() {
            Ok(parts) => parts,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Next::Again(event),
        };
        if matches!(event, Event::Part(_, Status::SUCCESS)) {
            // SAFETY: endpoints outlive the operations whose tags name them.
            unsafe { endpoint.as_ref() }.part_completed();
        }
        match (&mut *parts, event) {
            (Parts::Notified(raise), event) => self.advance_notice((at, endpoint), raise, event),
            (Parts::Striped(stripe), event) => self.advance_stripe(at, stripe, event),
        }
    }

    /// Reports the end of an operation.
    fn end_compound(&self, compound: NonNull<Compound>, status: Status) {
        // The operation is over: its status must not mean that the caller should retry.
        let status = match status {
            s if s.is_again() => Status::ERROR,
            s => s,
        };
        // SAFETY: the operation lives until it is removed below.
        let what = unsafe { compound.as_ref() }.what;
        let (context, finished) = self.remove_compound(compound);
        if !status.is_ok() {
            self.tell_failed(&[finished], status, what);
        }
        self.deliver(&self.contexts[context], &[finished], status);
    }
}

//! Compound operations: each is made of others, its parts.
//!
//! | operation | parts |
//! | --- | --- |
//! | a put with notification, where one cannot carry both | the put, then the atomic (`notices`) |
//! | a large transfer over several rails | pieces (`stripes`) |
//! | a large transfer over TCP | pieces (`streams`) |
//!
//! A compound operation has a record of its own, with the caller's completion, and counts as outstanding from the call on.
//! Its parts are operations that count beside it. So a flush that begins between two parts waits for the later one too, and
//! the failure of a peer is reported from the record like that of any operation.
//!
//! The callbacks of parts only note what happened, and progress acts on it. While it acts, the operation is locked against other
//! threads, so nothing is polled: a poll runs callbacks (`failure::aside`). What finds no room is tried again by the next progress.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use plugin_api::{Module, Status};

use crate::engine::notify::Raise;
use crate::engine::post::Caller;
use crate::engine::streams::Stream;
use crate::engine::stripes::Stripe;
use crate::engine::transport::Transport;
use crate::op::completion::{Completion, Finished};
use crate::op::record::{Pool, Record};
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;

/// What an operation consists of.
pub(crate) enum Parts {
    /// A put, then the atomic that notifies.
    Notified(Raise),
    /// Pieces of a transfer over one interface.
    Streamed(Stream),
    /// Pieces of a transfer over several rails.
    Striped(Box<Stripe>),
}

/// What happened to an operation.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// The bytes are visible: the counter is to be raised.
    Visible,
    /// Pieces are to be posted. A transfer over one interface has room for the next one in its window.
    Room,
    /// A part ended: the number says which one, as its operation numbers them.
    Part(usize, Status),
}

/// What an operation does next.
pub(crate) enum Next {
    /// It waits for parts that are outstanding.
    Parts,
    /// It found no room: the next progress tries again with this event.
    Again(Event),
    /// It is over.
    End(Status),
}

/// A compound operation in progress. Its parts know it by its address.
pub(crate) struct Compound {
    /// The operation record, with the caller's completion, in the pool of `context`.
    record: NonNull<Record>,
    /// Index of the context that counts it.
    context: usize,
    tag: Tag,
    parts: Mutex<Parts>,
    /// What is told if it fails without a callback.
    what: &'static str,
    queue: Arc<Queue>,
}

/// The compound operations of one transport.
#[derive(Default)]
pub(crate) struct Compounds(Arc<Queue>);

#[derive(Default)]
struct Queue {
    lists: Mutex<Lists>,
    held: AtomicU32,
    /// Those of them that go over several rails.
    striped: AtomicU32,
    /// Whether there are events. Changes under the lock.
    noted: AtomicBool,
}

/// What happened to an operation.
type Noted = (NonNull<Compound>, Event);

#[derive(Default)]
struct Lists {
    all: HashMap<NonNull<Record>, NonNull<Compound>>,
    /// What happened, in order.
    events: VecDeque<Noted>,
    /// What the next progress tries again.
    again: VecDeque<Noted>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, event: Noted) {
        let mut lists = self.lock();
        lists.events.push_back(event);
        self.noted.store(true, Ordering::Relaxed);
    }

    /// Keeps an event for the next progress.
    fn put_off(&self, event: Noted) {
        let mut lists = self.lock();
        lists.again.push_back(event);
        self.noted.store(true, Ordering::Relaxed);
    }

    /// Has what was put off come again.
    fn resume(&self) {
        let Lists { events, again, .. } = &mut *self.lock();
        events.append(again);
    }

    /// Takes the next event. One at a time: callbacks run between two, and may make progress, which acts on the others.
    fn next(&self) -> Option<Noted> {
        let mut lists = self.lock();
        let next = lists.events.pop_front();
        let more = !lists.events.is_empty() || !lists.again.is_empty();
        self.noted.store(more, Ordering::Relaxed);
        next
    }
}

impl Compounds {
    /// Operations in the outstanding count that are not at the provider.
    pub(crate) fn held(&self) -> u32 {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Whether a record is of a compound operation.
    pub(crate) fn has(&self, record: NonNull<Record>) -> bool {
        self.0.lock().all.contains_key(&record)
    }

    /// Operations that go over several rails.
    pub(crate) fn striped(&self) -> u32 {
        self.0.striped.load(Ordering::Relaxed)
    }

    /// Tells transfers over several rails that `passed` milliseconds went by.
    pub(crate) fn watch(&self, passed: u64) {
        let others = self.striped();
        let mut lists = self.0.lock();
        let Lists { all, events, .. } = &mut *lists;
        for at in all.values() {
            // SAFETY: operations live until they are removed from the list, which is locked.
            let parts = unsafe { at.as_ref() }.parts.try_lock();
            // One whose parts are in use is told later.
            if let Ok(mut parts) = parts
                && let Parts::Striped(stripe) = &mut *parts
                && stripe.pass(passed, others)
            {
                events.push_back((*at, Event::Room));
                self.0.noted.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Compounds {
    fn drop(&mut self) {
        for compound in std::mem::take(&mut self.0.lock().all).into_values() {
            // SAFETY: `begin_compound` made the pointer with Box::leak, and the operation was not removed. The transport
            // closes, so no callback follows the pointer any more.
            drop(unsafe { Box::from_raw(compound.as_ptr()) });
        }
    }
}

/// Notes what happened to an operation, for progress.
///
/// # Safety
/// `compound` is an operation that is not over, and that cannot end before this event.
pub(crate) unsafe fn note(compound: NonNull<Compound>, event: Event) {
    // SAFETY: the caller guarantees that the operation lives; its queue does not change.
    let queue = Arc::clone(unsafe { &(*compound.as_ptr()).queue });
    queue.add((compound, event));
}

/// The callback of a part, which notes its end with its number.
pub(super) unsafe extern "C" fn part_ended(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut plugin_api::Handle,
    context: *mut c_void,
    data: *mut c_void,
    status: i32,
) {
    if let Some(compound) = NonNull::new(context.cast()) {
        let event = Event::Part(data.addr(), Status(status));
        // SAFETY: the post passed the operation, which is not over before this part is.
        unsafe { note(compound, event) };
    }
}

/// What a part with this number and this local buffer is posted with.
pub(crate) fn part((at, number): (NonNull<Compound>, usize), local: *mut c_void) -> Caller {
    Caller {
        completion: Some(Completion {
            function: part_ended,
            context: at.as_ptr().cast(),
            data: ptr::without_provenance_mut(number),
        }),
        local_address: local,
        local_handle: ptr::null_mut(),
    }
}

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
        // Checked under the lock, because `cut_off` marks a peer as failed with all contexts locked.
        if let Some(status) = peer.failure() {
            return Err(status);
        }
        let (what, striped) = match parts {
            Parts::Notified(_) => ("a put with notification; its counter was not raised", 0),
            Parts::Streamed(_) => ("a large transfer over TCP", 0),
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
        self.compounds.0.held.fetch_add(1, Ordering::Relaxed);
        self.compounds
            .0
            .striped
            .fetch_add(striped, Ordering::Relaxed);
        self.hmem.wake();
        Ok(compound)
    }

    /// Removes an operation of which no part was posted. Returns whether it was reported before, with its peer's failure.
    pub(crate) fn withdraw_compound(&self, compound: NonNull<Compound>) -> bool {
        let (context, finished) = self.remove_compound(compound);
        self.lower(&self.contexts[context], finished.tag, 1);
        Pool::was_reported(&finished)
    }

    /// Removes an operation. Returns the index of its context and what its callback needs. The caller lowers the counts.
    fn remove_compound(&self, compound: NonNull<Compound>) -> (usize, Finished) {
        // SAFETY: the operation lives until it is dropped below. A shared reference: `watch` may hold another one, and the lock on
        // the parts, until the list forgets the operation.
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
            Parts::Notified(_) | Parts::Streamed(_) => 0,
        };
        // This count is lowered before the outstanding count. In between the provider appears to have one operation too many,
        // never one too few.
        self.compounds.0.held.fetch_sub(1, Ordering::Relaxed);
        self.compounds
            .0
            .striped
            .fetch_sub(striped, Ordering::Relaxed);
        self.hmem.rest();
        // SAFETY: `begin_compound` took the record from this pool, and only this call gives it back.
        let finished = unsafe { state.pool.give_back(record) };
        drop(state);
        (context, finished)
    }

    /// Takes the first step of an operation that has just begun: one of its own, so that a caller inside a callback runs none.
    /// Returns what its caller is told.
    pub(crate) fn start_compound(&self, at: NonNull<Compound>) -> Status {
        match self.act(at, Event::Room) {
            Next::Parts => Status::SUCCESS,
            Next::Again(event) => {
                self.compounds.0.put_off((at, event));
                Status::SUCCESS
            }
            // The peer may have failed during the call, and its operations been reported, this one included.
            Next::End(_) if self.withdraw_compound(at) => Status::SUCCESS,
            Next::End(status) => status,
        }
    }

    /// Acts on what happened to compound operations. Returns the number of steps.
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
        // Another thread is at it: that comes back later.
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
            (Parts::Streamed(stream), event) => self.advance_stream((at, endpoint), stream, event),
            (Parts::Striped(stripe), Event::Part(place, status)) => {
                stripe.end_part(place, status);
                self.post_pieces(at, stripe)
            }
            (Parts::Striped(stripe), _) => {
                stripe.come();
                self.post_pieces(at, stripe)
            }
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

//! The compound operations of a transport, and their events.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plugin_api::{Module, Status};

use crate::engine::compound::stripe::Stripe;
use crate::op::completion::Completion;
use crate::op::record::Record;
use crate::op::request::{Atomic, Caller};
use crate::op::tag::Tag;

/// The parts of an operation.
pub(crate) enum Parts {
    /// A put, then the atomic that notifies the target.
    Notified(Atomic),
    /// Fragments of a transfer over several rails.
    Striped(Box<Stripe>),
}

/// An event of an operation.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// The bytes of the put are visible, so the counter must be raised.
    Visible,
    /// Fragments must be posted.
    Room,
    /// A part ended with this status. The number identifies the part within its operation.
    Part(usize, Status),
}

/// The next step of an operation.
pub(crate) enum Next {
    /// The operation waits for outstanding parts.
    Parts,
    /// The provider had no room: the next progress repeats the step with this event.
    Again(Event),
    /// The operation is over.
    End(Status),
}

/// A compound operation in progress. The parts refer to the operation by its address.
pub(crate) struct Compound {
    /// The operation record, with the caller's completion, in the pool of `context`.
    pub(super) record: NonNull<Record>,
    /// Index of the context that counts the operation.
    pub(super) context: usize,
    pub(super) tag: Tag,
    pub(super) parts: Mutex<Parts>,
    /// The text to report if the operation fails and has no callback.
    pub(super) what: &'static str,
    pub(super) queue: Arc<Queue>,
}

/// The compound operations of one transport.
#[derive(Default)]
pub(crate) struct Compounds(pub(super) Arc<Queue>);

#[derive(Default)]
pub(super) struct Queue {
    pub(super) lists: Mutex<Lists>,
    /// Number of operations that go over several rails.
    pub(super) striped: AtomicU32,
    /// Whether there are events. Changes under the lock.
    pub(super) noted: AtomicBool,
}

/// An event, and the operation that it belongs to.
pub(super) type Noted = (NonNull<Compound>, Event);

#[derive(Default)]
pub(super) struct Lists {
    pub(super) all: HashMap<NonNull<Record>, NonNull<Compound>>,
    /// Events, in order.
    events: VecDeque<Noted>,
    /// Events that the next progress handles again.
    again: VecDeque<Noted>,
}

impl Queue {
    pub(super) fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, event: Noted) {
        let mut lists = self.lock();
        lists.events.push_back(event);
        self.noted.store(true, Ordering::Relaxed);
    }

    /// Keeps an event until the next progress.
    pub(super) fn put_off(&self, event: Noted) {
        let mut lists = self.lock();
        lists.again.push_back(event);
        self.noted.store(true, Ordering::Relaxed);
    }

    /// Moves the events that were put off back to the other events.
    pub(super) fn resume(&self) {
        let Lists { events, again, .. } = &mut *self.lock();
        events.append(again);
    }

    /// Takes the next event. Only one at a time: callbacks run after each event, and may make progress, which handles
    /// the remaining events.
    pub(super) fn next(&self) -> Option<Noted> {
        let mut lists = self.lock();
        let next = lists.events.pop_front();
        let more = !lists.events.is_empty() || !lists.again.is_empty();
        self.noted.store(more, Ordering::Relaxed);
        next
    }
}

impl Compounds {
    /// Whether a record belongs to a compound operation.
    pub(crate) fn has(&self, record: NonNull<Record>) -> bool {
        self.0.lock().all.contains_key(&record)
    }

    /// Number of operations that go over several rails.
    pub(crate) fn striped(&self) -> u32 {
        self.0.striped.load(Ordering::Relaxed)
    }
}

impl Drop for Compounds {
    fn drop(&mut self) {
        for compound in std::mem::take(&mut self.0.lock().all).into_values() {
            // SAFETY: `begin_compound` made the pointer with Box::leak, and the operation was not removed. The transport
            // closes, so no callback follows the pointer later.
            drop(unsafe { Box::from_raw(compound.as_ptr()) });
        }
    }
}

/// Records an event of an operation for progress.
///
/// # Safety
/// `compound` is an operation in progress that cannot end before this event.
pub(crate) unsafe fn note(compound: NonNull<Compound>, event: Event) {
    // SAFETY: the caller guarantees that the operation lives; its queue does not change.
    let queue = Arc::clone(unsafe { &(*compound.as_ptr()).queue });
    queue.add((compound, event));
}

/// The callback of a part: records the part's end with the part's number.
pub(crate) unsafe extern "C" fn part_ended(
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

/// The completion context and data of a part with this number and this local buffer.
pub(crate) fn part((at, number): (NonNull<Compound>, usize), local: *mut c_void) -> Caller {
    let completion = Completion {
        function: part_ended,
        context: at.as_ptr().cast(),
        data: ptr::without_provenance_mut(number),
    };
    Caller::plain(Some(completion), local)
}

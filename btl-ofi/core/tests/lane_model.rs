//! The path of an operation through a context, under the model checker: the lock, the pool of records
//! and the counts of the sources, combined as in `rma::post`, `progress::poll` and `flush`, over a
//! provider that is a list.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "the files are built again here, and not all of them is used"
)]

#[path = "../src/op/completion.rs"]
mod completion;
#[path = "lane_model/lent.rs"]
mod lent;
#[path = "../src/base/lock.rs"]
mod lock;
#[path = "../src/op/marked.rs"]
mod marked;
#[path = "../src/peer/outstanding.rs"]
mod outstanding;
#[path = "../src/op/record.rs"]
mod record;
#[path = "../src/op/tag.rs"]
mod tag;

/// The module paths that the source files expect.
mod base {
    pub(crate) use crate::sync;
}
mod op {
    pub(crate) use crate::{completion, marked, record, tag};
}
mod peer {
    pub(crate) use crate::{endpoint, outstanding};
}

/// A peer; the model needs only its alignment.
mod endpoint {
    #[repr(align(64))]
    pub(crate) struct Endpoint(u8);

    impl Endpoint {
        pub(crate) const fn new() -> Endpoint {
            Endpoint(0)
        }
    }
}

/// The module that the sources expect under this name: loom's atomics.
mod sync {
    use loom::sync::atomic;
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};
    pub(crate) use loom::thread::{yield_now, yield_now as spin_loop};

    pub(crate) fn thread_token() -> usize {
        0
    }

    /// loom's atomic, with a swap that fails like an exchange.
    pub(crate) struct AtomicBool(atomic::AtomicBool);

    impl AtomicBool {
        pub(crate) fn new(value: bool) -> AtomicBool {
            AtomicBool(atomic::AtomicBool::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> bool {
            self.0.load(order)
        }

        pub(crate) fn swap(&self, value: bool, order: Ordering) -> bool {
            // A swap that finds its value already stored must change nothing. As a store, the model
            // would order the swap after the release that it raced with.
            self.0
                .compare_exchange(!value, value, order, Ordering::Relaxed)
                .unwrap_or(value)
        }

        pub(crate) fn store(&self, value: bool, order: Ordering) {
            self.0.store(value, order);
        }
    }

    pub(crate) fn model(test: impl Fn() + Send + Sync + 'static) {
        loom::model(test);
    }
}

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use plugin_api::{Handle, Module};

use completion::{Completion, Finished};
use endpoint::Endpoint;
use lock::Lock;
use outstanding::OutstandingCount;
use record::{Pool, Record};
use tag::Tag;

static PEER: Endpoint = Endpoint::new();

/// The data that the lock guards. The cell reports a race if two threads get in at once.
struct State {
    pool: Pool,
    posted: Vec<*mut c_void>,
    entered: UnsafeCell<u32>,
}

// SAFETY: only the lock gives access to the state, to one thread at a time.
unsafe impl Send for State {}

/// The number of reports of each of two operations, and the values that their callbacks wrote.
struct Effects {
    reports: [AtomicU32; 2],
    wrote: [UnsafeCell<u32>; 2],
}

// SAFETY: loom checks each access to the cells.
unsafe impl Sync for Effects {}

struct Lane {
    state: Lock<State>,
    count: OutstandingCount,
    effects: Effects,
}

impl Lane {
    fn new() -> Lane {
        let state = State {
            pool: Pool::new(true),
            posted: Vec::new(),
            entered: UnsafeCell::new(0),
        };
        Lane {
            state: Lock::new(state, true),
            count: OutstandingCount::new(),
            effects: Effects {
                reports: [AtomicU32::new(0), AtomicU32::new(0)],
                wrote: [UnsafeCell::new(0), UnsafeCell::new(0)],
            },
        }
    }

    fn post(&self, number: usize) {
        self.post_by(number, |state, context| state.posted.push(context));
    }

    /// The same steps as `rma::post`: the operation is counted, recorded and posted while the lock
    /// is held once.
    fn post_by(&self, number: usize, hand: impl FnOnce(&mut State, *mut c_void)) {
        let mut state = self.state.lock();
        // SAFETY: loom checks that the lock gives access to one thread at a time.
        state.entered.with_mut(|e| unsafe { *e += 1 });
        let phase = self.count.raise(self.count.pair(), true);
        let taken = state.pool.take().expect("a record");
        let completion = Completion {
            function: never_called,
            context: ptr::without_provenance_mut(number),
            data: ptr::null_mut(),
        };
        let tag = Tag::new(NonNull::from(&PEER), phase, 0);
        // SAFETY: the record was taken just now.
        unsafe {
            Record::fill(
                taken,
                tag,
                Some(completion),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        hand(&mut state, taken.as_ptr().cast());
    }

    fn poll(&self) {
        self.poll_by(|state| state.posted.pop());
    }

    /// The same steps as `progress::poll` and `deliver`. Under the lock, one completion is read and
    /// its record returned. The callback runs without the lock, and the count falls afterwards.
    fn poll_by(&self, read: impl FnOnce(&mut State) -> Option<*mut c_void>) {
        let Some(mut state) = self.state.try_lock() else {
            return;
        };
        // SAFETY: loom checks that the lock gives access to one thread at a time.
        state.entered.with_mut(|e| unsafe { *e += 1 });
        let Some(context) = read(&mut state) else {
            return;
        };
        let record = state.pool.owns(context).expect("a record that is in use");
        // SAFETY: the record was found in use above.
        let finished: Finished = unsafe { state.pool.give_back(record) };
        drop(state);
        let number = finished.context as usize;
        self.effects.reports[number].fetch_add(1, Ordering::Relaxed);
        // SAFETY: loom checks each access.
        self.effects.wrote[number].with_mut(|w| unsafe { *w = 1 });
        self.count
            .pair()
            .lower(finished.tag.context_phase(), 1, true);
    }

    fn flush(&self) {
        let mark = self.count.total().mark();
        while !self.count.total().settle(mark) {
            self.poll();
            thread::yield_now();
        }
    }

    /// Whether the flushing thread sees the value that the callback of its operation wrote.
    fn is_done(&self, number: usize) {
        assert_eq!(self.effects.reports[number].load(Ordering::Relaxed), 1);
        // SAFETY: loom checks each access.
        assert_eq!(self.effects.wrote[number].with(|w| unsafe { *w }), 1);
    }
}

unsafe extern "C" fn never_called(
    _: *mut Module,
    _: *mut plugin_api::Endpoint,
    _: *mut c_void,
    _: *mut Handle,
    _: *mut c_void,
    _: *mut c_void,
    _: i32,
) {
}

fn check(test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    // The bound is the same as in `tally_model.rs`. A wait adds an unbounded number of branches to
    // a path.
    model.preemption_bound = Some(2);
    model.max_branches = 20_000;
    model.check(test);
}

/// Two threads post and flush on one context; each thread completes the operations that it finds,
/// its own or the other's.
#[test]
fn two_threads_share_a_context() {
    check(|| {
        let lane = Arc::new(Lane::new());
        let other = {
            let lane = Arc::clone(&lane);
            thread::spawn(move || {
                lane.post(1);
                lane.flush();
                lane.is_done(1);
            })
        };
        lane.post(0);
        lane.flush();
        lane.is_done(0);
        other.join().unwrap();
        lane.is_done(1);
        assert_eq!(lane.count.outstanding(), 0);
        let state = lane.state.try_lock().expect("nobody holds it");
        assert!(state.pool.in_use(None).is_empty());
    });
}

/// A thread that only makes progress completes another thread's operation; the poster's flush sees
/// the completion.
#[test]
fn a_progress_thread_completes_for_others() {
    check(|| {
        let lane = Arc::new(Lane::new());
        let helper = {
            let lane = Arc::clone(&lane);
            thread::spawn(move || {
                lane.poll();
                lane.poll();
            })
        };
        lane.post(0);
        lane.post(1);
        lane.flush();
        lane.is_done(0);
        lane.is_done(1);
        helper.join().unwrap();
    });
}

/// A peer is given up while another thread completes its operation: exactly one of the two reports
/// the operation.
#[test]
fn an_operation_is_given_up_or_completed() {
    check(|| {
        let lane = Arc::new(Lane::new());
        lane.post(0);
        let failing = {
            let lane = Arc::clone(&lane);
            thread::spawn(move || {
                let mut state = lane.state.lock();
                let used: Vec<NonNull<Record>> = state.pool.in_use(Some(NonNull::from(&PEER)));
                // SAFETY: the record was found in use, under the lock.
                let silenced = used
                    .into_iter()
                    .filter_map(|r| unsafe { state.pool.silence(r) });
                let silenced: Vec<Finished> = silenced.collect();
                drop(state);
                silenced.len() as u32
            })
        };
        let completed = {
            let mut state = lane.state.lock();
            let context = state.posted.pop().expect("posted");
            let record = state.pool.owns(context).expect("in use");
            // SAFETY: the record was found in use, under the lock.
            unsafe { state.pool.give_back(record) }
        };
        let own = completed
            .function
            .is_some_and(|f| ptr::fn_addr_eq(f, never_called as plugin_api::CompletionFn));
        lane.count
            .pair()
            .lower(completed.tag.context_phase(), 1, true);
        let reported = failing.join().unwrap() + u32::from(own);
        assert_eq!(reported, 1, "reported by both, or by none");
        assert_eq!(lane.count.outstanding(), 0);
    });
}

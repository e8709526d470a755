//! Conditions and the hand-over of progress under the model checker: every interleaving of threads
//! that wait, signal, and make progress. A lost wakeup shows as a deadlock, which the checker
//! reports.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the file is built again here, and not all of it is used"
)]
#[path = "../src/crt/cond.rs"]
mod cond;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the file is built again here, and not all of it is used"
)]
#[path = "../src/crt/wait_queue.rs"]
mod wait_queue;

/// The names that both files use, with loom's versions.
mod sync {
    pub(super) use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence,
    };
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use loom::thread::yield_now;
    pub(super) use std::sync::PoisonError;
    use std::time::Duration;

    loom::lazy_static! {
        /// One queue of sleepers for all words: a wake for one word also wakes sleepers of other
        /// words, in vain.
        static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(super) fn futex_wait(word: &AtomicU32, value: u32, _limit: Option<Duration>) {
        let guard = SLEEPERS.0.lock().unwrap();
        if word.load(Ordering::SeqCst) == value {
            drop(SLEEPERS.1.wait(guard).unwrap());
        }
    }

    pub(super) fn futex_wake(_word: *const u32) {
        let _guard = SLEEPERS.0.lock().unwrap();
        SLEEPERS.1.notify_all();
    }
}

/// The level that a condition's refusals name.
mod level {
    pub(crate) use host_stub::crt::LevelError;
}

/// A task of a runtime that suspends and resumes.
struct Task {
    resumed: loom::sync::Mutex<bool>,
    changed: loom::sync::Condvar,
    /// Written when the task ends; loom reports a race with the thread that resumes it then.
    ended: Effect,
}

impl Task {
    fn suspend(&self) {
        let mut resumed = self.resumed.lock().unwrap();
        while !*resumed {
            resumed = self.changed.wait(resumed).unwrap();
        }
        *resumed = false;
    }
}

/// The resume hook of tasks.
fn resume(task: *mut std::ffi::c_void) {
    // SAFETY: the name of a task of these tests, which keep it until all threads have ended.
    let task = unsafe { &*task.cast::<Task>() };
    // SAFETY: loom checks each access.
    assert_eq!(task.ended.0.with(|ended| unsafe { *ended }), 0);
    *task.resumed.lock().unwrap() = true;
    task.changed.notify_one();
}

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use cond::{Begun, Cond};
use wait_queue::{WaitQueue, Waiter};

fn model(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(test);
}

fn wait(cond: &Cond) {
    if cond.take_signal() {
        return;
    }
    if let Begun::Waiting(signal) = cond.begin(false).unwrap() {
        while !cond.sleep(signal, None) {}
    }
}

/// The signaller's effect; loom reports a race if the signal does not order it with the waiter.
struct Effect(UnsafeCell<u32>);

// SAFETY: loom checks each access.
unsafe impl Sync for Effect {}
// SAFETY: as above.
unsafe impl Send for Effect {}

/// The signal comes before the wait, before the sleep, or during it.
#[test]
fn a_signal_is_never_lost() {
    loom::model(|| {
        let shared = Arc::new((Cond::new(), Effect(UnsafeCell::new(0))));
        let signaller = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // SAFETY: loom checks each access.
                shared.1.0.with_mut(|effect| unsafe { *effect = 1 });
                shared.0.raise().unwrap();
            })
        };
        wait(&shared.0);
        // SAFETY: loom checks each access.
        assert_eq!(shared.1.0.with(|effect| unsafe { *effect }), 1);
        signaller.join().unwrap();
        assert!(shared.0.is_on());
    });
}

/// The signal of a request takes the condition off the request in the same step.
#[test]
fn a_signalled_condition_is_attached_no_more() {
    loom::model(|| {
        let cond = Arc::new(Cond::new());
        cond.attach().unwrap();
        let completer = {
            let cond = Arc::clone(&cond);
            thread::spawn(move || {
                cond.raise_attached().unwrap();
            })
        };
        // The condition is never gone while the request will signal.
        assert!(cond.destroy().is_err() || !cond.is_attached());
        if cond.is_attached() || cond.destroy().is_ok() {
            completer.join().unwrap();
            return;
        }
        completer.join().unwrap();
    });
}

/// A nudge neither is a signal nor swallows one.
#[test]
fn a_nudge_does_not_swallow_a_signal() {
    model(2, || {
        let cond = Arc::new(Cond::new());
        let nudger = {
            let cond = Arc::clone(&cond);
            thread::spawn(move || {
                cond.nudge();
            })
        };
        let signaller = {
            let cond = Arc::clone(&cond);
            thread::spawn(move || {
                cond.raise().unwrap();
            })
        };
        wait(&cond);
        nudger.join().unwrap();
        signaller.join().unwrap();
    });
}

/// A transport that completes one operation at each visit, in order.
struct Steps {
    next: AtomicUsize,
    done: [AtomicBool; 2],
}

impl Steps {
    fn new() -> Steps {
        Steps {
            next: AtomicUsize::new(0),
            done: [AtomicBool::new(false), AtomicBool::new(false)],
        }
    }

    fn progress(&self) {
        if let Some(done) = self.done.get(self.next.fetch_add(1, Ordering::AcqRel)) {
            done.store(true, Ordering::Release);
        }
    }
}

/// Waits for one operation as a thread does, without the spin.
fn wait_for(queue: &WaitQueue, steps: &Steps, which: usize) {
    let watch = || steps.done[which].load(Ordering::Acquire);
    let cond = Cond::new();
    let Begun::Waiting(signal) = cond.begin(false).unwrap() else {
        panic!("signalled by nobody");
    };
    let waiter = Waiter {
        cond: &cond,
        signal,
        watch: Some(&watch),
    };
    let drive = || {
        while !waiter.is_over() {
            steps.progress();
            if queue.is_waiting() {
                queue.signal_done();
            }
            thread::yield_now();
        }
        Ok::<(), ()>(())
    };
    queue.sleep(&waiter, None, drive, || Ok(())).unwrap();
}

/// Two threads wait; the one that makes progress completes the other's operation or passes the token on.
#[test]
fn somebody_drives_as_long_as_anybody_waits() {
    model(2, || {
        let shared = Arc::new((WaitQueue::new(false), Steps::new()));
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || wait_for(&shared.0, &shared.1, 1))
        };
        wait_for(&shared.0, &shared.1, 0);
        other.join().unwrap();
        assert!(!shared.0.is_waiting());
    });
}

/// A failed try does not release the token.
#[test]
fn one_thread_holds_the_token_at_a_time() {
    loom::model(|| {
        let queue = Arc::new(WaitQueue::new(false));
        let inside = Arc::new(Effect(UnsafeCell::new(0)));
        let other = {
            let (queue, inside) = (Arc::clone(&queue), Arc::clone(&inside));
            thread::spawn(move || twice(&queue, &inside))
        };
        twice(&queue, &inside);
        other.join().unwrap();
    });
}

fn twice(queue: &WaitQueue, inside: &Effect) {
    for _ in 0..2 {
        if let Some(_token) = queue.try_take() {
            // SAFETY: loom checks each access: it reports two at a time.
            inside.0.with_mut(|times| unsafe { *times += 1 });
        }
    }
}

/// One thread holds the token for itself while another joins the queue and sleeps.
#[test]
fn a_baton_that_is_let_go_finds_who_waits() {
    model(3, || {
        let shared = Arc::new((WaitQueue::new(false), Steps::new()));
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || wait_for(&shared.0, &shared.1, 0))
        };
        drop(shared.0.try_take());
        other.join().unwrap();
    });
}

/// The progress thread of the model: like the host's, until `stop` is set.
fn keep(queue: &WaitQueue, steps: &Steps, busy: &AtomicBool, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        if let Some(_token) = queue.take_for_progress_thread() {
            while queue.is_waiting() || busy.load(Ordering::Acquire) {
                steps.progress();
                queue.signal_done();
                if steps.done[1].load(Ordering::Acquire) {
                    busy.store(false, Ordering::Release);
                }
                thread::yield_now();
            }
        }
        if let Begun::Waiting(signal) = queue.progress_thread().unwrap().begin(false).unwrap() {
            while !queue.progress_thread().unwrap().sleep(signal, None) {}
        }
    }
}

/// A waiter wakes the progress thread, and `stop` ends it.
#[test]
fn the_progress_thread_comes_when_a_thread_waits() {
    model(2, || {
        let shared = Arc::new((
            WaitQueue::new(true),
            Steps::new(),
            AtomicBool::new(false),
            AtomicBool::new(false),
        ));
        let progress_thread = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || keep(&shared.0, &shared.1, &shared.2, &shared.3))
        };
        wait_for(&shared.0, &shared.1, 0);
        shared.3.store(true, Ordering::Release);
        shared.0.wake_progress_thread();
        progress_thread.join().unwrap();
    });
}

/// An operation is issued, without a wait, while another thread holds the token for a moment: the progress
/// thread, which finds it taken, is called again when it is free.
#[test]
fn the_progress_thread_misses_no_issued_operation() {
    model(2, || {
        let shared = Arc::new((WaitQueue::new(true), AtomicBool::new(false), Cond::new()));
        let progress_thread = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (queue, issued, ended) = (&shared.0, &shared.1, &shared.2);
                loop {
                    if let Some(_token) = queue.take_for_progress_thread()
                        && issued.load(Ordering::SeqCst)
                    {
                        ended.raise().unwrap();
                        return;
                    }
                    wait(queue.progress_thread().unwrap());
                }
            })
        };
        let token = shared.0.try_take();
        shared.1.store(true, Ordering::SeqCst);
        shared.0.wake_progress_thread();
        drop(token);
        wait(&shared.2);
        progress_thread.join().unwrap();
    });
}

/// A task is signalled before it is named, before it is suspended, or then. Only a living task may
/// be resumed: a task whose wait is over may end at once.
#[test]
fn a_task_is_resumed_and_not_after_its_end() {
    model(3, || {
        let shared = Arc::new((
            Cond::new(),
            Task {
                resumed: loom::sync::Mutex::new(false),
                changed: loom::sync::Condvar::new(),
                ended: Effect(UnsafeCell::new(0)),
            },
        ));
        let signaller = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.0.raise().unwrap())
        };
        let (cond, task) = &*shared;
        if let Begun::Waiting(signal) = cond.begin(true).unwrap() {
            cond.name_task(signal, std::ptr::from_ref(task).cast_mut().cast());
            while !cond.has_come(signal) {
                task.suspend();
                cond.take_nudge(signal);
            }
            cond.settle();
        }
        // SAFETY: loom checks each access.
        task.ended.0.with_mut(|ended| unsafe { *ended = 1 });
        signaller.join().unwrap();
        assert!(cond.is_on());
    });
}

/// The next signal, of another signaller, comes while the first one resumes.
#[test]
fn a_signal_that_comes_during_a_resume_is_kept() {
    model(2, || {
        let shared = Arc::new((
            Cond::new(),
            Task {
                resumed: loom::sync::Mutex::new(false),
                changed: loom::sync::Condvar::new(),
                ended: Effect(UnsafeCell::new(0)),
            },
        ));
        let (cond, task) = &*shared;
        let Begun::Waiting(signal) = cond.begin(true).unwrap() else {
            panic!("signalled by nobody");
        };
        cond.name_task(signal, std::ptr::from_ref(task).cast_mut().cast());
        let signallers: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.0.raise().unwrap())
            })
            .collect();
        while !cond.has_come(signal) {
            task.suspend();
        }
        cond.settle();
        wait(cond);
        for signaller in signallers {
            signaller.join().unwrap();
        }
        assert!(cond.is_on() && !cond.take_signal());
    });
}

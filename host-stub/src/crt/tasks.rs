//! Waiting of a task: its runtime's hooks suspend it, or it lets other tasks of its thread run between its
//! polls.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::engine::{Blocking, Engine, Until};
use super::hooks::{Tasks, running_task};
use super::wait_queue::Waiter;
use super::waits::LOOK;
use super::watched::is_watched;
use osc_engine::door::Completion;

impl Engine {
    /// Lets other tasks of this thread run, because the calling task's retry may depend on them. This function is
    /// not inlined: the task may return on another thread, so the loop around this call must not keep the address
    /// of a thread-local variable.
    #[cold]
    #[inline(never)]
    pub(super) fn let_tasks_run(&self) {
        if is_watched() {
            // This task may hold the queue's lock, which other tasks may need.
            return;
        }
        let Some((tasks, task)) = running_task() else {
            return;
        };
        if tasks.can_yield() {
            tasks.yield_now();
        } else if tasks.can_suspend() && self.has_progress_thread() {
            // The progress thread resumes the task at its next visit.
            let checked = AtomicBool::new(false);
            // A wait that is over at the second check.
            let turn = Until(|| checked.swap(true, Ordering::Relaxed));
            let _: Result<(), i32> = self.with_waiter(&turn, None, Some(task), |waiter| {
                self.suspend_in_queue(&turn, waiter, &tasks, task)
            });
        }
    }

    #[inline(never)]
    pub(super) fn wait_as_task<B: Blocking>(
        &self,
        what: &B,
        completion: Option<&Completion>,
    ) -> Result<(), B::Error> {
        if is_watched() {
            return self.drive_alone(what);
        }
        let Some((tasks, task)) = running_task() else {
            return self.wait_as_thread(what, completion);
        };
        if tasks.can_suspend() && self.has_progress_thread() {
            return self.with_waiter(what, completion, Some(task), |waiter| {
                self.suspend_in_queue(what, waiter, &tasks, task)
            });
        }
        if !tasks.can_yield() {
            return self.wait_as_thread(what, completion);
        }
        let mut looked = Instant::now();
        loop {
            if what.is_done() {
                return Ok(());
            }
            if let Some(_token) = self.queue.try_take() {
                let completed = self.drive();
                if completed < 0 {
                    return Err(what.progress_failed(completed));
                }
                if what.is_done() {
                    return Ok(());
                }
            }
            tasks.yield_now();
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                what.look()?;
            }
        }
    }

    /// Suspends the calling task until its condition is signalled. The progress thread makes
    /// progress meanwhile.
    pub(super) fn suspend_in_queue<B: Blocking>(
        &self,
        what: &B,
        waiter: &Waiter<'_>,
        tasks: &Tasks,
        task: *mut c_void,
    ) -> Result<(), B::Error> {
        let _queued = self.queue.join(waiter);
        while !waiter.is_over() {
            tasks.suspend(task);
            if !waiter.cond.take_nudge(waiter.signal) {
                self.look(what)?;
            }
        }
        Ok(())
    }
}

//! The functions of a tasking runtime that let a task wait without blocking its thread.
//!
//! A runtime that can take a task off its thread and put it back (fibers, coroutines) provides `suspend`
//! and `resume`. A runtime that can only run another task for a while (`taskyield` under LLVM's libomp)
//! provides `yield`.

use std::ffi::c_void;
use std::sync::{Arc, PoisonError, RwLock};

/// The functions of a tasking runtime. Each claimed function must be set.
///
/// `resume` may be called from any thread, and before `suspend` was entered for the same wait. `suspend`
/// then returns at once. If the wait ended without a `suspend`, the left-over resume ends a later suspend
/// early. `suspend` may return early; the host then calls `suspend` again. When a wait returns, no
/// `resume` for it is running or will come, so the task may end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hooks {
    /// The abilities of the runtime: [`CAN_SUSPEND`] and [`CAN_YIELD`].
    pub claims: u32,
    /// Returns the calling task, or NULL outside of a task; a wait then blocks the thread.
    pub running: Option<unsafe extern "C" fn() -> *mut c_void>,
    /// Suspends the calling task, `task`, until `resume` is called for it.
    pub suspend: Option<unsafe extern "C" fn(task: *mut c_void)>,
    /// Lets a task continue that is suspended or about to be suspended. The function must neither block
    /// nor run the task itself.
    pub resume: Option<unsafe extern "C" fn(task: *mut c_void)>,
    /// Runs another task on this thread, if there is one.
    pub yield_now: Option<unsafe extern "C" fn()>,
}

/// The runtime has `running`, `suspend` and `resume`.
pub const CAN_SUSPEND: u32 = 1;
/// The runtime has `running` and `yield_now`.
pub const CAN_YIELD: u32 = 2;

/// The reason why a table of hooks is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HooksError {
    /// A claim without its functions, or an unknown claim.
    #[error("hooks: the runtime claims that it can {claim}, but {missing}")]
    Claim {
        /// The claim.
        claim: &'static str,
        /// The missing function.
        missing: &'static str,
    },
    /// No claim.
    #[error("hooks: the runtime claims neither suspend nor yield, so there is nothing to call")]
    Nothing,
    /// Other hooks, while tasks wait with the hooks that are set.
    #[error(
        "hooks: a task waits by those that are set, and is to be resumed by them; set others when none waits"
    )]
    InUse,
    /// A job asks for task mode, but no hooks are set.
    #[error(
        "hooks: no tasking runtime has lent any, so a waiting task cannot leave its thread to another; \
         before init call crt_set_hooks, or with OpenMP crt_omp_yield_in_waits of crt_omp.h"
    )]
    NoneSet,
    /// Hooks that come after the join of a job that asked for task mode and was refused.
    #[error(
        "hooks: the job asked for task mode and was given thread mode, where no wait uses hooks; set \
         them before init"
    )]
    TooLate,
    /// Hooks that can only suspend, in a job without a progress thread.
    #[error(
        "hooks: the runtime only suspends tasks, and nobody makes progress while all are suspended; \
         leave host_progress_thread at -1, set it to 1, or give a yield function"
    )]
    NobodyProgresses,
}

static HOOKS: RwLock<Option<Arc<Hooks>>> = RwLock::new(None);

/// The hooks from the waiting side; every claimed function is set.
#[derive(Clone)]
pub(crate) struct Tasks(Arc<Hooks>);

fn check(hooks: &Hooks) -> Result<(), HooksError> {
    let lacks = |claim, missing| Err(HooksError::Claim { claim, missing });
    if hooks.claims & !(CAN_SUSPEND | CAN_YIELD) != 0 {
        return lacks("do something else", "only suspend and yield are known here");
    }
    if hooks.claims & CAN_SUSPEND != 0 {
        if hooks.suspend.is_none() {
            return lacks("suspend tasks", "gives no suspend function");
        }
        if hooks.resume.is_none() {
            return lacks("suspend tasks", "gives no resume function");
        }
        if hooks.running.is_none() {
            return lacks("suspend tasks", "gives no function for the running task");
        }
    }
    if hooks.claims & CAN_YIELD != 0 {
        if hooks.yield_now.is_none() {
            return lacks("yield", "gives no yield function");
        }
        if hooks.running.is_none() {
            return lacks("yield", "gives no function for the running task");
        }
    }
    if hooks.claims == 0 {
        return Err(HooksError::Nothing);
    }
    Ok(())
}

/// Sets the hooks of this process's tasking runtime; `None` removes the hooks. A job gets task mode
/// only if hooks are set when the process joins the job. Later waits use the hooks that are set when
/// the wait begins. An error keeps the earlier hooks: [`HooksError::InUse`] while a task waits with
/// them; [`HooksError::TooLate`] in a job that was refused task mode for lack of hooks.
///
/// # Safety
/// The functions keep the table's contract, and stay valid while they are set.
pub unsafe fn set_hooks(hooks: Option<&Hooks>) -> Result<(), HooksError> {
    let checked = match hooks {
        None => None,
        Some(hooks) => {
            check(hooks)?;
            if super::runtime::refused_tasks() {
                return Err(HooksError::TooLate);
            }
            if only_suspends(hooks) && super::runtime::nobody_progresses() {
                return Err(HooksError::NobodyProgresses);
            }
            Some(Arc::new(*hooks))
        }
    };
    let mut set = HOOKS.write().unwrap_or_else(PoisonError::into_inner);
    // Each wait holds a reference that it took under the lock, and each resume holds a reference
    // until it ends.
    if set.as_ref().is_some_and(|set| Arc::strong_count(set) > 1) {
        return Err(HooksError::InUse);
    }
    *set = checked;
    Ok(())
}

fn only_suspends(hooks: &Hooks) -> bool {
    hooks.claims & CAN_YIELD == 0
}

/// Checks that tasks can wait without blocking their threads, in a job with or without a progress
/// thread; an error names the obstacle.
pub(super) fn can_keep_tasks(progress_thread: bool) -> Result<(), HooksError> {
    let set = HOOKS.read().unwrap_or_else(PoisonError::into_inner);
    match set.as_ref() {
        None => Err(HooksError::NoneSet),
        Some(hooks) if only_suspends(hooks) && !progress_thread => {
            Err(HooksError::NobodyProgresses)
        }
        Some(_) => Ok(()),
    }
}

/// The hooks and the calling task; `None` outside of a task.
pub(crate) fn running_task() -> Option<(Tasks, *mut c_void)> {
    let hooks = HOOKS
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()?;
    // SAFETY: `set_hooks` requires functions that any thread may call.
    let task = unsafe { (hooks.running?)() };
    (!task.is_null()).then_some((Tasks(hooks), task))
}

/// Lets a suspended task continue.
pub(crate) fn resume(task: *mut c_void) {
    let hooks = HOOKS.read().unwrap_or_else(PoisonError::into_inner).clone();
    match hooks.and_then(|hooks| hooks.resume) {
        // SAFETY: these hooks named the task, and the task waits for this call.
        Some(resume) => unsafe { resume(task) },
        // Hooks do not change while a task waits, and hooks that can suspend can resume.
        None => tracing::error!("a task cannot be resumed: no hooks are set"),
    }
}

impl Tasks {
    pub(crate) fn can_suspend(&self) -> bool {
        self.0.claims & CAN_SUSPEND != 0
    }

    pub(crate) fn can_yield(&self) -> bool {
        self.0.claims & CAN_YIELD != 0
    }

    pub(crate) fn suspend(&self, task: *mut c_void) {
        if let Some(suspend) = self.0.suspend {
            // SAFETY: `running` returned `task`, so it is the calling task.
            unsafe { suspend(task) }
        }
    }

    pub(crate) fn yield_now(&self) {
        if let Some(yield_now) = self.0.yield_now {
            // SAFETY: `set_hooks` requires functions that any thread may call.
            unsafe { yield_now() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn running() -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe extern "C" fn task(_: *mut c_void) {}

    unsafe extern "C" fn yield_now() {}

    #[test]
    fn a_claim_needs_its_functions() {
        let whole = Hooks {
            claims: CAN_SUSPEND | CAN_YIELD,
            running: Some(running),
            suspend: Some(task),
            resume: Some(task),
            yield_now: Some(yield_now),
        };
        assert_eq!(check(&whole), Ok(()));
        for (hooks, wanted) in [
            (
                Hooks {
                    suspend: None,
                    ..whole
                },
                "no suspend function",
            ),
            (
                Hooks {
                    resume: None,
                    ..whole
                },
                "no resume function",
            ),
            (
                Hooks {
                    running: None,
                    ..whole
                },
                "the running task",
            ),
            (
                Hooks {
                    yield_now: None,
                    ..whole
                },
                "no yield function",
            ),
            (Hooks { claims: 0, ..whole }, "neither suspend nor yield"),
            (Hooks { claims: 4, ..whole }, "only suspend and yield"),
        ] {
            let error = check(&hooks).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
            // SAFETY: the hooks are refused, so the host never calls them.
            assert!(unsafe { set_hooks(Some(&hooks)) }.is_err());
        }
        let yields = Hooks {
            claims: CAN_YIELD,
            suspend: None,
            resume: None,
            ..whole
        };
        assert_eq!(check(&yields), Ok(()));
        assert!(running_task().is_none());
    }
}

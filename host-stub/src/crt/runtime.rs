//! A job's part of the common runtime: mode, level, engine and progress thread, put together at init.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use mca_params::{Allowed, Declaration, Kind, Level as ParamLevel, Value};
use plugin_api::ThreadLevel;

use super::cond::{Begun, Cond, Misuse};
use super::engine::Engine;
use super::hooks;
use super::level::{CHECK, Checker, Entered, Level, LevelError};
use super::mode::{self, Mode};
use super::progress_thread::ProgressThread;
use crate::base::params::Params;
use crate::loader::{Recorder, Transport};

/// Whether a progress thread runs.
pub static PROGRESS_THREAD: Declaration = Declaration::new(
    "host_progress_thread",
    Kind::Int,
    Value::Int(-1),
)
.help(
    "A thread that makes progress while others compute or sleep: 1 yes, 0 no, -1 where task mode is \
     asked for",
)
.level(ParamLevel::USER_BASIC)
.allowed(Allowed::Range { min: -1, max: 1 });

/// The processor that the progress thread is bound to.
pub static PROGRESS_THREAD_CORE: Declaration =
    Declaration::new("host_progress_thread_core", Kind::Int, Value::Int(-1))
        .help("The processor that the progress thread runs on; -1 for any")
        .level(ParamLevel::USER_DETAIL)
        .allowed(Allowed::Range {
            min: -1,
            max: i32::MAX as i64,
        });

/// The reason why the runtime could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The progress thread could not be started.
    #[error("host_progress_thread: the progress thread cannot be started: {0}")]
    Progress(std::io::Error),
}

/// The decisions that precede the opening of the transport.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    mode: Mode,
    provided: Level,
    progress_thread: bool,
    core: Option<usize>,
    check: bool,
}

impl Plan {
    /// Fixes the mode, and decides the thread level of a program that asks for `requested`. Task mode
    /// needs the hooks of a tasking runtime; without hooks the mode is thread, and the program gets a
    /// warning. The job keeps its progress thread, because detached requests need it.
    pub(crate) fn make(params: &Params, requested: Level) -> Result<Plan, mca_params::Error> {
        let (asked, chosen) = mode::fix(requested.mode());
        let progress_thread = match params.declare(&PROGRESS_THREAD)?.as_int() {
            Some(0) => false,
            Some(1) => true,
            _ => asked == Mode::Task,
        };
        let core = params.declare(&PROGRESS_THREAD_CORE)?.as_int();
        let kept = match asked {
            Mode::Task => hooks::can_keep_tasks(progress_thread),
            Mode::Master | Mode::Thread => Ok(()),
        };
        let mode = if kept.is_ok() { asked } else { Mode::Thread };
        let provided = Level::provided(requested, mode, chosen);
        mode::uses(mode, asked);
        if let Err(reason) = kept {
            tracing::warn!(
                "thread level {:?} was asked for, and {provided:?} is provided: a wait in a task blocks \
                 its thread ({reason}); detached requests need no hooks",
                Level::needed_by(asked)
            );
        }
        Ok(Plan {
            mode,
            provided,
            progress_thread,
            core: core.and_then(|core| usize::try_from(core).ok()),
            check: params.declare(&CHECK)?.as_bool().unwrap_or(false),
        })
    }

    /// The thread level that the transport is asked for; with a progress thread, at least two threads
    /// use the transport. The level is never below the program's request, so a mode cannot make a
    /// sound program unsound.
    pub(crate) fn transport_level(&self, requested: Level) -> ThreadLevel {
        if self.progress_thread {
            ThreadLevel::Multiple
        } else {
            requested.max(self.provided).of_transport()
        }
    }
}

/// A job's mode, level, engine and progress thread.
pub struct Runtime {
    provided: Level,
    checker: Option<Arc<Checker>>,
    // Dropped before the last reference to the engine: the drop ends the thread.
    _progress_thread: Option<ProgressThread>,
    engine: Arc<Engine>,
}

/// The engine of the job that was joined last. Conditions use this engine, because they belong to
/// no job.
static CURRENT: RwLock<Weak<Engine>> = RwLock::new(Weak::new());

impl Runtime {
    pub(crate) fn start(
        plan: Plan,
        transport: &Transport,
        trace: Option<Arc<Recorder>>,
        oversubscribed: bool,
    ) -> Result<Runtime, RuntimeError> {
        let checker = Checker::new(plan.provided, plan.check, trace).map(Arc::new);
        let engine = Arc::new(Engine::new(
            transport,
            plan.mode,
            oversubscribed,
            plan.progress_thread,
            checker.clone(),
        ));
        let progress_thread = if plan.progress_thread {
            Some(ProgressThread::start(&engine, plan.core).map_err(RuntimeError::Progress)?)
        } else {
            None
        };
        *CURRENT.write().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&engine);
        Ok(Runtime {
            provided: plan.provided,
            checker,
            _progress_thread: progress_thread,
            engine,
        })
    }

    /// The engine, which waits and makes progress.
    #[inline]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The mode: selects whether a blocking call blocks the process, the thread or the task.
    pub fn mode(&self) -> Mode {
        self.engine.mode()
    }

    /// The thread level provided.
    pub fn provided(&self) -> Level {
        self.provided
    }

    /// The checker of calls; `None` if no calls are watched.
    pub(crate) fn checker(&self) -> Option<&Arc<Checker>> {
        self.checker.as_ref()
    }

    /// Begins a call if the thread level allows this thread to call. The level is checked only if
    /// `host_check` is set. With a trace, the end of the call is recorded.
    #[inline(always)]
    pub fn enter(&self, call: &'static str) -> Result<Option<Entered<'_>>, LevelError> {
        match &self.checker {
            None => Ok(None),
            Some(checker) => checker.enter(call).map(Some),
        }
    }
}

/// Whether this process has joined a job in task mode without a progress thread.
pub(super) fn nobody_progresses() -> bool {
    let current = CURRENT.read().unwrap_or_else(PoisonError::into_inner);
    current
        .upgrade()
        .is_some_and(|engine| engine.mode() == Mode::Task && !engine.has_progress_thread())
}

/// Whether this process has joined a job that asked for task mode and got another mode.
pub(super) fn refused_tasks() -> bool {
    let current = CURRENT.read().unwrap_or_else(PoisonError::into_inner);
    current.strong_count() > 0 && mode::was_refused()
}

/// Logs the misuse of a condition in debug builds; the caller gets the error in every build.
#[cold]
pub(super) fn report(who: &str, misuse: Misuse) {
    // A violation of the thread level is not only an error of the condition's user.
    if cfg!(debug_assertions) && !matches!(misuse, Misuse::Level(_)) {
        tracing::error!("{who}: {misuse}");
    }
}

/// Waits until a condition is signalled: turns the condition off, and blocks the thread or task,
/// depending on the mode, until a signal turns it on. Returns at once if the signal came before. An
/// error leaves the condition unchanged, and is logged in debug builds.
#[inline]
pub fn wait(cond: &Cond) -> Result<(), Misuse> {
    if cond.take_signal() {
        return Ok(());
    }
    wait_blocking(cond).inspect_err(|misuse| report("crt_wait", *misuse))
}

#[inline(never)]
fn wait_blocking(cond: &Cond) -> Result<(), Misuse> {
    let engine = CURRENT
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .upgrade();
    if let Some(engine) = engine {
        let _entered = engine.enter("crt_wait")?;
        return engine.wait_cond(cond);
    }
    if let Begun::Waiting(signal) = cond.begin(false)? {
        while !cond.sleep(signal, None) {}
    }
    Ok(())
}

/// Signals a condition: turns the condition on, and wakes its thread or task. Any thread may call.
/// An error leaves the condition unchanged, and is logged in debug builds.
#[inline]
pub fn signal(cond: &Cond) -> Result<(), Misuse> {
    cond.raise()
        .inspect_err(|misuse| report("crt_signal", *misuse))
}

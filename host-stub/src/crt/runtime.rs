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

/// Whether a thread makes progress by itself.
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

/// Where it runs.
pub static PROGRESS_THREAD_CORE: Declaration =
    Declaration::new("host_progress_thread_core", Kind::Int, Value::Int(-1))
        .help("The processor that the progress thread runs on; -1 for any")
        .level(ParamLevel::USER_DETAIL)
        .allowed(Allowed::Range {
            min: -1,
            max: i32::MAX as i64,
        });

/// A thread of the host could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The progress thread.
    #[error("host_progress_thread: the progress thread cannot be started: {0}")]
    Progress(std::io::Error),
}

/// What is decided before the transport is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    mode: Mode,
    provided: Level,
    progress_thread: bool,
    core: Option<usize>,
    check: bool,
}

impl Plan {
    /// Fixes the mode, and decides what a program is given that asks for `requested`. Task mode needs a
    /// tasking runtime by whose hooks a task leaves its thread; without one the mode is thread, and the
    /// program is told. It keeps its progress thread, which detached requests need.
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

    /// What the transport is asked for: with a progress thread two threads at least are at work. Never
    /// less than the program asked for, so that a mode makes nothing unsound.
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
    // Before the engine's last reference goes: ends its thread.
    _progress_thread: Option<ProgressThread>,
    engine: Arc<Engine>,
}

/// The engine of the job that was joined last, for conditions, which belong to no job.
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

    /// What waits and makes progress.
    #[inline]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// What a blocking call blocks.
    pub fn mode(&self) -> Mode {
        self.engine.mode()
    }

    /// The thread level provided.
    pub fn provided(&self) -> Level {
        self.provided
    }

    /// What watches calls, if anything does.
    pub(crate) fn checker(&self) -> Option<&Arc<Checker>> {
        self.checker.as_ref()
    }

    /// Begins a call, if the thread level allows it to this thread; asked only where the host was told
    /// to check (`host_check`). With a trace, the call is recorded when it ends.
    #[inline(always)]
    pub fn enter(&self, call: &'static str) -> Result<Option<Entered<'_>>, LevelError> {
        match &self.checker {
            None => Ok(None),
            Some(checker) => checker.enter(call).map(Some),
        }
    }
}

/// Whether this process has joined a job in task mode that has no progress thread.
pub(super) fn nobody_progresses() -> bool {
    let current = CURRENT.read().unwrap_or_else(PoisonError::into_inner);
    current
        .upgrade()
        .is_some_and(|engine| engine.mode() == Mode::Task && !engine.has_progress_thread())
}

/// Whether this process has joined a job that asked for task mode and was given another.
pub(super) fn refused_tasks() -> bool {
    let current = CURRENT.read().unwrap_or_else(PoisonError::into_inner);
    current.strong_count() > 0 && mode::was_refused()
}

/// Says what went wrong with a condition, in debug builds; the caller is told in any.
#[cold]
pub(super) fn report(who: &str, misuse: Misuse) {
    // The level's refusals are no slips of the condition's user alone.
    if cfg!(debug_assertions) && !matches!(misuse, Misuse::Level(_)) {
        tracing::error!("{who}: {misuse}");
    }
}

/// Waits until a condition is signalled: turns it off, and blocks the thread or task, as the mode
/// says, until a signal turns it on. Returns at once when the signal came before. An error leaves the
/// condition as it was, and is logged in debug builds.
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

/// Signals a condition: turns it on, and lets its thread or task go on. Any thread calls. An error
/// leaves the condition as it was, and is logged in debug builds.
#[inline]
pub fn signal(cond: &Cond) -> Result<(), Misuse> {
    cond.raise()
        .inspect_err(|misuse| report("crt_signal", *misuse))
}

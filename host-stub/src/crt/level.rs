//! Thread levels: the level that a program requests, the level that it gets, and the check that the program respects it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mca_params::{Declaration, Kind, Level as ParamLevel, Value};
use osc_engine::win::WinError;
use plugin_api::ThreadLevel;

use super::mode::Mode;
use super::watched::is_watched;
use crate::base::trace::{NO_RANK, monotonic};
use crate::loader::Recorder;

/// Whether the host checks that threads respect the thread level.
pub static CHECK: Declaration = Declaration::new("host_check", Kind::Bool, Value::Bool(false))
    .help("Refuses calls that break the thread level provided at init")
    .level(ParamLevel::USER_BASIC);

/// The use of the host by threads and tasks. The levels are MPI's four and one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Only one thread exists.
    Single = 0,
    /// Only the thread that joined the job calls.
    Funneled = 1,
    /// Any thread calls; calls do not overlap.
    Serialized = 2,
    /// Any threads call at the same time.
    Multiple = 3,
    /// Any tasks call at the same time, and a blocking call blocks only its task.
    TaskMultiple = 4,
}

impl Level {
    /// The level with a number.
    pub const fn from_code(code: i32) -> Option<Level> {
        Some(match code {
            0 => Level::Single,
            1 => Level::Funneled,
            2 => Level::Serialized,
            3 => Level::Multiple,
            4 => Level::TaskMultiple,
            _ => return None,
        })
    }

    /// The default mode of the level.
    pub const fn mode(self) -> Mode {
        match self {
            Level::Single | Level::Funneled | Level::Serialized => Mode::Master,
            Level::Multiple => Mode::Thread,
            Level::TaskMultiple => Mode::Task,
        }
    }

    /// The lowest level that a mode needs.
    pub const fn needed_by(mode: Mode) -> Level {
        match mode {
            Mode::Master => Level::Funneled,
            Mode::Thread => Level::Multiple,
            Mode::Task => Level::TaskMultiple,
        }
    }

    /// The level that a program gets. `requested` is the level that the program asked for, `mode` the
    /// mode in use, and `chosen` says whether the program chose the mode. The mode decides: master
    /// provides at most funneled, thread provides multiple, and task provides task multiple.
    pub fn provided(requested: Level, mode: Mode, chosen: bool) -> Level {
        match mode {
            _ if !chosen && mode == requested.mode() => requested,
            Mode::Master => requested.min(Level::Funneled),
            mode => Level::needed_by(mode),
        }
    }

    /// The level that the transport is asked for.
    pub const fn of_transport(self) -> ThreadLevel {
        match self {
            Level::Single => ThreadLevel::Single,
            Level::Funneled => ThreadLevel::Funneled,
            Level::Serialized => ThreadLevel::Serialized,
            Level::Multiple | Level::TaskMultiple => ThreadLevel::Multiple,
        }
    }
}

impl From<ThreadLevel> for Level {
    fn from(level: ThreadLevel) -> Level {
        match level {
            ThreadLevel::Single => Level::Single,
            ThreadLevel::Funneled => Level::Funneled,
            ThreadLevel::Serialized => Level::Serialized,
            ThreadLevel::Multiple => Level::Multiple,
        }
    }
}

/// A call that the provided level does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{call}: {what}, and the thread level provided is {provided:?}; ask for a higher one at init, \
     or choose another mode with OMP_EXTERNAL"
)]
pub struct LevelError {
    /// The call.
    pub call: &'static str,
    /// The violation.
    pub what: &'static str,
    /// The provided level.
    pub provided: Level,
}

/// A number that identifies the calling thread: not 0, and different from the numbers of all other living
/// threads.
fn this_thread() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// The trace omits calls that last less than this many nanoseconds, except locks, because other ranks wait for
/// their holders.
const SHORT: u64 = 1_000;

/// Watches calls: checks the thread level if `host_check` is set, and measures durations if a trace is written.
pub struct Checker {
    provided: Level,
    checks: bool,
    trace: Option<Arc<Recorder>>,
    /// The thread that joined the job.
    main: usize,
    /// The thread inside a call, under [`Level::Serialized`].
    inside: AtomicUsize,
}

/// A running call. The drop ends the call. The type is one pointer, because every call has an `Entered` and almost
/// no call has work at its end.
pub struct Entered<'a>(Option<Box<Ending<'a>>>);

/// The work at the end of a call.
struct Ending<'a> {
    /// The word that names the thread inside.
    inside: Option<&'a AtomicUsize>,
    /// The trace, and the time of the call's beginning.
    trace: Option<(&'a Recorder, u64)>,
    call: &'static str,
    /// The process that the call is about.
    peer: u64,
}

impl Entered<'_> {
    /// Whether the end of the call has work to do.
    pub(super) fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// Sets the process that the call is about.
    pub(crate) fn about(&mut self, process: u64) {
        if let Some(ending) = &mut self.0 {
            ending.peer = process;
            ending.begin();
        }
    }
}

impl Ending<'_> {
    /// Records the beginning of the call in the trace, in case the call never ends.
    fn begin(&self) {
        if let Some((trace, began)) = self.trace {
            trace.call_begins(self.call, self.peer, began);
        }
    }
}

impl Drop for Ending<'_> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        if let Some(inside) = self.inside {
            inside.store(0, Ordering::Relaxed);
        }
        if let Some((trace, began)) = self.trace {
            let end = monotonic();
            if end.saturating_sub(began) < SHORT && !self.call.contains("lock") {
                trace.call_forgotten(self.call, self.peer, began);
            } else {
                trace.call_ended(self.call, self.peer, (began, end));
            }
        }
    }
}

impl From<LevelError> for Box<WinError> {
    fn from(error: LevelError) -> Self {
        Box::new(WinError::Level(error.to_string()))
    }
}

impl Checker {
    /// Starts to watch calls; the calling thread is the thread that joined the job. `None` if there is nothing to
    /// watch.
    pub(super) fn new(
        provided: Level,
        checks: bool,
        trace: Option<Arc<Recorder>>,
    ) -> Option<Checker> {
        (checks || trace.is_some()).then(|| Checker::with(provided, checks, trace))
    }

    fn with(provided: Level, checks: bool, trace: Option<Arc<Recorder>>) -> Checker {
        Checker {
            provided,
            checks,
            trace,
            main: this_thread(),
            inside: AtomicUsize::new(0),
        }
    }

    /// Begins a call of this thread, or returns the reason why this thread may not call.
    pub fn enter(&self, call: &'static str) -> Result<Entered<'_>, LevelError> {
        // The host itself calls: it asks a layer or runs a callback while it makes progress.
        if is_watched() {
            return Ok(Entered(None));
        }
        let is_inside = self.checks && self.check(call)?;
        let ending = Ending {
            inside: is_inside.then_some(&self.inside),
            trace: self.trace.as_deref().map(|trace| (trace, monotonic())),
            call,
            peer: NO_RANK,
        };
        ending.begin();
        let ends = ending.inside.is_some() || ending.trace.is_some();
        Ok(Entered(ends.then(|| Box::new(ending))))
    }

    /// Returns whether this thread became the thread inside.
    fn check(&self, call: &'static str) -> Result<bool, LevelError> {
        let refuse = |what| LevelError {
            call,
            what,
            provided: self.provided,
        };
        match self.provided {
            Level::Multiple | Level::TaskMultiple => Ok(false),
            Level::Single | Level::Funneled if this_thread() == self.main => Ok(false),
            Level::Single | Level::Funneled => {
                Err(refuse("called from another thread than joined the job"))
            }
            Level::Serialized => {
                // Relaxed is enough: the exchange only detects two threads inside at the same time,
                // and each thread sees its own number in order.
                match self.inside.compare_exchange(
                    0,
                    this_thread(),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => Ok(true),
                    // A call inside another call of the same thread.
                    Err(inside) if inside == this_thread() => Ok(false),
                    Err(_) => Err(refuse("called while another thread is in a call")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_mode_decides_what_is_provided() {
        let provided = Level::provided;
        assert_eq!(
            provided(Level::Multiple, Mode::Thread, false),
            Level::Multiple
        );
        assert_eq!(provided(Level::Single, Mode::Master, true), Level::Single);
        assert_eq!(
            provided(Level::Multiple, Mode::Master, true),
            Level::Funneled
        );
        assert_eq!(provided(Level::Single, Mode::Thread, true), Level::Multiple);
        assert_eq!(
            provided(Level::Single, Mode::Task, true),
            Level::TaskMultiple
        );
        // Task mode is not available; the program chose it, or its level implies it.
        for (requested, chosen) in [(Level::Single, true), (Level::TaskMultiple, false)] {
            assert_eq!(provided(requested, Mode::Thread, chosen), Level::Multiple);
        }
        for code in 0..5 {
            let level = Level::from_code(code).unwrap();
            assert!(Level::needed_by(level.mode()) <= level.max(Level::Funneled));
        }
        assert_eq!(Level::from_code(5), None);
    }

    fn on_another_thread(checker: &Checker) -> bool {
        std::thread::scope(|scope| scope.spawn(|| checker.enter("put").is_ok()).join().unwrap())
    }

    #[test]
    fn other_threads_are_refused_below_serialized() {
        for level in [Level::Single, Level::Funneled] {
            let checker = Checker::with(level, true, None);
            assert!(checker.enter("put").is_ok());
            assert!(!on_another_thread(&checker));
        }
        for level in [Level::Serialized, Level::Multiple, Level::TaskMultiple] {
            let checker = Checker::with(level, true, None);
            assert!(on_another_thread(&checker));
        }
    }

    #[test]
    fn one_at_a_time_under_serialized() {
        let checker = Checker::with(Level::Serialized, true, None);
        let call = checker.enter("flush").unwrap();
        assert!(!on_another_thread(&checker));
        drop(checker.enter("nested").unwrap());
        assert!(!on_another_thread(&checker));
        drop(call);
        assert!(on_another_thread(&checker));
    }
}

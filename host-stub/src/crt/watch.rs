//! Long waits are reported on request (`host_wait_report`): one line each, with the thread or task that waits.
//!
//! Waits that are watched stand in one list of the process. A thread looks at it, so that a wait is reported also where
//! every thread of the program waits, and every task is suspended.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mca_params::{Declaration, Kind, Level as ParamLevel, Value};

use super::hooks::running_task;
use super::ompt::{self, OmpTask};
use crate::base::params::Params;
use crate::base::process::with_signals_blocked;

/// When a wait is reported.
pub static WAIT_REPORT: Declaration = Declaration::new(
    "host_wait_report",
    Kind::UnsignedInt,
    Value::Unsigned(0),
)
.help(
    "Milliseconds after which a wait is reported in one line, with the thread that waits, and its OpenMP task where \
     the OpenMP runtime has a tool interface (OMPT); 0 for never",
)
.level(ParamLevel::USER_DETAIL);

/// How long a wait may take unreported; `None` if none is to be reported.
pub(super) fn patience(params: &Params) -> Result<Option<Duration>, mca_params::Error> {
    let after = params.declare(&WAIT_REPORT)?.as_unsigned().unwrap_or(0);
    Ok((after > 0).then(|| Duration::from_millis(after)))
}

/// The bounds of the time between two looks, which is a quarter of the patience.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(500);

static NEXT: AtomicU64 = AtomicU64::new(1);
static WAITS: Mutex<Vec<Wait>> = Mutex::new(Vec::new());

fn waits() -> MutexGuard<'static, Vec<Wait>> {
    WAITS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread or task that waits.
#[derive(Clone, Copy)]
struct Waiter {
    /// The number of the thread, as the system has it.
    thread: libc::pid_t,
    omp: Option<OmpTask>,
    /// The task, as the hooks of a tasking runtime name it; 0 without.
    task: usize,
}

impl Waiter {
    fn this() -> Waiter {
        Waiter {
            // SAFETY: gettid has no preconditions.
            thread: unsafe { libc::gettid() },
            omp: ompt::running(),
            task: running_task().map_or(0, |(_, task)| task.addr()),
        }
    }
}

impl fmt::Display for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.omp {
            Some(task) => write!(f, "{task}, thread {} of the system", self.thread),
            None if self.task != 0 => {
                write!(
                    f,
                    "task {:#x}, thread {} of the system",
                    self.task, self.thread
                )
            }
            None => write!(
                f,
                "thread {} of the system ({})",
                self.thread,
                ompt::silence()
            ),
        }
    }
}

struct Wait {
    number: u64,
    /// The call that waits.
    call: &'static str,
    since: Instant,
    waiter: Waiter,
    /// How often the thread of a waiting OpenMP task went to another task.
    switches: u32,
    told: bool,
}

/// A wait that is watched, until this is dropped.
pub(crate) struct Stay(u64);

impl Drop for Stay {
    fn drop(&mut self) {
        waits().retain(|wait| wait.number != self.0);
    }
}

/// Has a wait of the calling thread or task watched.
#[cold]
pub(super) fn begin(call: &'static str) -> Stay {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let wait = Wait {
        number,
        call,
        since: Instant::now(),
        waiter: Waiter::this(),
        switches: 0,
        told: false,
    };
    waits().push(wait);
    Stay(number)
}

/// Notes that a thread went from an OpenMP task, which may be waiting, to another one.
pub(super) fn switched_from(task: u64) {
    let is_it = |wait: &&mut Wait| wait.waiter.omp.is_some_and(|omp| omp.number == task);
    if let Some(wait) = waits().iter_mut().find(is_it) {
        wait.switches += 1;
    }
}

/// Reports the waits that have taken so long, and were not reported.
fn report(patience: Duration) {
    let late = |wait: &&mut Wait| !wait.told && wait.since.elapsed() >= patience;
    let line = |wait: &mut Wait| {
        wait.told = true;
        let switches = match wait.switches {
            0 => String::new(),
            n => format!("; its thread went to another task {n} times meanwhile"),
        };
        let seconds = wait.since.elapsed().as_secs_f64();
        let (call, waiter) = (wait.call, wait.waiter);
        format!("{call} has waited for {seconds:.3} s: {waiter}{switches}")
    };
    let lines: Vec<String> = waits().iter_mut().filter(late).map(line).collect();
    // Without the lock: what logs may wait itself.
    for line in lines {
        tracing::warn!("{line}");
    }
}

/// The thread that reports. Ended when dropped.
pub(super) struct Watcher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(super) fn start(patience: Duration) -> std::io::Result<Watcher> {
        let (stop, stopped) = channel();
        let pause = (patience / 4).clamp(SHORTEST, LONGEST);
        let named = std::thread::Builder::new().name("host-watch".to_owned());
        let run = move || {
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                report(patience);
            }
        };
        let thread = with_signals_blocked(|| named.spawn(run))?;
        Ok(Watcher {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // The thread sees that nobody holds the other end.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

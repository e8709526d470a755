//! The progress thread: the one that always stands ready to hold the baton. It sleeps when nothing
//! is under way that it should see to, and is woken on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::cond::Begun;
use super::engine::Engine;
use super::pace::Pace;

/// Visits between two looks whether anything is under way that nobody waits for.
const ASK: u32 = 64;
/// Time between two nudges of those that wait, so that each looks at the job.
const LOOK: Duration = Duration::from_millis(100);

/// The progress thread of a job. Ended when dropped.
pub(super) struct Keeper {
    engine: Arc<Engine>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts it, on one processor of this process's if one is named.
    pub(super) fn start(engine: &Arc<Engine>, core: Option<usize>) -> std::io::Result<Keeper> {
        let stop = Arc::new(AtomicBool::new(false));
        let (its_engine, its_stop) = (Arc::clone(engine), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("host-progress".to_owned())
            .spawn(move || {
                if let Some(core) = core {
                    run_on(core);
                }
                keep(&its_engine, &its_stop);
            })?;
        Ok(Keeper {
            engine: Arc::clone(engine),
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Release: pairs with the thread's load after it was called.
        self.stop.store(true, Ordering::Release);
        self.engine.line.call_keeper();
        if let Some(thread) = self.thread.take()
            // A waker or an event may let go of the job's last reference from the thread itself.
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

fn run_on(core: usize) {
    // SAFETY: a set of processors is plain bits, for which zero is none.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let fits = core < libc::CPU_SETSIZE as usize;
    if fits {
        // SAFETY: the number is within the set.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    // SAFETY: the set is a whole one; 0 names the calling thread.
    let outcome = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if !fits || outcome != 0 {
        tracing::warn!(
            "host_progress_thread_core {core}: the progress thread cannot run there ({}); it runs anywhere",
            std::io::Error::last_os_error()
        );
    }
}

fn keep(engine: &Engine, stop: &AtomicBool) {
    let Some(cond) = engine.line.keeper() else {
        return;
    };
    let mut pace = Pace::default();
    let mut looked = Instant::now();
    while !stop.load(Ordering::Acquire) {
        if let Some(_baton) = engine.line.take_as_keeper() {
            work(engine, stop, &mut pace, &mut looked);
        }
        // Whoever joins the line, issues, or gives the baton on calls, so a call that comes before
        // this is kept, and none is missed. A nudge is not meant for it.
        if let Ok(Begun::Waiting(signal)) = cond.begin(false) {
            while !cond.sleep(signal, None) {}
        }
    }
}

/// Drives until nothing is under way.
fn work(engine: &Engine, stop: &AtomicBool, pace: &mut Pace, looked: &mut Instant) {
    let mut idle = 0;
    while !stop.load(Ordering::Acquire) {
        let completed = engine.drive();
        let waiting = engine.line.is_waiting();
        idle = if completed > 0 { 0 } else { idle + 1 };
        if idle >= ASK && idle.is_multiple_of(ASK) {
            if !waiting && (completed < 0 || !engine.is_busy()) {
                return;
            }
            if waiting && looked.elapsed() >= LOOK {
                *looked = Instant::now();
                engine.line.wake_all();
            }
        }
        pace.after(completed > 0, engine.crowded());
    }
}

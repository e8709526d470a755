//! The progress thread: the one that always stands ready to hold the baton. It sleeps when nothing
//! is under way that it should see to, and is woken on demand. Also then it visits now and then, since
//! others may ask something of this process.
//!
//! Waking a thread costs more than many an operation takes, so it is done only for those who sleep
//! or want to be told. What was merely issued is *mentioned*: the thread finds it when it comes by,
//! which it does as long as things are being issued. And a thread that spins for its own operation
//! gets the baton from it, since the answer then need not travel from one processor to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::cond::{Begun, Cond};
use super::engine::Engine;
use super::pace::Pace;
use super::waits::watched;

/// Visits between two looks whether anything is under way that nobody waits for.
const ASK: u32 = 64;
/// Visits in vain after which they are a doze apart.
const LONG: u32 = 1 << 11;
/// How long a doze is; the system's timers make that some 50 microseconds.
const DOZE: Duration = Duration::from_micros(1);
/// Time between two looks whether something was issued: what it costs those who use every processor
/// to wake this thread in vain is a hundredth of it or two.
const NAP: Duration = Duration::from_micros(100);
/// Time without anything issued after which it sleeps until it is called.
const AWAKE: Duration = Duration::from_millis(2);
/// Time between two visits of one that sleeps so: what other processes ask of this one, which may be computing
/// or asleep, is answered by progress alone with some providers, and nobody calls for that.
const SERVE: Duration = Duration::from_millis(2);
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
                // What it calls may call the host, and must not wait for this thread.
                watched(|| keep(&its_engine, &its_stop));
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
    let mut looked = Instant::now();
    while !stop.load(Ordering::Acquire) {
        if let Some(_baton) = engine.line.take_as_keeper() {
            work(engine, stop, &mut looked);
        }
        rest(engine, cond);
    }
}

/// Drives until nothing is under way, or one that spins wants to drive by itself.
fn work(engine: &Engine, stop: &AtomicBool, looked: &mut Instant) {
    let mut pace = Pace::default();
    let mut idle = 0u32;
    engine.line.take_wanted();
    while !stop.load(Ordering::Acquire) {
        let completed = engine.drive();
        engine.visited(completed);
        if completed < 0 && idle.is_multiple_of(ASK) {
            engine.tell_trouble();
        }
        if engine.line.take_wanted() {
            // It calls when it goes to sleep, or leaves somebody waiting.
            return;
        }
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
        if idle < LONG {
            pace.after(completed > 0, engine.crowded());
        } else {
            // What takes this long leaves the processor to those who compute meanwhile.
            std::thread::sleep(DOZE);
        }
    }
}

/// Sleeps until called, and as long as anything was issued lately, comes by now and then to see to
/// what nobody sees to.
fn rest(engine: &Engine, cond: &Cond) {
    // Whoever joins the line, or gives the baton on, calls, so a call that comes before this is kept,
    // and none is missed. A nudge is not meant for it.
    let Ok(Begun::Waiting(signal)) = cond.begin(false) else {
        return;
    };
    let mut since = Instant::now();
    while !cond.sleep(signal, Some(NAP)) {
        if engine.line.take_mention() || engine.is_busy() {
            since = Instant::now();
            if engine.line.is_free() {
                // A call that came meanwhile is kept, which costs a look.
                let _ = cond.raise();
                return;
            }
        } else if since.elapsed() >= AWAKE && engine.line.fall_asleep() {
            while !cond.sleep(signal, Some(SERVE)) {
                if let Some(_baton) = engine.line.try_take() {
                    engine.visited(engine.drive());
                }
            }
            engine.line.wake_up();
            return;
        }
    }
}

//! The progress thread (`host_progress_thread`). It takes the progress token whenever the token is free and operations
//! are outstanding. Otherwise it sleeps and is woken on demand. While it sleeps it still makes progress now
//! and then, because peers may need an answer of this process.
//!
//! A wakeup costs more than many operations, so only threads that sleep, or that asked to be told, wake it. An
//! operation that was merely issued is noted: the thread finds the note on its next visit, and it visits
//! often while operations are being issued. A thread that spins for its own operation gets the token, because its
//! completion then need not move from one processor to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::cond::{Begun, Cond};
use super::engine::Engine;
use super::pace::Pace;
use super::waits::watched;
use crate::base::process::with_signals_blocked;

/// Visits between two checks for outstanding operations without a waiter.
const ASK: u32 = 64;
/// Visits without a completion after which the thread dozes between visits.
const LONG: u32 = 1 << 11;
/// Length of a doze. The kernel's timers make it about 50 microseconds.
const DOZE: Duration = Duration::from_micros(1);
/// Time between two checks whether an operation was issued. A wakeup in vain costs one to two percent of it, where all
/// processors are busy.
const NAP: Duration = Duration::from_micros(100);
/// Time without an issued operation after which it sleeps until it is woken.
const AWAKE: Duration = Duration::from_millis(2);
/// Time between two visits in that sleep. With some providers only progress of this process answers its peers, and
/// no peer can wake it.
const SERVE: Duration = Duration::from_millis(2);
/// Time without a request of a peer after which it sleeps again. The answer to one mostly brings the next.
const LINGER: Duration = Duration::from_micros(200);
/// Time between two wakeups of all waiters, so that each checks the job.
const LOOK: Duration = Duration::from_millis(100);

/// The progress thread of a job. Dropping this ends the thread.
pub(super) struct ProgressThread {
    engine: Arc<Engine>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressThread {
    /// Starts the thread, bound to a processor if one is named.
    pub(super) fn start(
        engine: &Arc<Engine>,
        core: Option<usize>,
    ) -> std::io::Result<ProgressThread> {
        let stop = Arc::new(AtomicBool::new(false));
        let (its_engine, its_stop) = (Arc::clone(engine), Arc::clone(&stop));
        let named = std::thread::Builder::new().name("host-progress".to_owned());
        let run = move || {
            if let Some(core) = core {
                run_on(core);
            }
            // Callbacks of this thread may call the host, and must not wait for this thread.
            watched(|| keep(&its_engine, &its_stop));
        };
        let thread = with_signals_blocked(|| named.spawn(run))?;
        Ok(ProgressThread {
            engine: Arc::clone(engine),
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        // Release pairs with the Acquire load in `keep`.
        self.stop.store(true, Ordering::Release);
        self.engine.queue.wake_progress_thread();
        if let Some(thread) = self.thread.take()
            // A waker or an event may drop the job's last reference on the thread itself.
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
    let Some(cond) = engine.queue.progress_thread() else {
        return;
    };
    let mut looked = Instant::now();
    while !stop.load(Ordering::Acquire) {
        if let Some(_token) = engine.queue.take_for_progress_thread() {
            work(engine, stop, &mut looked);
        }
        rest(engine, stop, cond);
    }
}

/// Makes progress until nothing is outstanding, or a spinning waiter asks for the token.
fn work(engine: &Engine, stop: &AtomicBool, looked: &mut Instant) {
    let mut pace = Pace::default();
    let (mut idle, mut visits) = (0u32, 0u32);
    engine.queue.take_wanted();
    while !stop.load(Ordering::Acquire) {
        let completed = engine.drive();
        engine.visited(completed);
        if completed < 0 && idle.is_multiple_of(ASK) {
            engine.tell_trouble();
        }
        if engine.queue.take_wanted() {
            // The waiter wakes this thread when it sleeps, or when it leaves while others wait.
            return;
        }
        let waiting = engine.queue.is_waiting();
        idle = if completed > 0 { 0 } else { idle + 1 };
        let asks = idle >= ASK && idle.is_multiple_of(ASK);
        if asks && !waiting && (completed < 0 || !engine.is_busy()) {
            return;
        }
        visits = visits.wrapping_add(1);
        // Also where every visit serves a peer.
        if waiting && visits.is_multiple_of(ASK) && looked.elapsed() >= LOOK {
            *looked = Instant::now();
            engine.queue.wake_all();
        }
        if idle < LONG {
            pace.after(completed > 0, engine.oversubscribed());
        } else {
            // Leaves the processor to computing threads.
            std::thread::sleep(DOZE);
        }
    }
}

/// Sleeps until it is woken. While operations were issued lately, returns now and then to look at those without a waiter.
fn rest(engine: &Engine, stop: &AtomicBool, cond: &Cond) {
    // Joining the queue and passing the token raise the condition, which keeps a signal that comes before this:
    // none is missed. A nudge is for waiters only.
    let Ok(Begun::Waiting(signal)) = cond.begin(false) else {
        return;
    };
    let mut since = Instant::now();
    while !cond.sleep(signal, Some(NAP)) {
        if engine.queue.take_note() || engine.is_busy() {
            since = Instant::now();
            if engine.queue.is_free() {
                // A signal that came meanwhile is kept, and costs one more visit.
                let _ = cond.raise();
                return;
            }
        } else if since.elapsed() >= AWAKE && engine.queue.fall_asleep() {
            while !cond.sleep(signal, Some(SERVE)) {
                if let Some(_token) = engine.queue.try_take() {
                    serve(engine, stop);
                }
            }
            engine.queue.wake_up();
            return;
        }
    }
}

/// Makes progress once, and while peers of this process ask for something and none of its own threads waits.
fn serve(engine: &Engine, stop: &AtomicBool) {
    let mut pace = Pace::default();
    let mut asked = None::<Instant>;
    loop {
        let completed = engine.drive();
        engine.visited(completed);
        if completed > 0 {
            asked = Some(Instant::now());
        }
        let lingers = asked.is_some_and(|asked| asked.elapsed() < LINGER);
        let needed = engine.queue.is_waiting() || engine.queue.take_wanted();
        if !lingers || needed || stop.load(Ordering::Acquire) {
            return;
        }
        pace.after(completed > 0, engine.oversubscribed());
    }
}

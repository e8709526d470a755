//! The progress thread (`host_progress_thread`). The thread takes the progress token whenever the token is free and
//! operations are outstanding. Otherwise the thread sleeps, and polls from time to time, because operations may have
//! been issued, and peers may need an answer of this process.
//!
//! A wakeup costs more than many operations, so only threads that go to sleep, or that asked to be notified, wake this
//! thread. A thread that spins for its own operation gets the token, because its completion then need not move from one
//! processor to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::cond::{Begun, Cond};
use super::engine::Engine;
use super::watched::watched;
use crate::base::process::with_signals_blocked;
use osc_engine::door::Pace;

/// Visits without a completion between two checks whether operations are outstanding, while no thread waits.
const ASK: u32 = 64;
/// Visits without a completion after which the thread dozes between visits.
const LONG: u32 = 1 << 11;
/// Length of a doze. The kernel's timers extend a doze to about 50 microseconds.
const DOZE: Duration = Duration::from_micros(1);
/// Time between two visits while no operation is outstanding. With some providers, only progress of this process
/// answers its peers, and a peer cannot wake the thread.
const NAP: Duration = Duration::from_millis(2);
/// Time between two visits while operations may be outstanding: after the token went to another thread, or progress
/// failed.
const BRIEF: Duration = Duration::from_micros(100);
/// Time without a completion after which the thread sleeps. The answer to a peer usually leads to the next request.
const LINGER: Duration = Duration::from_micros(200);
/// Time between two wakeups of all waiters, at which each waiter checks the job.
const LOOK: Duration = Duration::from_millis(100);

/// The progress thread of a job. The drop ends the thread.
pub(super) struct ProgressThread {
    engine: Arc<Engine>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressThread {
    /// Starts the thread; binds the thread to a processor if the parameters name one.
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
            // An event may drop the job's last reference on this thread, which cannot join itself.
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

fn run_on(core: usize) {
    // SAFETY: a set of processors is plain bits, and zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let fits = core < libc::CPU_SETSIZE as usize;
    if fits {
        // SAFETY: the number is within the set.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    // SAFETY: the set is initialised; 0 names the calling thread.
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
        // If another thread holds the token, the release of the token wakes this thread.
        let leaves = match engine.queue.take_for_progress_thread() {
            Some(_token) => work(engine, stop, &mut looked),
            None => false,
        };
        rest(cond, if leaves { BRIEF } else { NAP });
    }
}

/// Makes progress until no operation is outstanding, or until a spinning waiter asks for the token. True if operations
/// may be left.
fn work(engine: &Engine, stop: &AtomicBool, looked: &mut Instant) -> bool {
    let mut pace = Pace::default();
    let (mut idle, mut visits) = (0u32, 0u32);
    let mut served = None::<Instant>;
    engine.queue.take_wanted();
    while !stop.load(Ordering::Acquire) {
        let completed = engine.drive();
        engine.visited(completed);
        let asks = completed <= 0 && idle.is_multiple_of(ASK);
        if completed < 0 && asks {
            // A failure of progress ends the waits too.
            engine.queue.wake_all();
        }
        if engine.queue.take_wanted() {
            // The waiter wakes this thread when the waiter sleeps, or when it leaves while others
            // wait.
            return true;
        }
        let waiting = engine.queue.is_waiting();
        if completed > 0 {
            (idle, served) = (0, Some(Instant::now()));
        } else {
            idle += 1;
        }
        let lingers = || served.is_some_and(|served| served.elapsed() < LINGER);
        if asks && !waiting && (completed < 0 || !engine.is_busy() && !lingers()) {
            return completed < 0;
        }
        visits = visits.wrapping_add(1);
        // The check of the job also happens if every visit serves a peer.
        if waiting && visits.is_multiple_of(ASK) && looked.elapsed() >= LOOK {
            *looked = Instant::now();
            engine.queue.wake_all();
        }
        if idle < LONG {
            pace.after(completed > 0, engine.oversubscribed());
        } else {
            // The sleep leaves the processor to computing threads.
            std::thread::sleep(DOZE);
        }
    }
    false
}

/// Sleeps until a thread wakes this one, or until the next visit is due.
fn rest(cond: &Cond, limit: Duration) {
    // Joining the queue and passing the token signal the condition, which keeps an early signal, so no wakeup
    // is lost. Only waiters are nudged.
    if let Ok(Begun::Waiting(signal)) = cond.begin(false)
        && !cond.sleep(signal, Some(limit))
    {
        // The call ends the wait. A signal that came meanwhile is kept, and costs one more visit.
        let _ = cond.raise();
    }
}

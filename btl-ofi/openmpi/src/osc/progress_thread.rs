//! The progress thread (`osc_ofi_rs_progress_thread`): it serves the operations of other processes while this process computes.
//! The thread makes only the transport's progress, which also runs Open MPI's operation functions; these only compute. Calls of
//! the program complete Open MPI's requests, because other threads may not enter Open MPI unless it was initialised for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use osc_engine::base::process::with_signals_blocked;

use crate::guard::guarded;
use crate::osc::transport::{self, Scope};
use crate::osc::{component, log};

/// Visits without a completion after which the thread sleeps between them. Peers usually send another request right after an
/// answer.
const AWAKE: u32 = 256;
/// Time between two visits of a thread that sleeps. The kernel adds about as much.
const NAP: Duration = Duration::from_micros(50);

/// Tells the thread to end. Relaxed accesses suffice: no other data depends on it, and the thread that sets it joins
/// the progress thread.
static STOP: AtomicBool = AtomicBool::new(false);

static THREAD: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

/// Starts the thread if the user wants a progress thread. Open transports stay open until [`stop`].
pub(crate) fn start() {
    if !component::wants_progress_thread() {
        return;
    }
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if thread.is_some() {
        return;
    }
    STOP.store(false, Ordering::Relaxed);
    let named = std::thread::Builder::new().name("osc-progress".to_owned());
    match with_signals_blocked(|| named.spawn(|| guarded("osc progress thread", (), run))) {
        Ok(started) => *thread = Some(started),
        Err(error) => log::line(&format!(
            "osc_ofi_rs_progress_thread: the thread cannot be started: {error}"
        )),
    }
}

/// Ends the thread.
pub(crate) fn stop() {
    let thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(thread) = thread {
        STOP.store(true, Ordering::Relaxed);
        // A panic in the thread was reported when it happened.
        let _ = thread.join();
    }
}

fn run() {
    let mut idle = 0u32;
    while !STOP.load(Ordering::Relaxed) {
        // Callers that wait for the transport report its failure.
        if transport::progress(Scope::All) > 0 {
            idle = 0;
            continue;
        }
        idle = idle.saturating_add(1);
        if idle < AWAKE {
            std::thread::yield_now();
        } else {
            std::thread::sleep(NAP);
        }
    }
}

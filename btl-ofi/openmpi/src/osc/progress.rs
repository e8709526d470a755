//! Progress: the function that Open MPI's progress calls while windows exist, and the waits of window calls.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use osc_engine::door::{Pace, Until, Waiter};
use osc_engine::win::WinResult;

use crate::bindings as ffi;
use crate::guard::guarded;
use crate::osc::transport::{self, Scope};
use crate::osc::{log, request};

/// Visits of a wait between two calls of Open MPI's progress, which does more work than the wait needs.
const OWN_VISITS: u32 = 8;

/// The most counted window calls between two calls of Open MPI's progress.
const CALLS: u32 = 64;

/// Whether Open MPI's progress calls [`advance`].
static REGISTERED: Mutex<bool> = Mutex::new(false);

/// Registers the progress of windows with Open MPI's progress, from the first window on.
pub(crate) fn start() {
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*registered {
        // SAFETY: the function stays valid, because this image is never unloaded.
        let rc = unsafe { ffi::mca_osc_ofi_host_register_progress(Some(advance)) };
        *registered = rc == ffi::OMPI_SUCCESS;
        if rc != ffi::OMPI_SUCCESS {
            log::line(&format!(
                "Open MPI's progress does not make that of windows ({rc}): calls make it themselves"
            ));
        }
    }
}

/// Removes the progress function that [`start`] registered.
pub(crate) fn stop() {
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    if std::mem::take(&mut *registered) {
        // SAFETY: the function is in Open MPI's list, and Open MPI removes it.
        unsafe { ffi::mca_osc_ofi_host_unregister_progress(Some(advance)) };
    }
}

/// Makes progress once. Another thread or a callback of Open MPI may call the function while it runs.
unsafe extern "C" fn advance() -> c_int {
    guarded("osc progress", 0, || {
        // The callers that wait for a transport report its failure.
        let done = transport::progress(Scope::All).max(0);
        done + request::complete_those_that_ended()
    })
}

/// Makes Open MPI's progress, which includes the progress of windows.
#[cold]
pub(crate) fn all() {
    // SAFETY: Open MPI is up: its windows live.
    unsafe { ffi::mca_osc_ofi_host_progress() };
}

/// Makes Open MPI's progress during a wait. In a program with threads, the threads may outnumber the processors, and the thread
/// that ends this wait may need its processor: a wait that keeps it lasts a time slice.
#[cold]
fn all_while_waiting() {
    all();
    // SAFETY: as in `all`.
    if unsafe { ffi::mca_osc_ofi_host_has_threads() } != 0 {
        std::thread::yield_now();
    }
}

/// Counts a window call that lets a program see what other ranks did, and makes Open MPI's progress in every [`CALLS`]th such
/// call. A program may poll in such calls until another rank has acted, and the other rank may first wait for other
/// communication with this one. Calls that only start operations are not counted, because progress would send batches that are
/// still filling.
#[inline]
pub(crate) fn called() {
    static CALLED: AtomicU32 = AtomicU32::new(0);
    // Threads may overwrite each other's count, because nothing needs the exact number.
    let calls = CALLED.load(Ordering::Relaxed).wrapping_add(1);
    CALLED.store(calls, Ordering::Relaxed);
    if calls.is_multiple_of(CALLS) {
        all();
    }
}

/// Waits of the windows of one transport: they make progress of the transports, and now and then Open MPI's progress, because
/// other communication of this process may depend on it, and other processes may need this communication before they answer.
/// Open MPI's progress yields the processor if the user wants this (`mpi_yield_when_idle`, which mpirun sets if ranks outnumber
/// processors).
pub(crate) struct Turns(pub(crate) Scope);

impl Waiter for Turns {
    fn progress(&self) -> i32 {
        transport::progress(self.0)
    }

    fn visit(&self) {
        all();
    }

    fn wait(&self, what: &dyn Until) -> WinResult<()> {
        let mut pace = Pace::default();
        let mut visits = 0u32;
        while !what.is_done() {
            let count = transport::progress(self.0);
            if count < 0 {
                return Err(what.progress_failed(count));
            }
            visits = visits.wrapping_add(1);
            if visits.is_multiple_of(OWN_VISITS) {
                all_while_waiting();
            }
            if pace.spin() {
                what.look()?;
            }
        }
        Ok(())
    }

    fn step(&self, pace: &mut Pace, what: &dyn Until) -> WinResult<()> {
        let count = transport::progress(self.0);
        if count < 0 {
            return Err(what.progress_failed(count));
        }
        all_while_waiting();
        if pace.spin() {
            what.look()?;
        }
        Ok(())
    }
}

//! Requests: the outstanding requests of the engine, each with the program's request. Progress completes these
//! requests.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use osc_engine::win::Request;

use crate::bindings as ffi;
use crate::osc::error;
use crate::osc::progress;

/// An operation under way.
struct Pending {
    request: Request<'static>,
    theirs: *mut ffi::ompi_request_t,
    /// The module's address, which identifies the window.
    module: usize,
}

// SAFETY: a request of Open MPI may be completed by any thread.
unsafe impl Send for Pending {}

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());

/// The number of requests, so that progress without requests takes no lock. A thread that adds a request makes progress later,
/// so Relaxed suffices.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Requests that were taken from the list and are not yet passed to the engine. Release and Acquire: the thread that finds none
/// may free their windows.
static ENDING: AtomicUsize = AtomicUsize::new(0);

fn pending() -> MutexGuard<'static, Vec<Pending>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request that is complete.
pub(crate) fn over() -> *mut ffi::ompi_request_t {
    // SAFETY: the function returns the address of a constant of Open MPI.
    unsafe { ffi::mca_osc_ofi_host_request_over() }
}

/// Makes the program's request for a request of the engine.
///
/// # Safety
/// The request's window keeps its address until [`drain`] was called for the module.
pub(crate) unsafe fn keep(
    module: usize,
    mut request: Request<'_>,
    win: *mut ffi::ompi_win_t,
) -> Result<*mut ffi::ompi_request_t, c_int> {
    if request.is_over() {
        request
            .end_complete()
            .map_err(|error| error::code(&error))?;
        return Ok(over());
    }
    // SAFETY: the window lives.
    let theirs = unsafe { ffi::mca_osc_ofi_host_request(win) };
    if theirs.is_null() {
        request.settle().map_err(|error| error::code(&error))?;
        return Err(ffi::OMPI_ERR_OUT_OF_RESOURCE);
    }
    // SAFETY: the caller keeps the window until `drain` has ended the request.
    let request = unsafe { std::mem::transmute::<Request<'_>, Request<'static>>(request) };
    pending().push(Pending {
        request,
        theirs,
        module,
    });
    COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(theirs)
}

/// Completes the program's requests whose operations have ended; returns their number. Holds no lock while it
/// calls Open MPI.
#[inline]
pub(crate) fn complete_those_that_ended() -> c_int {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    complete()
}

#[inline(never)]
fn complete() -> c_int {
    let mut ended = Vec::new();
    {
        // Another thread, or a caller further up on this thread, is completing requests.
        let Ok(mut pending) = PENDING.try_lock() else {
            return 0;
        };
        let mut at = 0;
        while let Some(one) = pending.get(at) {
            if one.request.is_over() {
                ended.push(pending.swap_remove(at));
            } else {
                at += 1;
            }
        }
        // With the lock held, so that `drain` finds each in the list or here.
        ENDING.fetch_add(ended.len(), Ordering::Relaxed);
    }
    let count = ended.len();
    COUNT.fetch_sub(count, Ordering::Relaxed);
    let ended: Vec<_> = ended
        .into_iter()
        .map(|mut one| (one.request.end_complete(), one.theirs))
        .collect();
    // The windows are not accessed after this. The last access precedes the calls of Open MPI, whose
    // callbacks may free the windows.
    ENDING.fetch_sub(count, Ordering::Release);
    for (outcome, theirs) in ended {
        let code = match outcome {
            Ok(()) => ffi::MPI_SUCCESS as c_int,
            Err(error) => {
                error::code(&error);
                ffi::MPI_ERR_OTHER as c_int
            }
        };
        // SAFETY: the request is under way, and no other code here refers to it.
        unsafe { ffi::mca_osc_ofi_host_complete(theirs, code) };
    }
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// Waits until no request of a module is under way: the program may have freed some before they were complete.
pub(crate) fn drain(module: usize) {
    let is_listed = || pending().iter().any(|one| one.module == module);
    while is_listed() || ENDING.load(Ordering::Acquire) > 0 {
        progress::all();
        complete();
    }
}

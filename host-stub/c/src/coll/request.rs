//! Collectives under way.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use host::coll::{CollRequest, Pending};
use host::comm::{CommError, CommResult};

use crate::base::error::{Error, Result, guarded, last_text};
use crate::base::handles::{Handles, place};
use crate::comm::communicator::{comm, host_comm_t};

/// A collective under way. Ended by host_coll_wait, host_coll_waitall or host_coll_test, which set the
/// handle to NULL. A NULL handle stands for a collective that has ended. The handle is never
/// dereferenced.
pub struct host_coll_request_t {
    _private: [u8; 0],
}

/// Makes progress with a collective that a layer runs: 1 when it is done, 0 when not, or a negative
/// code. The host does not call the function again after the end or an error; then `state` belongs
/// to the layer again. Two threads never call the function at once. Like the host's own requests,
/// such a collective must end with an error once a rank is gone or the communicator has failed.
pub type host_coll_pending_fn = Option<unsafe extern "C" fn(state: *mut c_void) -> c_int>;

// A mutex, because only one thread at a time may use a layer's request.
static REQUESTS: Handles<Mutex<CollRequest>> = Handles::new("collective's request");

/// A handle for a request.
pub(crate) fn give(request: CollRequest) -> *mut host_coll_request_t {
    REQUESTS.add(Mutex::new(request))
}

/// The request of a handle, which ends.
pub(crate) fn take(call: &str, handle: *mut host_coll_request_t) -> Result<CollRequest> {
    let taken = REQUESTS.take(call, handle)?;
    Ok(taken.into_inner().unwrap_or_else(PoisonError::into_inner))
}

struct OfLayer {
    test: unsafe extern "C" fn(*mut c_void) -> c_int,
    state: *mut c_void,
}

// SAFETY: the layer guarantees that any thread may call its function, one at a time.
unsafe impl Send for OfLayer {}

impl Pending for OfLayer {
    fn test(&mut self) -> CommResult<bool> {
        // SAFETY: the caller that made the request guarantees function and state until the end.
        let code = unsafe { (self.test)(self.state) };
        if code < 0 {
            return Err(CommError::Layer {
                call: "a layer's collective",
                code,
                reason: last_text(),
            });
        }
        Ok(code > 0)
    }
}

/// Makes the request of a collective that a layer runs itself. A nonblocking entry returns the
/// request.
///
/// # Safety
/// Any thread may call `test` with `state` until `test` tells that the collective is done.
/// `request` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_coll_request_of_layer(
    comm: *mut host_comm_t,
    test: host_coll_pending_fn,
    state: *mut c_void,
    request: *mut *mut host_coll_request_t,
) -> c_int {
    guarded(|| {
        let call = "host_coll_request_of_layer";
        // SAFETY: passed on.
        let request = unsafe { place(call, request) }?;
        let comm = self::comm(call, comm)?;
        let test = test.ok_or_else(|| Error::argument(call, "the function is NULL"))?;
        *request = give(CollRequest::of_layer(
            &comm,
            Box::new(OfLayer { test, state }),
        ));
        Ok(())
    })
}

/// Waits for the request of a handle; a NULL handle needs no wait.
fn wait(call: &'static str, place: &mut *mut host_coll_request_t) -> Result {
    if place.is_null() {
        return Ok(());
    }
    let job = crate::job::job(call)?;
    // Enter before the handle is taken: if this fails, the program still has the handle and can wait again.
    let _entered = job.runtime().enter(call)?;
    let taken = take(call, *place)?;
    *place = std::ptr::null_mut();
    Ok(taken.wait()?)
}

/// Waits until each of `count` collectives is done, and sets the handles to NULL; the first error is returned after all have
/// ended.
///
/// # Safety
/// `requests` is NULL or `count` writable places.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_coll_waitall(
    count: usize,
    requests: *mut *mut host_coll_request_t,
) -> c_int {
    guarded(|| {
        let call = "host_coll_waitall";
        if requests.is_null() && count > 0 {
            return Err(Error::argument(call, "the requests are NULL"));
        }
        let mut outcome = Ok(());
        for index in 0..count {
            // SAFETY: the caller guarantees `count` requests.
            let waited = wait(call, unsafe { &mut *requests.add(index) });
            outcome = outcome.and(waited);
        }
        outcome
    })
}

/// Makes progress; sets `done` to whether the collective is done, and if it is, the handle to NULL.
///
/// # Safety
/// `request` and `done` are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_coll_test(
    request: *mut *mut host_coll_request_t,
    done: *mut c_int,
) -> c_int {
    guarded(|| {
        let call = "host_coll_test";
        // SAFETY: passed on.
        let (kept, done) = unsafe { (place(call, request)?, place(call, done)?) };
        *done = c_int::from(kept.is_null());
        if kept.is_null() {
            return Ok(());
        }
        let job = crate::job::job(call)?;
        let _entered = job.runtime().enter(call)?;
        let mut taken = take(call, *kept)?;
        match taken.test() {
            Ok(false) => REQUESTS.put_back(*kept, Mutex::new(taken)),
            ended => {
                *done = 1;
                *kept = std::ptr::null_mut();
                ended?;
            }
        }
        Ok(())
    })
}

//! Requests: operations that end one by one.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use host::win::{Request, WinError, unboxed};

use crate::base::error::{Error, Result, guarded};
use crate::base::handles;
use crate::base::slots::Slots;
use crate::crt::condition::{cond, crt_cond_t};
use crate::win::window::{host_win_t, window};

/// An operation under way. Ended by host_wait, host_waitall, host_waitany or host_test, which set the
/// handle to NULL, or by host_request_detach. For each of these functions, NULL is a request that has
/// ended. The handle is never dereferenced: a handle that has ended, or was never a handle, is
/// HOST_ERR_ARG.
pub struct host_request_t {
    _private: [u8; 0],
}

/// The request behind a handle.
struct Kept {
    request: Request<'static>,
    win: &'static host_win_t,
}

static REQUESTS: Slots<Kept> = Slots::new("request");

/// A function that host_request_detach calls when the operation is complete. `status` is 0 or a
/// negative code of the transport.
pub type host_completed_fn = Option<unsafe extern "C" fn(data: *mut c_void, status: c_int)>;

pub(crate) fn give(
    place: *mut *mut host_request_t,
    request: Request<'static>,
    win: &'static host_win_t,
) {
    // Relaxed: the program orders this call before the free of the window.
    win.requests.fetch_add(1, Ordering::Relaxed);
    let made = match REQUESTS.add(Kept { request, win }) {
        Ok(made) => made,
        Err(kept) => {
            // The table is full, with hundreds of millions of requests. The operation is completed here, and NULL says so.
            drop(kept);
            ended(win);
            std::ptr::null_mut()
        }
    };
    // SAFETY: the caller checked that the place is not NULL.
    unsafe { *place = made };
}

/// Makes a complete request, for a call to HOST_PROC_NULL.
///
/// # Safety
/// As for [`window`]; the place is writable.
pub(crate) unsafe fn give_complete(
    call: &str,
    place: *mut *mut host_request_t,
    win: *mut host_win_t,
) -> Result {
    // SAFETY: passed on.
    let win = unsafe { window(call, win) }?;
    give(place, Request::to_no_rank(&win.window), win);
    Ok(())
}

/// Takes a request out of its place; `None` for NULL.
///
/// # Safety
/// The place is NULL or readable and writable.
unsafe fn take(call: &str, place: *mut *mut host_request_t) -> Result<Option<Kept>> {
    // SAFETY: the caller guarantees the place.
    let place = unsafe { place.as_mut() }
        .ok_or_else(|| Error::argument(call, "the place of the request is NULL"))?;
    if place.is_null() {
        return Ok(None);
    }
    let taken = REQUESTS.take(call, *place)?;
    *place = std::ptr::null_mut();
    Ok(Some(taken))
}

/// Puts a request back that was lifted from a place.
fn put_back(request: Request<'static>, (_, handle, win): Lifted) {
    REQUESTS.put_back(handle, Kept { request, win });
}

/// The former place of a request: place, handle, window.
type Lifted = (usize, *mut host_request_t, &'static host_win_t);

/// Subtracts one from the requests of a window.
fn ended(win: &host_win_t) {
    // Release: the request's last use comes before the window is freed.
    win.requests.fetch_sub(1, Ordering::Release);
}

/// Waits for the request at a place, and sets that to NULL. A call that the thread level does not allow
/// leaves it open: its operation continues, and the program must still wait for it.
///
/// # Safety
/// The place is NULL or readable and writable.
unsafe fn wait(call: &str, place: *mut *mut host_request_t) -> Result {
    // SAFETY: the caller guarantees the place.
    let place = unsafe { handles::place(call, place) }?;
    if place.is_null() {
        return Ok(());
    }
    let mut kept = REQUESTS.lift(call, *place)?;
    let win = kept.win;
    let waited = kept.request.settle();
    if matches!(unboxed(&waited), Err(WinError::Level(_))) {
        REQUESTS.put_back(*place, kept);
    } else {
        REQUESTS.end(*place);
        *place = std::ptr::null_mut();
        // A request whose wait failed still uses the window, which may be freed from here on.
        drop(kept);
        ended(win);
    }
    Ok(waited?)
}

/// Waits until each of `count` operations is complete, and sets the handles to NULL; the first error is returned after all
/// have ended. HOST_ERR_LEVEL: the handles are unchanged.
///
/// # Safety
/// `requests` is NULL or `count` places, each with NULL or a request that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_waitall(count: usize, requests: *mut *mut host_request_t) -> c_int {
    guarded(|| {
        if requests.is_null() && count > 0 {
            return Err(Error::argument("host_waitall", "the requests are NULL"));
        }
        let mut outcome = Ok(());
        for index in 0..count {
            // SAFETY: the caller guarantees `count` places.
            outcome = outcome.and(unsafe { wait("host_waitall", requests.add(index)) });
        }
        outcome
    })
}

/// Waits for one of `count` requests, sets its handle to NULL and `index` to its place. If all have
/// ended, sets `index` to `count`.
///
/// # Safety
/// As for host_waitall; `index` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_waitany(
    count: usize,
    requests: *mut *mut host_request_t,
    index: *mut usize,
) -> c_int {
    guarded(|| {
        let call = "host_waitany";
        if (requests.is_null() && count > 0) || index.is_null() {
            return Err(Error::argument(call, "the requests or the index are NULL"));
        }
        let mut places: Vec<Lifted> = Vec::new();
        let mut open = Vec::new();
        let mut wrong = Ok(());
        for place in 0..count {
            // SAFETY: the caller guarantees `count` places.
            let handle = unsafe { *requests.add(place) };
            if handle.is_null() {
                continue;
            }
            match REQUESTS.lift(call, handle) {
                Ok(Kept { request, win }) => {
                    places.push((place, handle, win));
                    open.push(request);
                }
                Err(error) => {
                    wrong = Err(error);
                    break;
                }
            }
        }
        if wrong.is_err() {
            for (request, place) in open.into_iter().zip(&places) {
                put_back(request, *place);
            }
            return wrong;
        }
        let (found, outcome) = match Request::wait_any(&mut open) {
            Some((found, outcome)) => (Some(found), outcome),
            None => (None, Ok(())),
        };
        // A failed wait has ended no request.
        let found = found.filter(|found| open[*found].is_ended());
        for (number, (request, place)) in open.into_iter().zip(&places).enumerate() {
            if found != Some(number) {
                put_back(request, *place);
                continue;
            }
            let (place, handle, win) = place;
            REQUESTS.end(*handle);
            ended(win);
            // SAFETY: the caller guarantees `count` places.
            unsafe { *requests.add(*place) = std::ptr::null_mut() };
        }
        // SAFETY: `index` was checked above.
        unsafe { *index = found.map_or(count, |found| places[found].0) };
        Ok(outcome?)
    })
}

/// Makes progress; sets `done` to whether the operation is complete, and if so, the handle to NULL. If
/// the operation failed, sets both too and returns its error.
///
/// # Safety
/// `request` points to NULL or to a request that no other thread uses; `done` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_test(request: *mut *mut host_request_t, done: *mut c_int) -> c_int {
    guarded(|| {
        let call = "host_test";
        if done.is_null() {
            return Err(Error::argument(call, "the place for the answer is NULL"));
        }
        // SAFETY: the caller guarantees the place; the other was checked above.
        let (request, done) = unsafe { (handles::place(call, request)?, &mut *done) };
        *done = c_int::from(request.is_null());
        if request.is_null() {
            return Ok(());
        }
        let mut kept = REQUESTS.lift(call, *request)?;
        let tested = kept.request.test();
        // A failed operation has ended too; an error of the call itself ends nothing.
        if kept.request.is_ended() {
            REQUESTS.end(*request);
            ended(kept.win);
            *request = std::ptr::null_mut();
            *done = 1;
        } else {
            REQUESTS.put_back(*request, kept);
        }
        tested?;
        Ok(())
    })
}

/// Signals a condition when the operation is complete, or at once if it is complete already. The
/// program must still end the request, for example by host_wait, which then does not block. A request
/// signals one condition.
///
/// # Safety
/// `condition` stays until it was signalled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_request_attach(
    request: *mut host_request_t,
    condition: *mut crt_cond_t,
) -> c_int {
    guarded(|| {
        let call = "host_request_attach";
        // SAFETY: the caller guarantees the condition.
        let condition = unsafe { cond(call, condition) }?;
        let kept = REQUESTS.lift(call, request)?;
        // SAFETY: the caller guarantees the condition.
        let attached = unsafe { host::crt::attach(&kept.request, condition) };
        REQUESTS.put_back(request, kept);
        Ok(attached?)
    })
}

/// The callback at the end of a detached request.
struct Detached {
    call: unsafe extern "C" fn(*mut c_void, c_int),
    data: *mut c_void,
    win: &'static host_win_t,
}

unsafe extern "C" fn detached_ended(data: *mut c_void, status: c_int) {
    // SAFETY: made by `host_request_detach`, and called once.
    let detached = unsafe { Box::from_raw(data.cast::<Detached>()) };
    ended(detached.win);
    // SAFETY: the caller of `host_request_detach` guarantees the function and its data.
    unsafe { (detached.call)(detached.data, status) };
}

/// Lets an operation end without a handle, and sets the handle to NULL. `call` is called once with
/// `data` when the operation is complete, on the thread that makes progress, or on this thread if it
/// is complete already. `call` must not wait. The call needs a progress thread, or a thread that
/// waits, tests or calls host_progress.
///
/// # Safety
/// `request` points to a request that no other thread uses; buffers and window stay until `call` was
/// called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_request_detach(
    request: *mut *mut host_request_t,
    call: host_completed_fn,
    data: *mut c_void,
) -> c_int {
    guarded(|| {
        let name = "host_request_detach";
        let call = call.ok_or_else(|| Error::argument(name, "the function is NULL"))?;
        // SAFETY: the caller guarantees the place.
        let Some(taken) = (unsafe { take(name, request) })? else {
            // SAFETY: the caller guarantees the function.
            unsafe { call(data, 0) };
            return Ok(());
        };
        let win = taken.win;
        let detached = Box::into_raw(Box::new(Detached { call, data, win }));
        // SAFETY: the caller keeps window and buffers; the function takes this data, once.
        match unsafe { taken.request.detach(detached_ended, detached.cast()) } {
            Ok(()) => Ok(()),
            Err((back, error)) => {
                // SAFETY: made above, and not called.
                drop(unsafe { Box::from_raw(detached) });
                ended(win);
                give(request, back, win);
                Err(error.into())
            }
        }
    })
}

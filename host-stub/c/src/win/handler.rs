//! Error handlers of windows.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use host::crt;

use crate::base::error::{Error, Result, guarded, keep};
use crate::win::window::{host_win_t, window};

/// The function that host_win_set_error_handler registers. `code` is the code that the call is
/// about to return; host_error_text() has the details.
pub type host_win_error_fn =
    Option<unsafe extern "C" fn(win: *mut host_win_t, code: c_int, data: *mut c_void)>;

/// A registered function and its data.
#[derive(Clone, Copy)]
pub(crate) struct Handler {
    call: unsafe extern "C" fn(*mut host_win_t, c_int, *mut c_void),
    data: *mut c_void,
}

impl Handler {
    /// That of a window.
    pub(crate) fn of(win: &host_win_t) -> Option<Handler> {
        *win.handler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: the program that registers the function guarantees that any thread may call it with its data.
unsafe impl Send for Handler {}

/// A task, or a thread outside of any.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    Task(usize),
    Thread(ThreadId),
}

impl Caller {
    fn this() -> Caller {
        match crt::running_task() {
            0 => Caller::Thread(std::thread::current().id()),
            task => Caller::Task(task),
        }
    }
}

/// Those that are inside of a handler. No thread-local variable: a handler may wait, and then other tasks have its thread,
/// and it may return on another one.
static HANDLING: Mutex<Vec<Caller>> = Mutex::new(Vec::new());

fn handling() -> MutexGuard<'static, Vec<Caller>> {
    HANDLING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a function of the library on a window, whose handler is told of its error.
#[inline]
pub(crate) fn guarded_on(win: *mut host_win_t, run: impl FnOnce() -> Result) -> c_int {
    guarded(|| run().map_err(|error| told(win, error)))
}

/// Tells a window's handler of an error, if it is a window and has one.
#[cold]
#[inline(never)]
pub(crate) fn told(win: *mut host_win_t, error: Error) -> Error {
    // SAFETY: as for every call on a window, which this is part of: no other thread frees it meanwhile.
    let handler = unsafe { window("error handler", win) }
        .ok()
        .and_then(Handler::of);
    tell(handler, win, error)
}

/// Tells a handler of an error of a window, which may be gone. Not inlined, for the reason that [`keep`] gives.
#[cold]
#[inline(never)]
pub(crate) fn tell(handler: Option<Handler>, win: *mut host_win_t, error: Error) -> Error {
    let Some(handler) = handler else {
        return error;
    };
    let caller = Caller::this();
    if handling().contains(&caller) {
        return error;
    }
    handling().push(caller);
    let code = keep(&error);
    // SAFETY: the program guarantees the function and its data.
    unsafe { (handler.call)(win, code, handler.data) };
    handling().retain(|other| *other != caller);
    error
}

/// Sets the function that is called when a call on a window, or the wait for a request of it, is about to
/// return an error; NULL for none, as for a new window. The function runs inside the failing call, which returns
/// its code afterwards. It may call the host; errors of these calls in the same task, or in the same thread
/// outside of tasks, call no handler. Errors of a window's creation call no handler. If host_win_free fails and
/// the window is gone, `win` only identifies the window.
///
/// # Safety
/// Any thread may call `handler` with `data` until another is set or the window was freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_set_error_handler(
    win: *mut host_win_t,
    handler: host_win_error_fn,
    data: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: passed on.
        let win = unsafe { window("host_win_set_error_handler", win) }?;
        let handler = handler.map(|call| Handler { call, data });
        *win.handler.lock().unwrap_or_else(PoisonError::into_inner) = handler;
        Ok(())
    })
}

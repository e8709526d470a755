//! Windows: their handles, and their end.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use host::win::{FreeError, WinError, Window};

use crate::base::error::{Error, HOST_ERR_STATE, Result, guarded};
use crate::job::job;

/// A window: memory of every rank, open to one-sided access.
pub struct host_win_t {
    pub(crate) window: Window,
    /// The number of open requests, of detached requests that are not complete, and of rings that use the window.
    pub(crate) requests: AtomicUsize,
}

/// A window that a ring of a device uses; it cannot be freed meanwhile.
pub(crate) struct Used(&'static host_win_t);

impl Used {
    pub(crate) fn new(win: &'static host_win_t) -> Used {
        // Relaxed: the program orders this call before the free of the window.
        win.requests.fetch_add(1, Ordering::Relaxed);
        Used(win)
    }
}

impl Deref for Used {
    type Target = Window;

    fn deref(&self) -> &Window {
        &self.0.window
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        // Release: the last use comes before the window is freed.
        self.0.requests.fetch_sub(1, Ordering::Release);
    }
}

/// Addresses of the existing windows.
static LIVE: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
/// The number of freed windows.
static FREED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The window that this thread used last, and the number of freed windows then.
    static LAST: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Whether an address is the address of a window.
#[cold]
fn is_live(win: usize, freed: usize) -> bool {
    let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = live.contains(&win);
    drop(live);
    if found {
        let _ = LAST.try_with(|last| last.set((win, freed)));
    }
    found
}

/// The window of a handle; an error for NULL, an invented handle, or a freed window. A thread looks a
/// handle up once, and again after windows were freed.
///
/// # Safety
/// No other thread frees the window meanwhile.
#[inline]
pub(crate) unsafe fn window<'w>(call: &str, win: *mut host_win_t) -> Result<&'w host_win_t> {
    // Relaxed: the thread that frees a window orders the free with other threads' use of the handle.
    let freed = FREED.load(Ordering::Relaxed);
    let known = LAST.try_with(|last| last.get() == (win.addr(), freed));
    if win.is_null() || !(known.unwrap_or(false) || is_live(win.addr(), freed)) {
        return Err(no_window(call, win));
    }
    // SAFETY: the window is live, made by `give`.
    Ok(unsafe { &*win })
}

#[cold]
fn no_window(call: &str, win: *mut host_win_t) -> Error {
    if win.is_null() {
        return Error::argument(call, "the window is NULL");
    }
    let text = format!("{win:p} is no window; it was freed, or never was one");
    Error::argument(call, &text)
}

pub(crate) fn give(win: *mut *mut host_win_t, window: Window) {
    let made = Box::into_raw(Box::new(host_win_t {
        window,
        requests: AtomicUsize::new(0),
    }));
    LIVE.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(made.addr());
    // SAFETY: the callers checked that the place is not NULL, and their callers guarantee it.
    unsafe { *win = made };
}

/// This rank's memory of a window; NULL for no window.
///
/// # Safety
/// `win` is NULL or a window that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_base(win: *mut host_win_t) -> *mut c_void {
    let mut base = std::ptr::null_mut();
    guarded(|| {
        // SAFETY: passed on.
        base = unsafe { window("host_win_base", win) }?.window.base();
        Ok(())
    });
    base.cast()
}

/// Frees a window and sets the handle to NULL; collective. HOST_ERR_STATE: a request of the window is open, or a ring
/// uses the window. HOST_ERR_WIN: an epoch is open. After these, and after HOST_ERR_LEVEL, the window and its handle
/// are unchanged; after any other error the window is gone.
///
/// # Safety
/// `win` points to NULL or to a window that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_win_free(win: *mut *mut host_win_t) -> c_int {
    guarded(|| {
        let call = "host_win_free";
        // SAFETY: the caller guarantees the place.
        let handle = unsafe { win.as_mut() }
            .ok_or_else(|| Error::argument(call, "the place of the window is NULL"))?;
        // SAFETY: the caller has no other use of the window.
        let freed = unsafe { end(call, *handle) }?;
        // SAFETY: the handle comes from a box of the same layout; its window was moved out, and the
        // other fields need no drop.
        drop(unsafe { Box::from_raw(handle.cast::<ManuallyDrop<host_win_t>>()) });
        *handle = std::ptr::null_mut();
        freed
    })
}

/// Frees the window of a handle, which is then no longer valid, whether the free succeeds or not. An error of this
/// function itself leaves the window unchanged.
///
/// # Safety
/// `made` is NULL or a window without other uses.
unsafe fn end(call: &'static str, made: *mut host_win_t) -> Result<Result> {
    let job = job(call)?;
    let _entered = job.runtime().enter(call)?;
    // SAFETY: passed on.
    let live = unsafe { window(call, made) }?;
    let open = live.requests.load(Ordering::Acquire);
    if open > 0 {
        return Err(Error::new(
            HOST_ERR_STATE,
            format!(
                "{call}: {open} requests of the window, or rings that use it, are open; end them first"
            ),
        ));
    }
    let live = || LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    live().remove(&made.addr());
    FREED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: made by `give`, and live until now; the caller guarantees that it has no other use. The window is
    // written back below, or the caller ends the box without dropping it.
    let freed = unsafe { (&raw const (*made).window).read() }.free();
    match freed {
        Err(FreeError { window, error })
            if matches!(*error, WinError::EpochMisuse { .. } | WinError::Level(_)) =>
        {
            // SAFETY: the place was read above, and is written back.
            unsafe { (&raw mut (*made).window).write(*window) };
            live().insert(made.addr());
            Err(error.into())
        }
        freed => Ok(freed.map_err(Error::from)),
    }
}

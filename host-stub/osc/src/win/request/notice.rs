//! Requests and their waiters.

use std::ffi::c_void;
use std::sync::Arc;

use crate::door::{Attached, Listener, Taken};
use crate::win::error::{WinError, WinResult, unboxed};
use crate::win::request::handle::Request;

/// A function that gets the data given to [`Request::detach`] and 0 or a negative status.
pub type Completed = unsafe extern "C" fn(data: *mut c_void, status: i32);

/// A request without a handle: its completion ends it.
struct Detached {
    listener: Listener,
    request: Request<'static>,
    call: Completed,
    data: *mut c_void,
}

/// Ends a detached request, then calls the user's function.
unsafe extern "C" fn end_detached(detached: *mut c_void) {
    // SAFETY: made by `detach`, and called once: by the completion, or by `detach` itself.
    let mut detached = unsafe { Box::from_raw(detached.cast::<Detached>()) };
    let status = match unboxed(&detached.request.end_complete()) {
        Ok(()) => 0,
        Err(WinError::Transport { status, .. }) => status.0,
        Err(_) => plugin_api::Status::ERROR.0,
    };
    // SAFETY: the caller of `detach` vouches for the function and its data.
    unsafe { (detached.call)(detached.data, status) };
}

impl<'w> Request<'w> {
    /// Has a function called when the operation is complete. The caller must still end the request by [`wait`](Self::wait)
    /// or [`test`](Self::test), which then do not block. `None`: the request is complete, and the listener is not called.
    /// [`WinError::Taken`]: the request already has a listener.
    ///
    /// # Safety
    /// The listener lives until it was called; any thread may call it.
    pub unsafe fn attach(&self, listener: *const Listener) -> WinResult<Option<()>> {
        let _entered = self.link().enter("attach")?;
        let Some(end) = self.completion() else {
            return Ok(None);
        };
        // SAFETY: the caller vouches for the listener.
        match unsafe { end.attach(listener) } {
            Ok(Attached::Later) => {
                self.link().waiter().awaited();
                Ok(Some(()))
            }
            Ok(Attached::Complete) => Ok(None),
            Err(Taken) => Err(Box::new(WinError::Taken)),
        }
    }

    /// Lets the operation end without a handle: `call` is called once with its outcome, on the
    /// thread that makes progress, or on this thread if the operation is complete already. `call`
    /// must not wait. Without a progress thread, nothing completes until a call waits or tests. The
    /// error contains the request.
    ///
    /// # Safety
    /// The window and the buffers live until `call` was called. `call` takes `data`, and any thread
    /// may call it.
    pub unsafe fn detach(
        self,
        call: Completed,
        data: *mut c_void,
    ) -> Result<(), (Request<'w>, Box<WinError>)> {
        if let Err(error) = self.link().enter("detach") {
            return Err((self, error));
        }
        // After the attachment `call` may run, and the caller may then free the window.
        let context = Arc::clone(&self.link().context);
        // SAFETY: only the lifetime changes; the caller keeps the window until the call.
        let request = unsafe { std::mem::transmute::<Request<'w>, Request<'static>>(self) };
        let detached = Box::into_raw(Box::new(Detached {
            listener: Listener {
                call: end_detached,
                data: std::ptr::null_mut(),
            },
            request,
            call,
            data,
        }));
        // SAFETY: made above, and not shared yet.
        let attached = unsafe {
            (*detached).listener.data = detached.cast();
            match (*detached).request.completion() {
                None => Ok(Attached::Complete),
                Some(end) => end
                    .attach(&raw const (*detached).listener)
                    .inspect(|_| context.waiter.awaited()),
            }
        };
        match attached {
            Ok(Attached::Later) => Ok(()),
            Ok(Attached::Complete) => {
                // SAFETY: complete, so the listener is not called.
                unsafe { end_detached(detached.cast()) };
                Ok(())
            }
            Err(Taken) => {
                // SAFETY: made above, and attached nowhere.
                let detached = unsafe { Box::from_raw(detached) };
                Err((detached.request, Box::new(WinError::Taken)))
            }
        }
    }

    /// Waits until one of several requests is complete, ends it, and returns its index and outcome;
    /// `None` if there are no requests, or all have been ended before. Ended requests are skipped. After
    /// an error of the wait itself, such as [`WinError::Level`], the request at the index is
    /// still open ([`is_ended`](Self::is_ended)).
    pub fn wait_any(requests: &mut [Request<'w>]) -> Option<(usize, WinResult<()>)> {
        let done = |requests: &[Request<'w>]| {
            let complete = |request: &Request<'w>| !request.is_ended() && request.is_over();
            requests.iter().position(complete)
        };
        let first = requests.iter().position(|request| !request.is_ended())?;
        let link = requests.get(first)?.link();
        let _entered = match link.enter("wait_any") {
            Ok(entered) => entered,
            Err(error) => return Some((first, Err(error))),
        };
        requests.get(first)?.visit();
        let waited = link.wait_until("wait_any", || done(requests).is_some());
        match done(requests) {
            Some(index) => Some((index, requests.get_mut(index)?.end_complete())),
            None => Some((first, waited)),
        }
    }
}

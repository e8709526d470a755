//! The reports about operations: how many succeeded and how many failed, and the last failure.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use btl_ofi::Completion;
use plugin_api::{Endpoint, Handle, Module, Status};

use super::told::Ended;

/// The reports of operations whose callback is [`completion`](Self::completion). This object
/// outlives the operations.
#[derive(Default)]
pub(crate) struct Seen {
    succeeded: AtomicU32,
    failed: AtomicU32,
    status: AtomicI32,
}

impl Seen {
    /// The callback of an operation.
    pub(crate) fn completion(&self) -> Option<Completion> {
        Ended::completion(self)
    }

    /// The same callback, but each report of a failure takes a millisecond.
    pub(crate) fn slow_completion(&self) -> Option<Completion> {
        Some(Completion {
            function: note_slowly,
            context: ptr::from_ref(self).cast_mut().cast(),
            data: ptr::null_mut(),
        })
    }

    pub(crate) fn succeeded(&self) -> u32 {
        self.succeeded.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> u32 {
        self.failed.load(Ordering::Relaxed)
    }

    /// The number of reported operations.
    pub(crate) fn all(&self) -> u32 {
        self.succeeded() + self.failed()
    }

    /// The numbers of successful and of failed operations.
    pub(crate) fn both(&self) -> (u32, u32) {
        (self.succeeded(), self.failed())
    }

    /// The status of the last failure; success if there was none.
    pub(crate) fn status(&self) -> Status {
        Status(self.status.load(Ordering::Relaxed))
    }

    fn add(&self, status: i32) {
        let count = if status == 0 {
            &self.succeeded
        } else {
            self.status.store(status, Ordering::Relaxed);
            &self.failed
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Ended for Seen {
    fn ended(&self, status: Status) {
        self.add(status.0);
    }
}

unsafe extern "C" fn note_slowly(
    _: *mut Module,
    _: *mut Endpoint,
    _: *mut c_void,
    _: *mut Handle,
    context: *mut c_void,
    _: *mut c_void,
    status: i32,
) {
    if status != 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: `slow_completion` made the context; the tests keep it until the transport is closed.
    unsafe { &*context.cast::<Seen>() }.add(status);
}

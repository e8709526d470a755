//! Copies of device memory that are complete later: by the user's functions, or by CUDA's driver.

use std::ffi::c_void;
use std::ptr;

use libfabric_sys as ffi;
use plugin_api::{CopyFromAsyncFn, CopyToAsyncFn, EventQueryFn, OverrideOps, hmem_iface};

use super::copy::{Copier, run};
use super::copy_error::CopyError;
use super::cuda::{Direction, UnderWay};

/// Smallest size of a copy with an event. A smaller copy takes less time than an event costs.
const LEAST: usize = 8 * 1024;
const AGAIN: isize = -(ffi::FI_EAGAIN as isize);

/// The user's functions.
#[derive(Clone, Copy)]
pub(crate) struct Later {
    from: Option<CopyFromAsyncFn>,
    to: Option<CopyToAsyncFn>,
    query: EventQueryFn,
    stream: *mut c_void,
}

// SAFETY: the stream is a token for the user's functions, which any thread may call; this process never
// dereferences it.
unsafe impl Send for Later {}
// SAFETY: a shared `Later` only copies functions and the token.
unsafe impl Sync for Later {}

/// A copy in progress.
pub(crate) struct Event {
    asked: Asked,
    /// Describes the copy, with the answer at its start.
    copy: CopyError,
}

/// The side that knows whether a copy is complete.
enum Asked {
    User {
        event: *mut c_void,
        query: EventQueryFn,
    },
    Driver(UnderWay),
}

// SAFETY: the user's event is a token for the user's function, which any thread may call.
unsafe impl Send for Asked {}

impl Later {
    /// Makes the functions of a table, if it has the function that queries events.
    pub(crate) fn new(ops: &OverrideOps) -> Option<Later> {
        Some(Later {
            from: ops.copy_from_hmem_async,
            to: ops.copy_to_hmem_async,
            query: ops.query_event?,
            stream: ops.stream,
        })
    }

    /// Starts a copy of `size` bytes of device memory at `at` to `dest`. Returns `None` if a copy with a
    /// wait must be made instead.
    ///
    /// # Safety
    /// Until the copy is complete, `dest` is writable for `size` bytes, and `at` names memory of kind
    /// `iface`.
    pub(crate) unsafe fn read(
        &self,
        iface: u32,
        at: u64,
        dest: *mut u8,
        size: usize,
    ) -> Option<Result<Option<Event>, CopyError>> {
        let from = self.from.filter(|_| size >= LEAST)?;
        let (iov, mut event) = (run(at, size), ptr::null_mut());
        // SAFETY: `iov` and `iface` have one element. The caller guarantees both memories.
        let answer = unsafe {
            from(
                self.stream,
                dest.cast(),
                size,
                &iov,
                &iface,
                1,
                0,
                &mut event,
            )
        };
        self.started("copy_from_hmem_async", (iface, at, size), answer, event)
    }

    /// Starts a copy of `size` bytes at `src` to device memory at `at`. Returns `None` if a copy with a
    /// wait must be made instead.
    ///
    /// # Safety
    /// Until the copy is complete, `src` is readable for `size` bytes, and `at` names memory of kind
    /// `iface`.
    pub(crate) unsafe fn write(
        &self,
        iface: u32,
        at: u64,
        src: *const u8,
        size: usize,
    ) -> Option<Result<Option<Event>, CopyError>> {
        let to = self.to.filter(|_| size >= LEAST)?;
        let (iov, mut event) = (run(at, size), ptr::null_mut());
        // SAFETY: `iov` and `iface` have one element. The caller guarantees both memories.
        let answer = unsafe {
            to(
                self.stream,
                &iov,
                &iface,
                1,
                0,
                src.cast(),
                size,
                &mut event,
            )
        };
        self.started("copy_to_hmem_async", (iface, at, size), answer, event)
    }

    fn started(
        &self,
        function: &'static str,
        (iface, address, size): (u32, u64, usize),
        answer: isize,
        event: *mut c_void,
    ) -> Option<Result<Option<Event>, CopyError>> {
        if answer == AGAIN {
            return None;
        }
        let copy = CopyError {
            function,
            iface,
            address,
            size,
            answer,
        };
        if answer >= 0 && !event.is_null() {
            // The user's function copies some bytes. If the function copies fewer bytes than requested, the copy
            // fails when these bytes are complete.
            let query = self.query;
            let asked = Asked::User { event, query };
            return Some(Ok(Some(Event { asked, copy })));
        }
        Some(copy.judge().map(|()| None))
    }
}

impl Event {
    /// Returns `None` while the copy is in progress. The caller must not call this function again
    /// after another answer.
    pub(crate) fn stand(&self) -> Option<Result<(), CopyError>> {
        let answer = match &self.asked {
            // SAFETY: the user's function returned the event, and has not reported its end.
            Asked::User { event, query } => match unsafe { query(*event) } {
                0 => return None,
                1 => return Some(self.copy.judge()),
                answer => answer as isize,
            },
            Asked::Driver(copy) => match copy.stand()? {
                0 => return Some(Ok(())),
                answer => answer,
            },
        };
        Some(Err(CopyError {
            answer,
            ..self.copy
        }))
    }

    /// Starts a copy by CUDA's driver. Returns `None` if a copy with a wait must be made instead.
    ///
    /// # Safety
    /// The conditions of [`UnderWay::start`].
    unsafe fn by_the_driver(
        direction: Direction,
        address: u64,
        host: *mut u8,
        size: usize,
    ) -> Option<Event> {
        // SAFETY: the caller guarantees the memory.
        let copy = unsafe { UnderWay::start(direction, address, host, size) }?;
        Some(Event {
            asked: Asked::Driver(copy),
            copy: CopyError {
                function: "cuMemcpyAsync",
                iface: hmem_iface::CUDA,
                address,
                size,
                answer: size as isize,
            },
        })
    }
}

impl Copier {
    /// Whether a copy by [`start_read`](Self::start_read) of `size` bytes may complete after the
    /// call.
    pub(crate) fn reads_later(&self, iface: u32, size: usize) -> bool {
        let by_the_user = || self.later.is_some_and(|later| later.from.is_some());
        size >= LEAST && (by_the_user() || self.asks_the_driver(iface, size))
    }

    /// Whether CUDA's driver makes the copy, and may complete it after the call.
    fn asks_the_driver(&self, iface: u32, size: usize) -> bool {
        size >= LEAST && iface == hmem_iface::CUDA && !self.is_overridden() && self.later.is_none()
    }

    /// Starts the copy of [`read`](Self::read). Returns an event if the copy is not complete yet.
    ///
    /// # Safety
    /// The conditions of [`read`](Self::read); both memories stay valid until the copy is complete.
    pub(crate) unsafe fn start_read(
        &self,
        iface: u32,
        at: u64,
        dest: *mut u8,
        size: usize,
    ) -> Result<Option<Event>, CopyError> {
        let started = self.later.and_then(|later| {
            // SAFETY: the caller guarantees both memories until the copy is complete.
            unsafe { later.read(iface, at, dest, size) }
        });
        if let Some(started) = started {
            return started;
        }
        if self.asks_the_driver(iface, size) {
            // SAFETY: the caller guarantees `dest` until the copy is complete.
            let event = unsafe { Event::by_the_driver(Direction::FromDevice, at, dest, size) };
            if event.is_some() {
                return Ok(event);
            }
        }
        // SAFETY: the caller guarantees `dest` and the device memory.
        unsafe { self.read(iface, at, dest, size) }.map(|()| None)
    }

    /// Starts the copy of [`write`](Self::write). Returns an event if the copy is not complete yet.
    ///
    /// # Safety
    /// The conditions of [`write`](Self::write); both memories stay valid until the copy is complete.
    pub(crate) unsafe fn start_write(
        &self,
        iface: u32,
        at: u64,
        src: *const u8,
        size: usize,
    ) -> Result<Option<Event>, CopyError> {
        let started = self.later.and_then(|later| {
            // SAFETY: the caller guarantees both memories until the copy is complete.
            unsafe { later.write(iface, at, src, size) }
        });
        if let Some(started) = started {
            return started;
        }
        if self.asks_the_driver(iface, size) {
            let from = src.cast_mut();
            // SAFETY: the caller guarantees `src` until the copy is complete, and the copy only reads
            // it.
            let event = unsafe { Event::by_the_driver(Direction::ToDevice, at, from, size) };
            if event.is_some() {
                return Ok(event);
            }
        }
        // SAFETY: the caller guarantees `src` and the device memory.
        unsafe { self.write(iface, at, src, size) }.map(|()| None)
    }
}

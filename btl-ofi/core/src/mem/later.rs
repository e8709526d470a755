//! Copies of device memory that are complete later: by the user's functions, or by CUDA's driver.

use std::ffi::c_void;
use std::ptr;

use libfabric_sys as ffi;
use plugin_api::{CopyFromAsyncFn, CopyToAsyncFn, EventQueryFn, OverrideOps, hmem_iface};

use super::copy::{Copier, run};
use super::copy_error::CopyError;
use super::cuda::{Direction, UnderWay};

/// Fewest bytes of such a copy. An event costs more than a smaller copy takes.
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

// SAFETY: the stream is a token for the user's functions, which any thread may call; this process never follows it.
unsafe impl Send for Later {}
// SAFETY: a shared `Later` gives no access but copies of functions and of the token.
unsafe impl Sync for Later {}

/// A copy under way.
pub(crate) struct Event {
    asked: Asked,
    /// Names the copy, with the answer at its start.
    copy: CopyError,
}

/// Who tells whether a copy is over.
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
    /// The functions of a table that can ask for events.
    pub(crate) fn new(ops: &OverrideOps) -> Option<Later> {
        Some(Later {
            from: ops.copy_from_hmem_async,
            to: ops.copy_to_hmem_async,
            query: ops.query_event?,
            stream: ops.stream,
        })
    }

    /// Starts a copy of `size` bytes of device memory at `at` to `dest`. `None`: it is to be made at once.
    ///
    /// # Safety
    /// Until the event is over, `dest` is writable for `size` bytes, and `at` names memory of kind `iface`.
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

    /// Starts a copy of `size` bytes at `src` to device memory at `at`. `None`: it is to be made at once.
    ///
    /// # Safety
    /// Until the event is over, `src` is readable for `size` bytes, and `at` names memory of kind `iface`.
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
            // Some bytes are being copied. If they are fewer than asked for, the copy fails when they are copied.
            let query = self.query;
            let asked = Asked::User { event, query };
            return Some(Ok(Some(Event { asked, copy })));
        }
        Some(copy.judge().map(|()| None))
    }
}

impl Event {
    /// `None` while the copy is under way. Not to be called again after another answer.
    pub(crate) fn stand(&self) -> Option<Result<(), CopyError>> {
        let answer = match &self.asked {
            // SAFETY: the user's function gave the event and did not say that it is over.
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

    /// Starts a copy by CUDA's driver. `None`: it is to be made at once.
    ///
    /// # Safety
    /// As for [`UnderWay::start`].
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
    /// Whether [`start_read`](Self::start_read) of `size` bytes may be complete later.
    pub(crate) fn reads_later(&self, iface: u32, size: usize) -> bool {
        let by_the_user = || self.later.is_some_and(|later| later.from.is_some());
        size >= LEAST && (by_the_user() || self.asks_the_driver(iface, size))
    }

    /// Whether CUDA's driver makes copies that are complete later.
    fn asks_the_driver(&self, iface: u32, size: usize) -> bool {
        size >= LEAST && iface == hmem_iface::CUDA && !self.is_overridden() && self.later.is_none()
    }

    /// As [`read`](Self::read), which may be complete later: then returns its event.
    ///
    /// # Safety
    /// As for [`read`](Self::read); both memories stay until the event is over.
    pub(crate) unsafe fn start_read(
        &self,
        iface: u32,
        at: u64,
        dest: *mut u8,
        size: usize,
    ) -> Result<Option<Event>, CopyError> {
        let started = self.later.and_then(|later| {
            // SAFETY: the caller guarantees both memories until the event is over.
            unsafe { later.read(iface, at, dest, size) }
        });
        if let Some(started) = started {
            return started;
        }
        if self.asks_the_driver(iface, size) {
            // SAFETY: the caller guarantees `dest` until the event is over.
            let event = unsafe { Event::by_the_driver(Direction::FromDevice, at, dest, size) };
            if event.is_some() {
                return Ok(event);
            }
        }
        // SAFETY: the caller guarantees `dest` and the device memory.
        unsafe { self.read(iface, at, dest, size) }.map(|()| None)
    }

    /// As [`write`](Self::write), which may be complete later: then returns its event.
    ///
    /// # Safety
    /// As for [`write`](Self::write); both memories stay until the event is over.
    pub(crate) unsafe fn start_write(
        &self,
        iface: u32,
        at: u64,
        src: *const u8,
        size: usize,
    ) -> Result<Option<Event>, CopyError> {
        let started = self.later.and_then(|later| {
            // SAFETY: the caller guarantees both memories until the event is over.
            unsafe { later.write(iface, at, src, size) }
        });
        if let Some(started) = started {
            return started;
        }
        if self.asks_the_driver(iface, size) {
            let from = src.cast_mut();
            // SAFETY: the caller guarantees `src` until the event is over, and the copy only reads it.
            let event = unsafe { Event::by_the_driver(Direction::ToDevice, at, from, size) };
            if event.is_some() {
                return Ok(event);
            }
        }
        // SAFETY: the caller guarantees `src` and the device memory.
        unsafe { self.write(iface, at, src, size) }.map(|()| None)
    }
}

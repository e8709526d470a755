//! Copies of device memory by the program's functions that are complete later.

use std::ffi::c_void;
use std::ptr;

use plugin_api::{CopyFromAsyncFn, CopyToAsyncFn, EventQueryFn, IoVec, OverrideOps};

use super::registry::Devices;

/// Fewest bytes of such a copy, as in the transport: an event costs more than a smaller copy takes.
const LEAST: usize = 8 << 10;
/// The function that takes no copy now (-FI_EAGAIN).
const AGAIN: isize = -11;

/// The program's functions.
#[derive(Clone, Copy)]
pub(super) struct Later {
    from: Option<CopyFromAsyncFn>,
    to: Option<CopyToAsyncFn>,
    query: EventQueryFn,
    stream: *mut c_void,
}

// SAFETY: the stream is a token for the program's functions, which any thread may call.
unsafe impl Send for Later {}

/// A copy under way.
pub(crate) struct UnderWay {
    event: *mut c_void,
    query: EventQueryFn,
    function: &'static str,
}

// SAFETY: the event is a token for the program's function, which any thread may call.
unsafe impl Send for UnderWay {}

/// A copy that failed: the function, and its answer.
pub(crate) type Failed = (&'static str, i64);

impl Later {
    /// Those of a table that can ask for events.
    pub(super) fn of(ops: &OverrideOps) -> Option<Later> {
        Some(Later {
            from: ops.copy_from_hmem_async,
            to: ops.copy_to_hmem_async,
            query: ops.query_event?,
            stream: ops.stream,
        })
    }

    fn started(
        &self,
        function: &'static str,
        (answer, len): (isize, usize),
        event: *mut c_void,
    ) -> Option<Result<Option<UnderWay>, Failed>> {
        if answer == AGAIN {
            return None;
        }
        if answer != len as isize {
            return Some(Err((function, answer as i64)));
        }
        let query = self.query;
        Some(Ok((!event.is_null()).then_some(UnderWay {
            event,
            query,
            function,
        })))
    }
}

impl UnderWay {
    /// Nothing while the copy is under way. Not to be asked again after another answer.
    pub(crate) fn outcome(&self) -> Option<Result<(), Failed>> {
        // SAFETY: the program's function gave the event and did not say that it is over.
        match unsafe { (self.query)(self.event) } {
            0 => None,
            1 => Some(Ok(())),
            answer => Some(Err((self.function, answer.into()))),
        }
    }
}

fn run(address: u64, len: usize) -> IoVec {
    IoVec {
        base: ptr::with_exposed_provenance_mut(address as usize),
        len,
    }
}

impl Devices {
    /// Starts to copy `len` bytes of device memory to `into`. None: they are there.
    ///
    /// # Safety
    /// `address` is memory of kind `iface`, and `into` is writable; both stay until the copy is over.
    pub(crate) unsafe fn start_read(
        &self,
        iface: u32,
        address: u64,
        into: *mut u8,
        len: usize,
    ) -> Result<Option<UnderWay>, Failed> {
        let run = run(address, len);
        if let Some(later) = self.later().filter(|_| len >= LEAST)
            && let Some(from) = later.from
        {
            let mut event = ptr::null_mut();
            // SAFETY: the run and its kind are one; the caller vouches for both memories.
            let answer = unsafe {
                from(
                    later.stream,
                    into.cast(),
                    len,
                    &run,
                    &iface,
                    1,
                    0,
                    &mut event,
                )
            };
            if let Some(started) = later.started("copy_from_hmem_async", (answer, len), event) {
                return started;
            }
        }
        // SAFETY: the caller vouches for both memories.
        let read = unsafe {
            let into = std::slice::from_raw_parts_mut(into, len);
            self.read(&[run], &[iface], into)
        };
        read.map(|()| None)
            .map_err(|answer| ("copy_from_hmem_iov", answer))
    }

    /// Starts to copy `len` bytes at `from` to device memory. None: they are there.
    ///
    /// # Safety
    /// As for [`start_read`](Self::start_read), with `from` readable.
    pub(crate) unsafe fn start_write(
        &self,
        iface: u32,
        address: u64,
        from: *const u8,
        len: usize,
    ) -> Result<Option<UnderWay>, Failed> {
        let run = run(address, len);
        if let Some(later) = self.later().filter(|_| len >= LEAST)
            && let Some(to) = later.to
        {
            let mut event = ptr::null_mut();
            // SAFETY: as in `start_read`.
            let answer = unsafe {
                to(
                    later.stream,
                    &run,
                    &iface,
                    1,
                    0,
                    from.cast(),
                    len,
                    &mut event,
                )
            };
            if let Some(started) = later.started("copy_to_hmem_async", (answer, len), event) {
                return started;
            }
        }
        // SAFETY: as in `start_read`.
        let written = unsafe {
            let from = std::slice::from_raw_parts(from, len);
            self.write(&[run], &[iface], from)
        };
        written
            .map(|()| None)
            .map_err(|answer| ("copy_to_hmem_iov", answer))
    }
}

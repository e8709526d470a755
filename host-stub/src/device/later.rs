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
    /// What holds once the event is over.
    copied: Result<(), Failed>,
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
        let copied = match answer == len as isize {
            true => Ok(()),
            false => Err((function, answer as i64)),
        };
        if answer >= 0 && !event.is_null() {
            // Some bytes are being copied. If they are fewer than asked for, the copy fails when they are copied.
            let query = self.query;
            return Some(Ok(Some(UnderWay {
                event,
                query,
                function,
                copied,
            })));
        }
        Some(copied.map(|()| None))
    }
}

impl UnderWay {
    /// Nothing while the copy is under way. Not to be asked again after another answer.
    pub(crate) fn outcome(&self) -> Option<Result<(), Failed>> {
        // SAFETY: the program's function gave the event and did not say that it is over.
        match unsafe { (self.query)(self.event) } {
            0 => None,
            1 => Some(self.copied),
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI32, Ordering};

    use super::*;

    /// The event is the number that its question is answered with.
    unsafe extern "C" fn query(event: *mut c_void) -> i32 {
        // SAFETY: the test passes a number that outlives the copy.
        unsafe { &*event.cast::<AtomicI32>() }.load(Ordering::Relaxed)
    }

    /// A copy of fewer bytes than asked for uses the memory until its event is over, and has failed then.
    #[test]
    fn a_short_copy_is_waited_for() {
        let (both, none) = (OverrideOps::new(None, None), ptr::null_mut());
        let later = Later::of(&both.with_async(None, None, Some(query), none)).unwrap();
        let answer = AtomicI32::new(0);
        let event = ptr::from_ref(&answer).cast_mut().cast();
        let started = later.started("copy", (100, 256), event).unwrap();
        let copy = started.unwrap().expect("it is under way");
        assert!(copy.outcome().is_none());
        answer.store(1, Ordering::Relaxed);
        assert_eq!(copy.outcome(), Some(Err(("copy", 100))));
        // Without an event nothing is under way.
        let failed = |answer| later.started("copy", (answer, 256), ptr::null_mut());
        assert!(matches!(failed(100), Some(Err(("copy", 100)))));
        // No copy began, whatever was written to the event.
        let began = later.started("copy", (-5, 256), event);
        assert!(matches!(began, Some(Err(("copy", -5)))));
    }
}

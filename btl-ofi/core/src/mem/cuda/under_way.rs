//! Copies that are polled.

use cudarc::driver::sys::{self, CUevent, CUresult, CUstream};

use super::Direction;
use super::driver::{Current, FAILED, Place, devices, done, place_of, remove};

/// A copy in progress, with the event that follows it.
pub(crate) struct UnderWay {
    place: Place,
    stream: CUstream,
    event: CUevent,
}

// SAFETY: all fields are tokens of the driver, which any thread may use.
unsafe impl Send for UnderWay {}

impl UnderWay {
    /// Starts a copy of `n` bytes between `device`, an address of device memory, and `host`. Returns `None` if
    /// this is not possible. A copy with a wait then either works or reports the error.
    ///
    /// # Safety
    /// Until [`stand`](Self::stand) returns an answer, `host` has `n` bytes that nothing else uses. These bytes are
    /// readable or, for a copy out of a device, writable.
    pub(crate) unsafe fn start(
        direction: Direction,
        device: u64,
        host: *mut u8,
        n: usize,
    ) -> Option<UnderWay> {
        if devices() == 0 {
            return None;
        }
        let place = place_of(device)?;
        let _current = Current::make(place.context)?;
        let mut event = std::ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the context is current; `event` receives the new event.
        if !done("cuEventCreate", unsafe {
            sys::cuEventCreate(&mut event, flags)
        }) {
            return None;
        }
        let host = host as u64;
        let (to, from, stream) = match direction {
            Direction::FromDevice => (host, device, place.out_of),
            Direction::ToDevice => (device, host, place.into),
        };
        let under_way = UnderWay {
            place,
            stream,
            event,
        };
        // SAFETY: the stream's context is current. The caller guarantees `host`; the driver checks the device's
        // address. The event is of the same context.
        let started = unsafe {
            done("cuMemcpyAsync", sys::cuMemcpyAsync(to, from, n, stream))
                && done("cuEventRecord", sys::cuEventRecord(event, stream))
        };
        if !started {
            // No copy may use the memory while another copy replaces this one.
            settle(place, stream);
            return None;
        }
        Some(under_way)
    }

    /// Returns `None` while the copy is in progress; then 0, or a negative errno.
    pub(crate) fn stand(&self) -> Option<isize> {
        // SAFETY: the event is ours. The call needs no current context.
        match unsafe { sys::cuEventQuery(self.event) } {
            CUresult::CUDA_SUCCESS => Some(0),
            // The second code means that a thread of the program captures a graph. The copy continues.
            CUresult::CUDA_ERROR_NOT_READY | CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED => {
                None
            }
            failed => {
                done("cuEventQuery", failed);
                if let Some(_current) = Current::make(self.place.context) {
                    settle(self.place, self.stream);
                }
                remove(self.place);
                Some(FAILED)
            }
        }
    }
}

/// Waits until no copy of a stream uses its memory. The stream's context is current. If this fails, the context can no
/// longer be used.
fn settle(place: Place, stream: CUstream) {
    // SAFETY: the stream is ours, and its context is current.
    if !done("cuStreamSynchronize", unsafe {
        sys::cuStreamSynchronize(stream)
    }) {
        remove(place);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // SAFETY: `start` made the event, and only this drop ends it. The driver keeps all resources of a copy in
        // progress.
        done("cuEventDestroy", unsafe {
            sys::cuEventDestroy_v2(self.event)
        });
    }
}

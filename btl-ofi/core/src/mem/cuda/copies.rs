//! Copies that are waited for.

use std::ffi::c_void;

use cudarc::driver::sys;

use super::driver::{Current, FAILED, NOT_THERE, Place, devices, done, place_of, remove};

/// Copies in progress. [`finish`](Self::finish) waits for all copies.
#[derive(Default)]
pub(crate) struct Copies {
    under_way: Option<(Place, Current)>,
}

impl Copies {
    /// Starts a copy of `n` bytes from `from` to `to`. `device` is the address of the two that is device memory.
    /// Returns 0 or a negative errno.
    ///
    /// # Safety
    /// Until [`finish`](Self::finish), `from` is readable and `to` writable for `n` bytes, on the host or on a
    /// device.
    pub(crate) unsafe fn add(
        &mut self,
        device: *mut c_void,
        to: *mut c_void,
        from: *mut c_void,
        n: usize,
    ) -> isize {
        if devices() == 0 {
            return crate::mem::copy::UNKNOWN_KIND;
        }
        let Some(place) = place_of(device as u64) else {
            return NOT_THERE;
        };
        if self.under_way.as_ref().is_none_or(|(p, _)| *p != place) {
            let rc = self.finish();
            if rc < 0 {
                return rc;
            }
            let Some(current) = Current::make(place.context) else {
                return FAILED;
            };
            self.under_way = Some((place, current));
        }
        // SAFETY: the stream's context is current. The caller guarantees both ranges until `finish`.
        let result = unsafe { sys::cuMemcpyAsync(to as u64, from as u64, n, place.stream) };
        if done("cuMemcpyAsync", result) {
            0
        } else {
            FAILED
        }
    }

    /// Waits for all copies that `add` started. Returns 0 or a negative errno.
    pub(crate) fn finish(&mut self) -> isize {
        let Some((place, _current)) = self.under_way.take() else {
            return 0;
        };
        // SAFETY: the stream is ours and its context is current. The wait is also needed for pageable host
        // memory, which the driver may copy through its own buffers.
        let result = unsafe { sys::cuStreamSynchronize(place.stream) };
        if done("cuStreamSynchronize", result) {
            return 0;
        }
        remove(place);
        FAILED
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // This wait is needed after an error, too, because no copy may use the memory after the
        // caller continues.
        self.finish();
    }
}

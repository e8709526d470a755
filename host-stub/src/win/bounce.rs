//! Local buffers that the transport wants registered: the caller's, for one call, and the window's
//! own for bytes on their way.

use plugin_api::{Access, Handle};

use super::error::{WinError, WinResult};
use super::window::Window;
use crate::loader::Registration;
use crate::registrations::Lease;

impl Window {
    /// A registration of a caller's buffer, where the transport wants one for that many bytes; to be
    /// held by the target's `Leases` once its operations are issued.
    ///
    /// # Safety
    /// The buffer stays until the operations that use it have ended.
    pub(super) unsafe fn lease(
        &self,
        call: &'static str,
        base: *mut u8,
        extent: usize,
        threshold: usize,
    ) -> WinResult<Option<Lease>> {
        if extent <= threshold {
            return Ok(None);
        }
        // SAFETY: the caller vouches for the buffer.
        let lease = unsafe { self.link.job.registrations().acquire(base, extent) };
        lease.map(Some).map_err(|error| WinError::Transport {
            call,
            rank: self.link.rank,
            status: error.status,
        })
    }

    /// As [`lease`](Self::lease), of a buffer that operations only read. It may be memory that cannot be written, which
    /// some transports do not register like other memory.
    ///
    /// # Safety
    /// As for [`lease`](Self::lease).
    pub(super) unsafe fn lease_to_read(
        &self,
        call: &'static str,
        base: *mut u8,
        extent: usize,
        threshold: usize,
    ) -> WinResult<Option<Lease>> {
        // SAFETY: passed on.
        let lease = unsafe { self.lease(call, base, extent, threshold) };
        lease.or_else(|error| {
            // SAFETY: passed on.
            let lease = unsafe { self.link.job.registrations().acquire_to_read(base, extent) };
            lease.map(Some).map_err(|_| error)
        })
    }

    /// A local registration of a buffer of the window's own, where the transport wants one for that
    /// many bytes.
    ///
    /// # Safety
    /// The buffer stays while the registration lives.
    unsafe fn local_key(
        &self,
        call: &'static str,
        base: *mut u8,
        extent: usize,
        threshold: usize,
    ) -> WinResult<Option<Registration>> {
        if extent <= threshold {
            return Ok(None);
        }
        // SAFETY: the caller vouches for the buffer; only this process's own operations use it.
        let registered = unsafe {
            self.link
                .transport
                .register(base, extent, Access::LOCAL_WRITE)
        };
        registered.map(Some).map_err(|error| WinError::Transport {
            call,
            rank: self.link.rank,
            status: error.status,
        })
    }
}

/// A buffer of the window for bytes on their way, registered where the transport wants that.
/// Leaked when a call gives up while an operation uses it.
pub(super) struct Bounce {
    words: Vec<u64>,
    key: Option<Registration>,
    in_use: bool,
}

impl Bounce {
    /// At least `len` bytes, aligned for every element type.
    pub(super) fn new(window: &Window, call: &'static str, len: usize) -> WinResult<Bounce> {
        let mut words = vec![0u64; len.div_ceil(8).max(1)];
        let attributes = window.link.transport.attributes();
        let threshold = attributes
            .put_local_registration_threshold
            .min(attributes.get_local_registration_threshold);
        let base = words.as_mut_ptr().cast::<u8>();
        let bytes = words.len() * 8;
        // SAFETY: the vector never grows, and Drop ends the registration before it.
        let key = unsafe { window.local_key(call, base, bytes, threshold) }?;
        Ok(Bounce {
            words,
            key,
            in_use: false,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.words.len() * 8
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    pub(super) fn handle(&self) -> *mut Handle {
        self.key
            .as_ref()
            .map_or(std::ptr::null_mut(), Registration::handle_ptr)
    }

    /// The bytes, while no operation uses them.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the words are initialised and borrowed mutably, and eight bytes each.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.len()) }
    }

    /// Says that operations use the buffer, or no longer do.
    pub(super) fn set_in_use(&mut self, in_use: bool) {
        self.in_use = in_use;
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        if self.in_use {
            std::mem::forget(self.key.take());
            std::mem::forget(std::mem::take(&mut self.words));
        } else {
            drop(self.key.take());
        }
    }
}

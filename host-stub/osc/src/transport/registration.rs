//! Registered memory.

use std::ptr::NonNull;

use plugin_api::{Handle, Status};

use super::error::Subject;
use super::{Transport, TransportError};

/// Memory that the transport may use, until this is dropped.
pub struct Registration {
    transport: Transport,
    handle: NonNull<Handle>,
    base: usize,
    len: usize,
}

// SAFETY: the handle is plain bytes of the module, and any thread may call the module.
unsafe impl Send for Registration {}
// SAFETY: as for Send; nothing here is changed through a shared reference.
unsafe impl Sync for Registration {}

impl Registration {
    pub(super) fn new(
        transport: Transport,
        handle: NonNull<Handle>,
        base: usize,
        len: usize,
    ) -> Self {
        Registration {
            transport,
            handle,
            base,
            len,
        }
    }

    /// The handle, as the local handle of this process's own operations.
    #[inline]
    pub fn handle_ptr(&self) -> *mut Handle {
        self.handle.as_ptr()
    }

    /// The handle's bytes, to be copied to peers. A peer keeps its copy at an 8-byte aligned
    /// address and passes the copy as the remote handle.
    pub fn handle_bytes(&self) -> &[u8] {
        let size = self.transport.attributes().handle_size;
        // SAFETY: the contract makes a handle `handle_size` readable bytes while it is registered,
        // and only dropping `self` ends the registration.
        unsafe { std::slice::from_raw_parts(self.handle.as_ptr().cast::<u8>(), size) }
    }

    /// Address of the first byte.
    #[inline]
    pub fn base(&self) -> usize {
        self.base
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no byte is registered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Ends the registration and returns the result; dropping a registration only logs a failure.
    pub fn deregister(self) -> Result<(), TransportError> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never used or dropped again, so the transport is moved out once.
        let transport = unsafe { std::ptr::read(&this.transport) };
        // SAFETY: the handle is live, and nothing uses it afterwards.
        result(
            unsafe { transport.deregister(this.handle) },
            this.base,
            this.len,
        )
    }
}

fn result(status: Status, base: usize, len: usize) -> Result<(), TransportError> {
    status.ok().map(drop).map_err(|status| TransportError {
        operation: "deregister_mem",
        subject: Subject::Memory(base, len),
        status,
    })
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and nothing uses it after this drop.
        let status = unsafe { self.transport.deregister(self.handle) };
        if let Err(error) = result(status, self.base, self.len) {
            tracing::warn!("{error}");
        }
    }
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Registration({} bytes at {:#x})", self.len, self.base)
    }
}

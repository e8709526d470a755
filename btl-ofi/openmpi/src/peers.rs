//! The endpoints that Open MPI holds, by process, and what the modex holds for a process.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::slice;

use btl_ofi::Endpoint;
use plugin_api::Status;

use crate::bindings as ffi;

/// A process by its name within the universe. Not by its address: Open MPI frees the structure of a process that
/// left and may put another in its place.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Name(pub(crate) u32, pub(crate) u32);

impl Name {
    /// # Safety
    /// `proc` is a process of Open MPI.
    pub(crate) unsafe fn of(proc: *const ffi::opal_proc_t) -> Name {
        // SAFETY: the caller's promise.
        unsafe { Name((*proc).proc_name.jobid, (*proc).proc_name.vpid) }
    }

    /// One number for the transport: the rank, for a process of the job that this process belongs to.
    pub(crate) fn number(self) -> u64 {
        // SAFETY: takes nothing; Open MPI set the own process before it loaded components.
        let own = unsafe { ffi::opal_proc_local_get() };
        let job = if own.is_null() {
            0
        } else {
            // SAFETY: not NULL, so this process.
            unsafe { Name::of(own) }.0
        };
        u64::from(self.0.wrapping_sub(job)) << 32 | u64::from(self.1)
    }
}

/// The endpoints that Open MPI holds.
#[derive(Default)]
pub(crate) struct Peers(pub(crate) HashMap<Name, Peer>);

pub(crate) struct Peer {
    pub(crate) endpoint: NonNull<Endpoint>,
    pub(crate) proc: *mut ffi::opal_proc_t,
}

impl Peers {
    /// The process behind an endpoint, or NULL.
    pub(crate) fn proc_of(&self, endpoint: *const Endpoint) -> *mut ffi::opal_proc_t {
        let peer = self
            .0
            .values()
            .find(|peer| peer.endpoint.as_ptr().cast_const() == endpoint);
        peer.map_or(null_mut(), |peer| peer.proc)
    }
}

// SAFETY: the pointers are handed back to Open MPI and never followed here.
unsafe impl Send for Peers {}

/// What Open MPI's modex holds for a process; freed when dropped.
pub(crate) struct Published {
    data: *mut c_void,
    size: usize,
}

impl Published {
    /// # Safety
    /// `proc` is a process of Open MPI.
    pub(crate) unsafe fn by(
        component: *const ffi::mca_base_component_t,
        proc: *const ffi::opal_proc_t,
    ) -> Result<Published, Status> {
        let mut published = Published {
            data: null_mut(),
            size: 0,
        };
        // SAFETY: the caller's promise; both out pointers are valid for the call.
        let rc = unsafe {
            ffi::mca_btl_ofi_host_modex_recv(
                component,
                proc,
                &raw mut published.data,
                &raw mut published.size,
            )
        };
        match Status(rc).ok() {
            Ok(_) if !published.data.is_null() => Ok(published),
            Ok(_) => Err(Status::NOT_FOUND),
            Err(status) => Err(status),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the modex wrote a buffer of this many bytes, and `by` refused NULL.
        unsafe { slice::from_raw_parts(self.data.cast(), self.size) }
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // SAFETY: the modex allocates with malloc and leaves the buffer to its caller; NULL is fine.
        unsafe { libc::free(self.data) };
    }
}

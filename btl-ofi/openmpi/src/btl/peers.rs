//! The endpoints that Open MPI holds, by process, and the address that a process published.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::slice;

use btl_ofi::Endpoint;
use plugin_api::Status;

use crate::bindings as ffi;

/// A process's name: job and rank. The address of Open MPI's structure would not identify the process: Open MPI
/// frees the structure when the process leaves and may reuse the memory for another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Name(pub(crate) u32, pub(crate) u32);

impl Name {
    /// # Safety
    /// `proc` is a live process of Open MPI.
    pub(crate) unsafe fn of(proc: *const ffi::opal_proc_t) -> Name {
        // SAFETY: the caller guarantees that `proc` is a live process.
        unsafe { Name((*proc).proc_name.jobid, (*proc).proc_name.vpid) }
    }

    /// The name of this process.
    pub(crate) fn own() -> Option<Name> {
        // SAFETY: the function takes no argument; Open MPI sets the local process before it loads components.
        let own = unsafe { ffi::opal_proc_local_get() };
        // SAFETY: if `own` is not NULL, it is the structure of this process, which stays live.
        (!own.is_null()).then(|| unsafe { Name::of(own) })
    }

    /// The transport's number of the process. For a process of this process's own job it is the rank.
    pub(crate) fn number(self) -> u64 {
        let job = Name::own().map_or(0, |own| own.0);
        u64::from(self.0.wrapping_sub(job)) << 32 | u64::from(self.1)
    }
}

/// The endpoints that Open MPI holds.
#[derive(Default)]
pub(crate) struct Peers(pub(crate) HashMap<Name, Peer>);

pub(crate) struct Peer {
    pub(crate) endpoint: NonNull<Endpoint>,
    pub(crate) proc: *mut ffi::opal_proc_t,
    /// Whether Open MPI was told that the process is lost.
    lost: bool,
}

impl Peer {
    pub(crate) fn new(endpoint: NonNull<Endpoint>, proc: *mut ffi::opal_proc_t) -> Peer {
        Peer {
            endpoint,
            proc,
            lost: false,
        }
    }
}

impl Peers {
    /// The endpoint of this process itself, once it was added.
    pub(crate) fn own(&self) -> Option<NonNull<Endpoint>> {
        self.0.get(&Name::own()?).map(|peer| peer.endpoint)
    }

    /// The process behind an endpoint, or NULL.
    pub(crate) fn proc_of(&self, endpoint: *const Endpoint) -> *mut ffi::opal_proc_t {
        let peer = self
            .0
            .values()
            .find(|peer| peer.endpoint.as_ptr().cast_const() == endpoint);
        peer.map_or(null_mut(), |peer| peer.proc)
    }

    /// Notes that a peer is lost. Returns its process the first time, for a peer that Open MPI holds.
    pub(crate) fn lose(&mut self, endpoint: *const Endpoint) -> Option<*mut ffi::opal_proc_t> {
        let mut peers = self.0.values_mut();
        let peer = peers.find(|peer| peer.endpoint.as_ptr().cast_const() == endpoint)?;
        let known = std::mem::replace(&mut peer.lost, true);
        (!known).then_some(peer.proc)
    }
}

// SAFETY: this type never dereferences its pointers; it only returns them to Open MPI and the transport.
unsafe impl Send for Peers {}

/// The address that a process published in Open MPI's modex; freed on drop.
pub(crate) struct Published {
    data: *mut c_void,
    size: usize,
}

impl Published {
    /// # Safety
    /// `proc` is a live process of Open MPI.
    pub(crate) unsafe fn by(
        component: *const ffi::mca_base_component_t,
        proc: *const ffi::opal_proc_t,
    ) -> Result<Published, Status> {
        let mut published = Published {
            data: null_mut(),
            size: 0,
        };
        // SAFETY: the caller guarantees that `proc` is live; both out pointers are valid for the call.
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
        // SAFETY: the modex wrote a buffer of `size` bytes, and `by` refused NULL.
        unsafe { slice::from_raw_parts(self.data.cast(), self.size) }
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // SAFETY: the modex allocates the buffer with `malloc` and gives it to the caller; `free` accepts NULL.
        unsafe { libc::free(self.data) };
    }
}

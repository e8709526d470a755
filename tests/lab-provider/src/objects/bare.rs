//! `LAB_BARE`: writes to this process, made at the post. Checks, delays and counts would take longer than the user's own
//! work, and threads would contend for them.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use libfabric_sys as ffi;

use crate::base::config::Config;
use crate::objects::endpoint::EndpointObject;
use crate::objects::object::Object;
use crate::reach::regions;

/// Whether a bare fabric was opened.
static OPENED: AtomicBool = AtomicBool::new(false);

/// Records that a fabric is opened.
pub(super) fn opened(config: &Config) {
    OPENED.fetch_or(config.bare, Ordering::Relaxed);
}

/// Makes a write, if the provider is bare.
///
/// # Safety
/// `ep` is an endpoint of this provider. If the provider is bare, the bytes lie within a region of this process that its
/// key names.
pub(super) unsafe fn write(
    ep: *mut ffi::fid_ep,
    near: &ffi::iovec,
    far: &ffi::fi_rma_iov,
    context: *mut c_void,
) -> Option<isize> {
    // This check precedes the access to the endpoint, which reports an invalid endpoint.
    if !OPENED.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: the caller guarantees that the endpoint is valid.
    let object: &EndpointObject = unsafe { Object::of(ep, "fi_writemsg") }.ok()?;
    let domain = &object.inner.domain.inner;
    if !domain.config.bare {
        return None;
    }
    let queue = object.inner.lock().queue?;
    let base = regions::base(domain.number, far.key)?;
    let offset = match domain.config.virtual_addresses() {
        true => far.addr - base,
        false => far.addr,
    };
    // SAFETY: the caller guarantees that the bytes are valid.
    unsafe {
        let to = std::ptr::with_exposed_provenance_mut::<u8>((base + offset) as usize);
        std::ptr::copy_nonoverlapping(near.iov_base.cast::<u8>(), to, near.iov_len);
    }
    Some(queue.inner.made(context))
}

//! Rings through which kernels of a device start operations. `host_xpu_device.h` has the kernels'
//! functions.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use host::device::{MappedRing, PROXY, Ring};
use host::win::Proxy;

use crate::base::error::{Error, HOST_ERR_STATE, Result, guarded};
use crate::base::handles::{Handles, place};
use crate::job::job;
use crate::win::window::{Used, host_win_t, window};

/// A ring of commands of one device, which all progress of the host serves: waiting calls, host_progress, and the
/// progress thread. The handle is a number and is never dereferenced.
pub struct host_device_ring_t {
    _private: [u8; 0],
}

/// The host's functions serve an endpoint. libfabric's providers have the numbers from 1 on.
pub const HOST_XPU_PROXY: u32 = 0x686f7374;

const _: () = assert!(HOST_XPU_PROXY == PROXY);

/// An endpoint through which kernels start operations, with the functions of host_xpu_device.h. The endpoint has
/// the layout of libfabric's struct fid_xpu_ep. Passed to kernels by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_xpu_ep_t {
    /// libfabric's FI_CLASS_EP.
    pub fclass: u32,
    /// HOST_XPU_PROXY.
    pub prov_id: u32,
    /// The device's address of the ring.
    pub prov_ctx: u64,
}

/// A window in calls of kernels. Passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct host_xpu_win_t {
    /// The window's number in the ring.
    pub number: u32,
}

struct Kept {
    // Dropped first, so that no thread serves the ring when the other fields go.
    proxy: Proxy,
    mapped: MappedRing,
    ring: Arc<Ring>,
}

static RINGS: Handles<Arc<Kept>> = Handles::new("ring");

fn ring(call: &str, handle: *mut host_device_ring_t) -> Result<Arc<Kept>> {
    RINGS.with(call, handle, Arc::clone)
}

/// Makes a ring of at least `slots` commands (1 to 65536) for a device: pinned and mapped for a CUDA device, at the
/// host's own address for others. HOST_ERR_WIN: the level of device support is below 3; HOST_ERR_ARG: the
/// device cannot start operations.
///
/// # Safety
/// `made` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_device_ring_create(
    device: c_int,
    slots: usize,
    made: *mut *mut host_device_ring_t,
) -> c_int {
    guarded(|| {
        let call = "host_device_ring_create";
        // SAFETY: passed on.
        let made = unsafe { place(call, made) }?;
        if !(1..=1 << 16).contains(&slots) {
            let text = format!("no ring of {slots} slots; there are 1 to 65536");
            return Err(Error::argument(call, &text));
        }
        let job = job(call)?;
        let ring = Arc::new(Ring::new(slots));
        let proxy = Proxy::new(&job, &ring, job.device_support().level)?;
        let mapped = MappedRing::new(job.devices(), device, &ring)?;
        *made = RINGS.add(Arc::new(Kept {
            proxy,
            mapped,
            ring,
        }));
        Ok(())
    })
}

/// Returns the host memory of a ring, for a program that maps the memory for a device of its own: the
/// device's address then replaces `prov_ctx`. The memory stays until host_device_ring_free.
///
/// # Safety
/// `base` and `size` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_device_ring_memory(
    handle: *mut host_device_ring_t,
    base: *mut *mut c_void,
    size: *mut usize,
) -> c_int {
    guarded(|| {
        let call = "host_device_ring_memory";
        // SAFETY: passed on.
        let (base, size) = unsafe { (place(call, base)?, place(call, size)?) };
        let (at, len) = ring(call, handle)?.ring.memory();
        (*base, *size) = (at.cast(), len);
        Ok(())
    })
}

/// Returns the endpoint through which kernels of the ring's device start operations.
///
/// # Safety
/// `ep` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_device_ring_export(
    handle: *mut host_device_ring_t,
    ep: *mut host_xpu_ep_t,
) -> c_int {
    guarded(|| {
        let call = "host_device_ring_export";
        // SAFETY: passed on.
        let ep = unsafe { place(call, ep) }?;
        let endpoint = ring(call, handle)?.mapped.endpoint();
        *ep = host_xpu_ep_t {
            fclass: endpoint.fclass,
            prov_id: endpoint.prov_id,
            prov_ctx: endpoint.prov_ctx,
        };
        Ok(())
    })
}

/// Lets commands of a ring use a window. A lock or lock_all epoch of the window must be open when commands come;
/// `known` is the window's name for kernels. The window must be freed after the ring.
///
/// # Safety
/// `win` is a window that no other thread frees; `known` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_device_ring_add_window(
    handle: *mut host_device_ring_t,
    win: *mut host_win_t,
    known: *mut host_xpu_win_t,
) -> c_int {
    guarded(|| {
        let call = "host_device_ring_add_window";
        // SAFETY: passed on.
        let (known, win) = unsafe { (place(call, known)?, window(call, win)?) };
        let number = ring(call, handle)?.proxy.add_window(Used::new(win))?;
        *known = host_xpu_win_t { number };
        Ok(())
    })
}

/// Returns the numbers of a ring's operations that succeeded and failed. HOST_ERR_STATE: the program closed the
/// ring, or the device wrote a command that no kernel of host_xpu_device.h writes; the numbers are valid
/// nevertheless.
///
/// # Safety
/// `succeeded` and `failed` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_device_ring_status(
    handle: *mut host_device_ring_t,
    succeeded: *mut u64,
    failed: *mut u64,
) -> c_int {
    guarded(|| {
        let call = "host_device_ring_status";
        // SAFETY: passed on.
        let (succeeded, failed) = unsafe { (place(call, succeeded)?, place(call, failed)?) };
        let kept = ring(call, handle)?;
        (*succeeded, *failed) = kept.ring.counts();
        match kept.ring.is_closed() {
            true => Err(Error::new(
                HOST_ERR_STATE,
                format!("{call}: the ring is closed"),
            )),
            false => Ok(()),
        }
    })
}

/// Ends the service of a ring, after its operations under way. Kernels that still wait or post get -ECANCELED. A
/// function that progress calls must not call this function.
#[unsafe(no_mangle)]
pub extern "C" fn host_device_ring_close(handle: *mut host_device_ring_t) -> c_int {
    guarded(|| {
        ring("host_device_ring_close", handle)?.proxy.close();
        Ok(())
    })
}

/// Closes a ring, frees its memory, and sets the handle to NULL.
///
/// # Safety
/// `handle` points to NULL or a ring. The kernels that use the ring have ended, and no other thread
/// uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_device_ring_free(handle: *mut *mut host_device_ring_t) -> c_int {
    guarded(|| {
        let call = "host_device_ring_free";
        // SAFETY: passed on.
        let handle = unsafe { place(call, handle) }?;
        let kept = RINGS.take(call, *handle)?;
        *handle = std::ptr::null_mut();
        kept.proxy.close();
        Ok(())
    })
}

/// Ends the service of all rings, because the process is leaving the job.
pub(crate) fn close_all() {
    for kept in RINGS.clear() {
        kept.proxy.close();
    }
}

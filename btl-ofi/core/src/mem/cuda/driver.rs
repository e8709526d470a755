//! Contexts and streams of the driver, and the driver's information about memory.

use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::sys::{self, CUcontext, CUpointer_attribute, CUresult, CUstream};
use libfabric_sys as ffi;

pub(super) const FAILED: isize = -(ffi::FI_EIO as isize);
pub(super) const NOT_THERE: isize = -(libc::EFAULT as isize);

/// A context, and this crate's streams in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) context: CUcontext,
    /// The stream for copies that a call waits for.
    pub(super) stream: CUstream,
    /// The streams for copies that complete later, one for each direction.
    pub(super) out_of: CUstream,
    pub(super) into: CUstream,
}

// SAFETY: all fields are tokens of the driver, which any thread may use.
unsafe impl Send for Place {}

#[derive(Default)]
struct Known {
    /// One place for each context in use.
    places: Vec<Place>,
    /// Primary contexts that are retained for the life of the process, each with its device's
    /// ordinal.
    primary: Vec<(i32, Place)>,
}

fn known() -> MutexGuard<'static, Known> {
    static KNOWN: Mutex<Known> = Mutex::new(Known {
        places: Vec::new(),
        primary: Vec::new(),
    });
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the call succeeded. Logs a warning if the call failed.
pub(super) fn done(call: &'static str, result: CUresult) -> bool {
    if result != CUresult::CUDA_SUCCESS {
        tracing::warn!("{call} returned {result:?}");
    }
    result == CUresult::CUDA_SUCCESS
}

/// Whether this machine has the driver's library. Does not start the driver.
pub(crate) fn has_driver() -> bool {
    // SAFETY: the call only tries to load the library.
    unsafe { sys::is_culib_present() }
}

/// Number of devices; 0 without a driver. Starts the driver in this process.
pub(crate) fn devices() -> u32 {
    static COUNT: OnceLock<u32> = OnceLock::new();
    *COUNT.get_or_init(|| {
        if !has_driver() {
            return 0;
        }
        let mut count = 0;
        // SAFETY: the library is loaded; `count` receives the number.
        let counted = unsafe {
            sys::cuInit(0) == CUresult::CUDA_SUCCESS
                && sys::cuDeviceGetCount(&mut count) == CUresult::CUDA_SUCCESS
        };
        if counted {
            u32::try_from(count).unwrap_or(0)
        } else {
            0
        }
    })
}

/// Asks the driver for an attribute of an address. Returns `None` for memory that the driver does not know. `T`
/// is the attribute's type.
fn ask<T: Copy>(attribute: CUpointer_attribute, address: u64, nothing: T) -> Option<T> {
    let mut answer = nothing;
    // SAFETY: each caller passes the `T` that the driver documents for the attribute, so the value fits `answer`.
    let result =
        unsafe { sys::cuPointerGetAttribute((&raw mut answer).cast(), attribute, address) };
    (result == CUresult::CUDA_SUCCESS).then_some(answer)
}

/// The ordinal of the device that owns the memory; `None` if no device does.
pub(crate) fn device_of(address: u64) -> Option<u64> {
    if devices() == 0 {
        return None;
    }
    let ordinal: i32 = ask(
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        address,
        -1,
    )?;
    u64::try_from(ordinal).ok()
}

/// The context and stream for copies of memory at `address`.
pub(super) fn place_of(address: u64) -> Option<Place> {
    let ordinal = i32::try_from(device_of(address)?).ok()?;
    let owner: CUcontext = ask(
        CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT,
        address,
        std::ptr::null_mut(),
    )?;
    let mut known = known();
    if owner.is_null() {
        // Memory without a context, for example from pools and mapped allocations: the device's primary
        // context reaches it.
        return known.primary(ordinal);
    }
    if !known.has(owner) {
        keep(ordinal, owner);
    }
    known.place(owner)
}

/// Retains a device's primary context for the life of the process, if `context` is this context. Otherwise our
/// stream and pinned memory would end when another user releases the context. A context that the user created
/// ends when the user destroys it.
fn keep(ordinal: i32, context: CUcontext) {
    let (mut device, mut flags, mut active) = (0, 0, 0);
    let mut primary = std::ptr::null_mut();
    // SAFETY: each pointer receives a result. An inactive primary context is not retained, because this would
    // create the context.
    unsafe {
        if sys::cuDeviceGet(&mut device, ordinal) != CUresult::CUDA_SUCCESS
            || sys::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active)
                != CUresult::CUDA_SUCCESS
            || active == 0
            || sys::cuDevicePrimaryCtxRetain(&mut primary, device) != CUresult::CUDA_SUCCESS
        {
            return;
        }
        if primary != context {
            let _ = sys::cuDevicePrimaryCtxRelease_v2(device);
        }
    }
}

/// Removes a place in which a call failed. The context of this place may have been destroyed, and a new context may get
/// its address.
pub(super) fn remove(place: Place) {
    let mut known = known();
    known.places.retain(|p| *p != place);
    known.primary.retain(|(_, p)| *p != place);
}

impl Known {
    fn has(&self, context: CUcontext) -> bool {
        self.places.iter().any(|p| p.context == context)
    }

    fn primary(&mut self, ordinal: i32) -> Option<Place> {
        if let Some((_, place)) = self.primary.iter().find(|(o, _)| *o == ordinal) {
            return Some(*place);
        }
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: both pointers receive a result.
        let retained = unsafe {
            done("cuDeviceGet", sys::cuDeviceGet(&mut device, ordinal))
                && done(
                    "cuDevicePrimaryCtxRetain",
                    sys::cuDevicePrimaryCtxRetain(&mut context, device),
                )
        };
        let place = retained.then(|| self.place(context)).flatten()?;
        self.primary.push((ordinal, place));
        Some(place)
    }

    fn place(&mut self, context: CUcontext) -> Option<Place> {
        if let Some(place) = self.places.iter().find(|p| p.context == context) {
            return Some(*place);
        }
        let _current = Current::make(context)?;
        let stream = new_stream()?;
        let place = Place {
            context,
            stream,
            out_of: new_stream().unwrap_or(stream),
            into: new_stream().unwrap_or(stream),
        };
        self.places.push(place);
        Some(place)
    }
}

/// Makes a stream of the current context; `None` if the driver refuses.
fn new_stream() -> Option<CUstream> {
    let mut stream = std::ptr::null_mut();
    let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: `stream` receives the new stream.
    let result = unsafe { sys::cuStreamCreate(&mut stream, flags) };
    done("cuStreamCreate", result).then_some(stream)
}

/// A context that stays current on this thread while this value lives. The value is not `Send`, because a context is
/// current on one thread.
pub(super) struct Current(PhantomData<*const ()>);

impl Current {
    pub(super) fn make(context: CUcontext) -> Option<Current> {
        // SAFETY: the context came from the driver, which checks it.
        let result = unsafe { sys::cuCtxPushCurrent_v2(context) };
        // `then_some` would pop a context that was never pushed.
        done("cuCtxPushCurrent", result).then(|| Current(PhantomData))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let mut before = std::ptr::null_mut();
        // SAFETY: pops the context that `make` pushed, on the same thread, because this type is not `Send`.
        let result = unsafe { sys::cuCtxPopCurrent_v2(&mut before) };
        done("cuCtxPopCurrent", result);
    }
}

/// Pins host memory, so that copies run at the speed of the bus. Returns whether this worked. Does nothing
/// before the process uses device memory: creating a context would take memory of a device that nothing uses.
pub(crate) fn pin(base: *mut u8, len: usize) -> bool {
    let Some(place) = known().places.first().copied() else {
        return false;
    };
    let Some(_current) = Current::make(place.context) else {
        return false;
    };
    let flags = sys::CU_MEMHOSTREGISTER_PORTABLE;
    // SAFETY: the caller keeps the memory allocated until `unpin`.
    let result = unsafe { sys::cuMemHostRegister_v2(base.cast(), len, flags) };
    done("cuMemHostRegister", result)
}

/// Reverses [`pin`]. Returns whether this worked. Memory that stays pinned must not be freed.
pub(crate) fn unpin(base: *mut u8) -> bool {
    let place = known().places.first().copied();
    let Some(_current) = place.and_then(|place| Current::make(place.context)) else {
        return false;
    };
    // SAFETY: the caller pinned the memory; the driver refuses an address that is not pinned.
    let result = unsafe { sys::cuMemHostUnregister(base.cast()) };
    done("cuMemHostUnregister", result)
}

/// Prepares a context and a stream for copies of memory at `address`. Returns whether the context
/// and the stream exist.
pub(crate) fn meet(address: u64) -> bool {
    place_of(address).is_some()
}

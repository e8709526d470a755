//! CUDA copies through the driver's library, if this machine has it. CUDA is not needed to build or to run. Without
//! the library or without a device, this module reaches nothing.
//!
//! A copy runs in the context that owns the device address. The context is pushed for the copy and popped afterwards,
//! so the caller's thread keeps its current context. Copies use a stream of our own that does not synchronise with
//! the default stream, so a kernel that waits for the host does not block them. The user completes kernels that work
//! on the memory before a transfer, as for every MPI call.

#[cfg(feature = "cuda")]
mod driver {
    use std::ffi::c_void;
    use std::marker::PhantomData;
    use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

    use cudarc::driver::sys::{self, CUcontext, CUpointer_attribute, CUresult, CUstream};
    use libfabric_sys as ffi;

    const FAILED: isize = -(ffi::FI_EIO as isize);
    const NOT_THERE: isize = -(libc::EFAULT as isize);

    /// Context and stream of a copy.
    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Place {
        context: CUcontext,
        stream: CUstream,
    }

    // SAFETY: both are tokens of the driver, which any thread may use.
    unsafe impl Send for Place {}

    #[derive(Default)]
    struct Known {
        /// One for each context in use.
        places: Vec<Place>,
        /// Primary contexts that are retained for the life of the process, with the device's ordinal.
        primary: Vec<(i32, Place)>,
    }

    fn known() -> MutexGuard<'static, Known> {
        static KNOWN: Mutex<Known> = Mutex::new(Known {
            places: Vec::new(),
            primary: Vec::new(),
        });
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the call succeeded. Logs a warning if it failed.
    fn done(call: &'static str, result: CUresult) -> bool {
        if result != CUresult::CUDA_SUCCESS {
            tracing::warn!("{call} returned {result:?}");
        }
        result == CUresult::CUDA_SUCCESS
    }

    /// Number of devices; 0 without a driver.
    pub(crate) fn devices() -> u32 {
        static COUNT: OnceLock<u32> = OnceLock::new();
        *COUNT.get_or_init(|| {
            // SAFETY: the call only tries to load the library.
            if !unsafe { sys::is_culib_present() } {
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

    /// The driver's value of an attribute of an address; `None` for memory that the driver does not know. `T` is the
    /// attribute's type.
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
    fn place_of(address: u64) -> Option<Place> {
        let ordinal = i32::try_from(device_of(address)?).ok()?;
        let owner: CUcontext = ask(
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT,
            address,
            std::ptr::null_mut(),
        )?;
        let mut known = known();
        if owner.is_null() {
            // Memory without a context, as from pools and mapped allocations: the device's primary context reaches
            // it.
            return known.primary(ordinal);
        }
        if !known.has(owner) {
            keep(ordinal, owner);
        }
        known.place(owner)
    }

    /// Retains a device's primary context for the life of the process, if `context` is that one. Our stream and
    /// pinned memory must not end when another user releases the context. A context that the user created ends when
    /// the user destroys it.
    fn keep(ordinal: i32, context: CUcontext) {
        let (mut device, mut flags, mut active) = (0, 0, 0);
        let mut primary = std::ptr::null_mut();
        // SAFETY: each pointer receives a result. An inactive primary context is not retained, since that would
        // create it.
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
            let mut stream = std::ptr::null_mut();
            let _current = Current::make(context)?;
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            // SAFETY: the context is current; `stream` receives the new stream.
            let result = unsafe { sys::cuStreamCreate(&mut stream, flags) };
            if !done("cuStreamCreate", result) {
                return None;
            }
            let place = Place { context, stream };
            self.places.push(place);
            Some(place)
        }
    }

    /// A context that stays current on this thread while this value lives. Not `Send`: a context is current on one
    /// thread.
    struct Current(PhantomData<*const ()>);

    impl Current {
        fn make(context: CUcontext) -> Option<Current> {
            // SAFETY: the context came from the driver, which checks it.
            let result = unsafe { sys::cuCtxPushCurrent_v2(context) };
            // Not `then_some`, which would pop a context that was never pushed.
            done("cuCtxPushCurrent", result).then(|| Current(PhantomData))
        }
    }

    impl Drop for Current {
        fn drop(&mut self) {
            let mut before = std::ptr::null_mut();
            // SAFETY: pops the context that `make` pushed, on the same thread, since this type is not `Send`.
            let result = unsafe { sys::cuCtxPopCurrent_v2(&mut before) };
            done("cuCtxPopCurrent", result);
        }
    }

    /// Copies in progress. [`finish`](Self::finish) waits for all of them.
    #[derive(Default)]
    pub(crate) struct Copies {
        under_way: Option<(Place, Current)>,
    }

    impl Copies {
        /// Starts a copy of `n` bytes from `from` to `to`; `device` is the one of them that is device memory. Returns
        /// 0 or a negative errno.
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
            // The context may be destroyed, and a new one may get its address.
            let mut known = known();
            known.places.retain(|p| *p != place);
            known.primary.retain(|(_, p)| *p != place);
            FAILED
        }
    }

    impl Drop for Copies {
        fn drop(&mut self) {
            // Needed after an error: no copy may use the memory once the caller continues.
            self.finish();
        }
    }

    /// Pins host memory so that copies run at the speed of the bus; returns whether that worked. It does nothing
    /// before the process uses device memory: a context of our own would take memory of a device that nothing uses.
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

    /// Reverses [`pin`]; returns whether that worked. Memory that stays pinned must not be freed.
    pub(crate) fn unpin(base: *mut u8) -> bool {
        let place = known().places.first().copied();
        let Some(_current) = place.and_then(|place| Current::make(place.context)) else {
            return false;
        };
        // SAFETY: the caller pinned the memory; the driver refuses an address that is not pinned.
        let result = unsafe { sys::cuMemHostUnregister(base.cast()) };
        done("cuMemHostUnregister", result)
    }

    /// Prepares context and stream for copies of memory at `address`; returns whether they exist.
    pub(crate) fn meet(address: u64) -> bool {
        place_of(address).is_some()
    }
}

#[cfg(not(feature = "cuda"))]
mod driver {
    use std::ffi::c_void;

    pub(crate) fn devices() -> u32 {
        0
    }

    pub(crate) fn device_of(_address: u64) -> Option<u64> {
        None
    }

    pub(crate) fn meet(_address: u64) -> bool {
        false
    }

    #[derive(Default)]
    pub(crate) struct Copies;

    impl Copies {
        pub(crate) unsafe fn add(
            &mut self,
            _device: *mut c_void,
            _to: *mut c_void,
            _from: *mut c_void,
            _n: usize,
        ) -> isize {
            crate::mem::copy::UNKNOWN_KIND
        }

        pub(crate) fn finish(&mut self) -> isize {
            0
        }
    }

    pub(crate) fn pin(_base: *mut u8, _len: usize) -> bool {
        false
    }

    pub(crate) fn unpin(_base: *mut u8) -> bool {
        true
    }
}

pub(crate) use driver::{Copies, device_of, devices, meet, pin, unpin};

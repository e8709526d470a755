//! CUDA, through the driver's library if this machine has one. Nothing of CUDA is needed to build or
//! to run; without the library, or without a device, it is as if this module were not there.
//!
//! Copies run in the context that owns the device's address, which is made current for them and taken
//! off again: the caller's thread is left as it was. They go through a stream of our own that does not
//! wait for the default one, so that a kernel that waits for the host does not hold them up; whoever
//! computes on the memory finishes that first, as with every call of MPI.

#[cfg(feature = "cuda")]
mod driver {
    use std::ffi::c_void;
    use std::marker::PhantomData;
    use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

    use cudarc::driver::sys::{self, CUcontext, CUpointer_attribute, CUresult, CUstream};
    use libfabric_sys as ffi;

    const FAILED: isize = -(ffi::FI_EIO as isize);
    const NOT_THERE: isize = -(libc::EFAULT as isize);

    /// Where copies run.
    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Place {
        context: CUcontext,
        stream: CUstream,
    }

    // SAFETY: tokens of the driver, which any thread may use.
    unsafe impl Send for Place {}

    #[derive(Default)]
    struct Known {
        /// One for each context that was met.
        places: Vec<Place>,
        /// Primary contexts that are kept for the life of the process, by device.
        primary: Vec<(i32, Place)>,
    }

    fn known() -> MutexGuard<'static, Known> {
        static KNOWN: Mutex<Known> = Mutex::new(Known {
            places: Vec::new(),
            primary: Vec::new(),
        });
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the driver did it; says so where it did not.
    fn done(call: &'static str, result: CUresult) -> bool {
        if result != CUresult::CUDA_SUCCESS {
            tracing::warn!("{call} answered {result:?}");
        }
        result == CUresult::CUDA_SUCCESS
    }

    /// Devices that the driver has; 0 without a driver.
    pub(crate) fn devices() -> u32 {
        static COUNT: OnceLock<u32> = OnceLock::new();
        *COUNT.get_or_init(|| {
            // SAFETY: only looks for the library.
            if !unsafe { sys::is_culib_present() } {
                return 0;
            }
            let mut count = 0;
            // SAFETY: the library is there; `count` receives the number.
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

    /// What the driver says of an address; `None` for memory that it does not know.
    fn ask<T: Copy>(attribute: CUpointer_attribute, address: u64, nothing: T) -> Option<T> {
        let mut answer = nothing;
        // SAFETY: `answer` has the attribute's type, which the callers see to.
        let result =
            unsafe { sys::cuPointerGetAttribute((&raw mut answer).cast(), attribute, address) };
        (result == CUresult::CUDA_SUCCESS).then_some(answer)
    }

    /// The number of the device whose memory this is; `None` if it is nobody's.
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

    /// Where copies of memory at `address` run.
    fn place_of(address: u64) -> Option<Place> {
        let ordinal = i32::try_from(device_of(address)?).ok()?;
        let owner: CUcontext = ask(
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT,
            address,
            std::ptr::null_mut(),
        )?;
        let mut known = known();
        if owner.is_null() {
            // Memory of no context, as that of pools and of mapped allocations: the device's primary
            // one reaches it.
            return known.primary(ordinal);
        }
        if !known.has(owner) {
            keep(ordinal, owner);
        }
        known.place(owner)
    }

    /// Keeps a device's primary context for the life of the process, if this is it: our stream and
    /// what is pinned shall not go with whoever else uses it. A context of the user's own goes when the
    /// user says so.
    fn keep(ordinal: i32, context: CUcontext) {
        let (mut device, mut flags, mut active) = (0, 0, 0);
        let mut primary = std::ptr::null_mut();
        // SAFETY: each pointer receives an answer. One that is not active is not asked for: that would
        // make it.
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
            // SAFETY: both receive an answer.
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
            // SAFETY: the context is current; `stream` receives the stream.
            let result = unsafe { sys::cuStreamCreate(&mut stream, flags) };
            if !done("cuStreamCreate", result) {
                return None;
            }
            let place = Place { context, stream };
            self.places.push(place);
            Some(place)
        }
    }

    /// A context that is current on this thread as long as this lives.
    /// Belongs to its thread, as contexts are current on threads.
    struct Current(PhantomData<*const ()>);

    impl Current {
        fn make(context: CUcontext) -> Option<Current> {
            // SAFETY: a context of the driver's.
            let result = unsafe { sys::cuCtxPushCurrent_v2(context) };
            // Not `then_some`: one that was never put on must not be taken off.
            done("cuCtxPushCurrent", result).then(|| Current(PhantomData))
        }
    }

    impl Drop for Current {
        fn drop(&mut self) {
            let mut before = std::ptr::null_mut();
            // SAFETY: takes off what `make` put on; on the same thread, as this is not `Send`.
            let result = unsafe { sys::cuCtxPopCurrent_v2(&mut before) };
            done("cuCtxPopCurrent", result);
        }
    }

    /// Copies that are waited for together.
    #[derive(Default)]
    pub(crate) struct Copies {
        under_way: Option<(Place, Current)>,
    }

    impl Copies {
        /// Starts copying `n` bytes between two addresses, of which `device` is the one of a device:
        /// 0, or a negative errno.
        ///
        /// # Safety
        /// Both are good for `n` bytes until [`finish`](Self::finish), on the host or on a device.
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
            // SAFETY: the stream's context is current; the caller vouches for the memory.
            let result = unsafe { sys::cuMemcpyAsync(to as u64, from as u64, n, place.stream) };
            if done("cuMemcpyAsync", result) {
                0
            } else {
                FAILED
            }
        }

        /// Waits for those that were started: 0, or a negative errno.
        pub(crate) fn finish(&mut self) -> isize {
            let Some((place, _current)) = self.under_way.take() else {
                return 0;
            };
            // SAFETY: a stream of ours, whose context is current. Also where the host's side is
            // pageable: then the copy may go through the driver's buffers, and this waits for them.
            let result = unsafe { sys::cuStreamSynchronize(place.stream) };
            if done("cuStreamSynchronize", result) {
                return 0;
            }
            // Its context may be gone, and another have its address.
            let mut known = known();
            known.places.retain(|p| *p != place);
            known.primary.retain(|(_, p)| *p != place);
            FAILED
        }
    }

    impl Drop for Copies {
        fn drop(&mut self) {
            // After an error: nothing may use the memory when the caller goes on.
            self.finish();
        }
    }

    /// Pins host memory, so that copies run at the bus's speed; whether that worked. Not before memory
    /// of some device was met: a context of our own would cost memory on a device that nobody uses.
    pub(crate) fn pin(base: *mut u8, len: usize) -> bool {
        let Some(place) = known().places.first().copied() else {
            return false;
        };
        let Some(_current) = Current::make(place.context) else {
            return false;
        };
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE;
        // SAFETY: memory of this process that the caller keeps until `unpin`.
        let result = unsafe { sys::cuMemHostRegister_v2(base.cast(), len, flags) };
        done("cuMemHostRegister", result)
    }

    /// Ends what [`pin`] did; whether that worked. Memory that stays pinned must not be freed.
    pub(crate) fn unpin(base: *mut u8) -> bool {
        let place = known().places.first().copied();
        let Some(_current) = place.and_then(|place| Current::make(place.context)) else {
            return false;
        };
        // SAFETY: pinned before.
        let result = unsafe { sys::cuMemHostUnregister(base.cast()) };
        done("cuMemHostUnregister", result)
    }

    /// Makes the place where memory at `address` is copied; whether there is one.
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

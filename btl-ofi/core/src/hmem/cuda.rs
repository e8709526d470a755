//! CUDA, through the driver's library if this machine has one. Nothing of CUDA is needed to build or
//! to run; without the library, or without a device, it is as if this module were not there.

#[cfg(feature = "cuda")]
mod driver {
    use std::ffi::c_void;
    use std::sync::OnceLock;

    use cudarc::driver::sys;
    use libfabric_sys as ffi;

    const FAILED: isize = -(ffi::FI_EIO as isize);

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
                sys::cuInit(0) == sys::CUresult::CUDA_SUCCESS
                    && sys::cuDeviceGetCount(&mut count) == sys::CUresult::CUDA_SUCCESS
            };
            if counted {
                u32::try_from(count).unwrap_or(0)
            } else {
                0
            }
        })
    }

    /// Gives this thread a context, unless the user's is current: the primary one of the device that
    /// owns an address, or of the first.
    fn enter(address: u64) -> bool {
        let mut current = std::ptr::null_mut();
        // SAFETY: the driver is initialised (`devices`); every pointer receives an answer.
        unsafe {
            if sys::cuCtxGetCurrent(&mut current) == sys::CUresult::CUDA_SUCCESS
                && !current.is_null()
            {
                return true;
            }
            let mut ordinal = 0i32;
            // Host memory has no ordinal, and leaves 0.
            let _ = sys::cuPointerGetAttribute(
                (&raw mut ordinal).cast(),
                sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                address,
            );
            let mut device = 0;
            let mut context = std::ptr::null_mut();
            sys::cuDeviceGet(&mut device, ordinal.max(0)) == sys::CUresult::CUDA_SUCCESS
                && sys::cuDevicePrimaryCtxRetain(&mut context, device)
                    == sys::CUresult::CUDA_SUCCESS
                && sys::cuCtxSetCurrent(context) == sys::CUresult::CUDA_SUCCESS
        }
    }

    /// Copies `n` bytes between two addresses, of which the driver knows where they lie: 0, or a
    /// negative errno.
    ///
    /// # Safety
    /// Both are good for `n` bytes, on the host or on a device.
    pub(crate) unsafe fn copy(to: *mut c_void, from: *mut c_void, n: usize) -> isize {
        if devices() == 0 {
            return super::super::copy::UNKNOWN_KIND;
        }
        if !enter(to as u64) {
            return FAILED;
        }
        // SAFETY: a context is current; the caller vouches for the memory. Synchronous towards the
        // host; the wait below covers device-to-device copies, which are not.
        let done = unsafe {
            sys::cuMemcpy(to as u64, from as u64, n) == sys::CUresult::CUDA_SUCCESS
                && sys::cuStreamSynchronize(std::ptr::null_mut()) == sys::CUresult::CUDA_SUCCESS
        };
        if done { 0 } else { FAILED }
    }

    /// Pins host memory, so that copies run at the bus's speed; whether that worked. Left to the end
    /// of the process: the memory pinned here lives as long as a transport.
    pub(crate) fn pin(base: *mut u8, len: usize) -> bool {
        if devices() == 0 || !enter(base as u64) {
            return false;
        }
        // SAFETY: memory of this process that the caller keeps until `unpin`.
        let rc = unsafe {
            sys::cuMemHostRegister_v2(base.cast(), len, sys::CU_MEMHOSTREGISTER_PORTABLE)
        };
        rc == sys::CUresult::CUDA_SUCCESS
    }

    /// Ends what [`pin`] did, before the memory is freed.
    pub(crate) fn unpin(base: *mut u8) {
        if enter(base as u64) {
            // SAFETY: pinned before.
            let _ = unsafe { sys::cuMemHostUnregister(base.cast()) };
        }
    }
}

#[cfg(not(feature = "cuda"))]
mod driver {
    use std::ffi::c_void;

    pub(crate) fn devices() -> u32 {
        0
    }

    pub(crate) unsafe fn copy(_to: *mut c_void, _from: *mut c_void, _n: usize) -> isize {
        super::super::copy::UNKNOWN_KIND
    }

    pub(crate) fn pin(_base: *mut u8, _len: usize) -> bool {
        false
    }

    pub(crate) fn unpin(_base: *mut u8) {}
}

pub(crate) use driver::{copy, devices, pin, unpin};

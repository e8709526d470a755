//! The driver: its devices, their memory, and pointers.

use std::ffi::{CStr, c_char};
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{
    self, CUcontext, CUdevice_attribute, CUmemorytype, CUpointer_attribute, CUresult,
};
use osc_engine::door::{DeviceBuffer, Location};
use plugin_api::hmem_iface;

use super::ipc::Ipc;
use super::library::Library;
use super::stream::Stream;
use crate::error::DeviceError;
use crate::registry::{Allocation, Device, Devices, Lookup};
use crate::table::{Share, Ways};

/// The driver's answer, as an error that names the call.
pub(super) fn done(call: &str, result: CUresult) -> Result<(), String> {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        other => Err(format!("{call} answered {other:?}")),
    }
}

/// A device's primary context, kept as long as this lives.
pub(super) struct Primary {
    device: i32,
    context: CUcontext,
}

// SAFETY: the value is an opaque handle of the driver, which any thread may use.
unsafe impl Send for Primary {}
// SAFETY: as for Send.
unsafe impl Sync for Primary {}

impl Primary {
    pub(super) fn retain(ordinal: i32) -> Result<Primary, String> {
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: both pointers receive an answer.
        unsafe {
            done("cuDeviceGet", sys::cuDeviceGet(&mut device, ordinal))?;
            let retained = sys::cuDevicePrimaryCtxRetain(&mut context, device);
            done("cuDevicePrimaryCtxRetain", retained)?;
        }
        Ok(Primary { device, context })
    }

    /// Runs `work` with the context current on this thread.
    pub(super) fn within<T>(&self, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        within(self.context, work)
    }
}

/// Runs `work` with a context of the driver current on this thread.
pub(super) fn within<T>(
    context: CUcontext,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    // SAFETY: the driver checks the context.
    let pushed = unsafe { sys::cuCtxPushCurrent_v2(context) };
    done("cuCtxPushCurrent", pushed)?;
    let out = work();
    let mut before = std::ptr::null_mut();
    // SAFETY: takes off what was put on above.
    let popped = unsafe { sys::cuCtxPopCurrent_v2(&mut before) };
    done("cuCtxPopCurrent", popped).and(out)
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: retained when made.
        let result = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
        if let Err(why) = done("cuDevicePrimaryCtxRelease", result) {
            tracing::debug!("{why}");
        }
    }
}

/// Memory that the driver allocated.
struct CudaMemory {
    at: u64,
    len: usize,
    primary: Arc<Primary>,
}

impl CudaMemory {
    /// `len` zeroed bytes.
    fn new(primary: &Arc<Primary>, len: usize) -> Result<CudaMemory, String> {
        let mut at = 0;
        primary.within(|| {
            // SAFETY: the context is current; `at` receives the address of `len` bytes.
            unsafe {
                done("cuMemAlloc", sys::cuMemAlloc_v2(&mut at, len))?;
                let zeroed = zero(at, len);
                if zeroed.is_err() {
                    let _ = sys::cuMemFree_v2(at);
                }
                zeroed
            }
        })?;
        Ok(CudaMemory {
            at,
            len,
            primary: Arc::clone(primary),
        })
    }
}

/// Zeroes memory of the current context, on a separate stream.
///
/// # Safety
/// `at` has `len` bytes.
unsafe fn zero(at: u64, len: usize) -> Result<(), String> {
    let stream = Stream::new()?;
    // SAFETY: the caller guarantees the memory.
    let zeroed = unsafe { stream.zero(at, len) }.and_then(|()| stream.synchronise());
    zeroed.and(stream.destroy())
}

impl DeviceBuffer for CudaMemory {
    fn base(&self) -> u64 {
        self.at
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        let freed = self.primary.within(|| {
            // SAFETY: allocated by the driver, and freed once.
            done("cuMemFree", unsafe { sys::cuMemFree_v2(self.at) })
        });
        if let Err(why) = freed {
            tracing::warn!("{} B at {:#x}: {why}", self.len, self.at);
        }
    }
}

/// A lookup by the driver; its devices have the host's numbers from `first` on.
struct Pointers {
    first: i32,
    count: i32,
}

/// An attribute of an address; `None` for memory that the driver does not know.
pub(super) fn ask<T: Copy>(attribute: CUpointer_attribute, address: u64, nothing: T) -> Option<T> {
    let mut answer = nothing;
    // SAFETY: the callers guarantee that `answer` has the attribute's type.
    let result =
        unsafe { sys::cuPointerGetAttribute((&raw mut answer).cast(), attribute, address) };
    (result == CUresult::CUDA_SUCCESS).then_some(answer)
}

impl Lookup for Pointers {
    fn location(&self, pointer: u64) -> Option<Location> {
        let kind: u32 = ask(
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            pointer,
            0,
        )?;
        // Pinned host memory counts as host memory.
        if kind != CUmemorytype::CU_MEMORYTYPE_DEVICE as u32 {
            return None;
        }
        let ordinal: i32 = ask(
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            pointer,
            -1,
        )?;
        (0..self.count).contains(&ordinal).then_some(Location {
            device: self.first + ordinal,
            address: pointer,
        })
    }

    fn allocation(&self, pointer: u64) -> Option<Allocation> {
        let (mut base, mut len) = (0, 0);
        // SAFETY: both pointers receive an answer.
        let result = unsafe { sys::cuMemGetAddressRange_v2(&mut base, &mut len, pointer) };
        if result != CUresult::CUDA_SUCCESS {
            return None;
        }
        let id = ask(
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID,
            pointer,
            0,
        )?;
        Some(Allocation { base, len, id })
    }
}

/// The number of CUDA devices of this machine, or the reason why there are none. The first call
/// starts the driver.
pub fn cuda_devices() -> Result<usize, String> {
    static COUNTED: OnceLock<Result<usize, String>> = OnceLock::new();
    COUNTED.get_or_init(count).clone()
}

fn count() -> Result<usize, String> {
    // SAFETY: the call only looks for the library.
    if !unsafe { sys::is_culib_present() } {
        return Err(String::from("there is no CUDA driver (libcuda.so)"));
    }
    let mut count = 0;
    // SAFETY: the library is there; `count` receives the number.
    unsafe {
        done("cuInit", sys::cuInit(0))?;
        done("cuDeviceGetCount", sys::cuDeviceGetCount(&mut count))?;
    }
    match usize::try_from(count) {
        Ok(0) | Err(_) => Err(String::from("the CUDA driver has no device")),
        Ok(count) => Ok(count),
    }
}

fn name(device: i32) -> String {
    let mut name = [0 as c_char; 256];
    // SAFETY: the array has room for the passed number of bytes, and its last byte stays 0.
    let named = unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), 255, device) };
    if named != CUresult::CUDA_SUCCESS {
        return format!("CUDA device {device}");
    }
    // SAFETY: the array ends with a 0.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    name.to_string_lossy().into_owned()
}

fn attribute(device: i32, what: CUdevice_attribute) -> Result<i32, String> {
    let mut value = 0;
    // SAFETY: receives an answer.
    let asked = unsafe { sys::cuDeviceGetAttribute(&mut value, what, device) };
    done("cuDeviceGetAttribute", asked).map(|()| value)
}

/// Whether kernels of a device can use a ring; the error is the reason.
fn starts(device: i32) -> Result<(), String> {
    let maps = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY;
    if attribute(device, maps)? == 0 {
        return Err(String::from("it cannot map host memory"));
    }
    let major = attribute(
        device,
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
    )?;
    let minor = attribute(
        device,
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    )?;
    // The loads and stores of host_xpu_device.h need this version.
    if major < 7 {
        return Err(format!(
            "its compute capability is {major}.{minor}, and starting operations needs 7.0"
        ));
    }
    Ok(())
}

/// Whether this process has loaded the driver's library.
pub fn is_cuda_loaded() -> bool {
    static DRIVER: Library = Library::named(b"libcuda.so");
    DRIVER.is_loaded()
}

impl Devices {
    /// Adds the CUDA devices of this machine, in the driver's order; returns their number.
    pub fn add_cuda(&self) -> Result<usize, DeviceError> {
        let count = cuda_devices().unwrap_or(0) as i32;
        let mut first = None;
        for ordinal in 0..count {
            let mut handle = 0;
            // SAFETY: receives an answer.
            let found = unsafe { sys::cuDeviceGet(&mut handle, ordinal) };
            let why = match done("cuDeviceGet", found) {
                Ok(()) => starts(handle).err(),
                Err(why) => Some(why),
            };
            let device = Device {
                name: name(handle),
                iface: hmem_iface::CUDA,
                number: ordinal as u64,
                starts: why.is_none(),
                why: why.map_or(String::new(), |why| format!("CUDA device {ordinal}: {why}")),
            };
            // A context costs memory of its device, so it is made at the first use.
            let primary = OnceLock::<Result<Arc<Primary>, String>>::new();
            let allocate = move |len| {
                let made = primary.get_or_init(|| Primary::retain(ordinal).map(Arc::new));
                let memory = CudaMemory::new(made.as_ref().map_err(Clone::clone)?, len)?;
                Ok(Box::new(memory) as Box<dyn DeviceBuffer>)
            };
            let map = move |memory| {
                let pinned = Pinned::new(memory, ordinal)?;
                Ok((pinned.at, Box::new(pinned) as Box<dyn Send + Sync>))
            };
            let ways = Ways {
                allocate: Some(Arc::new(allocate)),
                map: Some(Box::new(map)),
                share: Ipc::new(ordinal, handle).map(|ipc| Arc::new(ipc) as Arc<dyn Share>),
            };
            let number = self.add_with(device, ways)?;
            first.get_or_insert(number);
        }
        if let Some(first) = first {
            self.add_lookup(Box::new(Pointers { first, count }));
        }
        Ok(count as usize)
    }
}

/// Memory of the host that the kernels of a device can write, as long as this lives.
struct Pinned {
    base: u64,
    at: u64,
    primary: Primary,
}

impl Pinned {
    /// Pins memory and maps it for the device with the driver's number `ordinal`.
    fn new((base, len): (*mut u8, usize), ordinal: i32) -> Result<Pinned, String> {
        let primary = Primary::retain(ordinal)?;
        let mut at = 0;
        primary.within(|| {
            let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
            // SAFETY: the caller keeps the memory as long as the mapping; `at` receives the
            // address.
            unsafe {
                let pinned = sys::cuMemHostRegister_v2(base.cast(), len, flags);
                done("cuMemHostRegister", pinned)?;
                let mapped = sys::cuMemHostGetDevicePointer_v2(&mut at, base.cast(), 0);
                done("cuMemHostGetDevicePointer", mapped).inspect_err(|_| {
                    let _ = sys::cuMemHostUnregister(base.cast());
                })
            }
        })?;
        let base = base as u64;
        Ok(Pinned { base, at, primary })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let ended = self.primary.within(|| {
            let base: *mut u8 = std::ptr::with_exposed_provenance_mut(self.base as usize);
            // SAFETY: pinned when made.
            done("cuMemHostUnregister", unsafe {
                sys::cuMemHostUnregister(base.cast())
            })
        });
        if let Err(why) = ended {
            tracing::warn!("{why}");
        }
    }
}

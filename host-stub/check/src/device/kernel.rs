//! The kernel of `cuda/started.cu` on the suite's device: what it asks for through a ring, the host does.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};
use plugin_api::hmem_iface;

use super::started::{free, zeroed};
use crate::buffer::{DEVICE, DeviceBuffer};
use crate::case::{Context, Failure, Outcome, ensure, same, say};
use host_stub::device::{Level, Ring, XpuEndpoint};
use host_stub::win::Proxy;

/// Compiled from `cuda/started.cu`, which says how.
const PTX: &str = concat!(
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../cuda/started.ptx")),
    "\0"
);
/// Words of the kernel's answers.
const ANSWERS: usize = 6;

fn done(call: &str, result: CUresult) -> Outcome {
    ensure(result == CUresult::CUDA_SUCCESS, || {
        format!("{call} answered {result:?}")
    })
}

/// The kernel under way, in the device's primary context, which is current as long as this lives.
struct Launched {
    device: i32,
    stream: sys::CUstream,
    module: sys::CUmodule,
}

impl Launched {
    /// Launches it with the arguments of `host_stub_started`.
    fn new(
        device: i32,
        (mut ep, mut window): (XpuEndpoint, u32),
        (mut target, mut local, answers): (i32, u64, &mut [u64; ANSWERS]),
    ) -> Result<Launched, Failure> {
        let mut context = std::ptr::null_mut();
        let mut launched = Launched {
            device,
            stream: std::ptr::null_mut(),
            module: std::ptr::null_mut(),
        };
        // SAFETY: each pointer receives an answer; the image ends with a 0; the parameters are those of
        // the kernel, and what they point to outlives it (`finish`).
        unsafe {
            done(
                "cuDevicePrimaryCtxRetain",
                sys::cuDevicePrimaryCtxRetain(&mut context, device),
            )?;
            done("cuCtxPushCurrent", sys::cuCtxPushCurrent_v2(context))?;
            let bytes = size_of_val(answers);
            let base: *mut c_void = answers.as_mut_ptr().cast();
            done(
                "cuMemHostRegister",
                sys::cuMemHostRegister_v2(base, bytes, sys::CU_MEMHOSTREGISTER_DEVICEMAP),
            )?;
            let mut at = 0u64;
            done(
                "cuMemHostGetDevicePointer",
                sys::cuMemHostGetDevicePointer_v2(&mut at, base, 0),
            )?;
            let image = PTX.as_ptr().cast();
            done(
                "cuModuleLoadData",
                sys::cuModuleLoadData(&mut launched.module, image),
            )?;
            let mut function = std::ptr::null_mut();
            let name = c"host_stub_started".as_ptr();
            done(
                "cuModuleGetFunction",
                sys::cuModuleGetFunction(&mut function, launched.module, name),
            )?;
            let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            done(
                "cuStreamCreate",
                sys::cuStreamCreate(&mut launched.stream, flags),
            )?;
            let mut parameters: [*mut c_void; 5] = [
                (&raw mut ep).cast(),
                (&raw mut window).cast(),
                (&raw mut target).cast(),
                (&raw mut local).cast(),
                (&raw mut at).cast(),
            ];
            done(
                "cuLaunchKernel",
                sys::cuLaunchKernel(
                    function,
                    1,
                    1,
                    1,
                    1,
                    1,
                    1,
                    0,
                    launched.stream,
                    parameters.as_mut_ptr(),
                    std::ptr::null_mut(),
                ),
            )?;
        }
        Ok(launched)
    }

    /// Whether the kernel is over.
    fn is_over(&self) -> Result<bool, Failure> {
        // SAFETY: a stream of ours.
        match unsafe { sys::cuStreamQuery(self.stream) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => done("cuStreamQuery", result).map(|()| true),
        }
    }

    /// Gives everything back, once the kernel is over.
    fn finish(self, answers: &mut [u64; ANSWERS]) -> Outcome {
        let mut before = std::ptr::null_mut();
        // SAFETY: all of it was made above, and nothing uses it any more.
        unsafe {
            done("cuStreamDestroy", sys::cuStreamDestroy_v2(self.stream))?;
            done("cuModuleUnload", sys::cuModuleUnload(self.module))?;
            let base = answers.as_mut_ptr().cast();
            done("cuMemHostUnregister", sys::cuMemHostUnregister(base))?;
            done("cuCtxPopCurrent", sys::cuCtxPopCurrent_v2(&mut before))?;
            let released = sys::cuDevicePrimaryCtxRelease_v2(self.device);
            done("cuDevicePrimaryCtxRelease", released)
        }
    }
}

/// A kernel puts, updates, gets and flushes.
pub(super) fn by_a_kernel(context: &Context<'_>) -> Outcome {
    let devices = context.job.devices();
    let device = devices.device(DEVICE)?;
    let info = context.job.transport().query_hmem(hmem_iface::CUDA);
    if info.is_none_or(|info| info.devices == 0) || !device.starts {
        say(context, "this machine has no CUDA device");
        return Ok(());
    }
    let window = zeroed(context)?;
    let buffer = DeviceBuffer::new(devices, 64, 0)?;
    let words = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| w.to_ne_bytes()).collect() };
    buffer.write(0, &words(&[10, 11, 12, 13]))?;
    let next = (context.rank + 1) % context.size;
    let ring = Arc::new(Ring::new(8));
    let mapped = devices.map_ring(DEVICE, &ring)?;
    let mut answers = [u64::MAX; ANSWERS];
    let proxy = Proxy::new(context.job, &ring, Level::DeviceOnBoth)?;
    let number = proxy.add_window(Arc::clone(&window))?;
    let local = buffer.pointer(0)? as u64;
    let arguments = (next as i32, local, &mut answers);
    let known = (mapped.endpoint(), number);
    let launched = Launched::new(device.number as i32, known, arguments)?;
    let engine = context.job.runtime().engine();
    while !launched.is_over()? {
        if engine.progress() == 0 {
            std::thread::yield_now();
        }
    }
    launched.finish(&mut answers)?;
    drop(proxy);
    window.unlock_all()?;
    ensure(answers == [1, 1, 1, 10, 3, 0], || {
        format!("the kernel was answered {answers:?}")
    })?;
    context.meet()?;
    let mut found = [0; 32];
    window.read_local(0, &mut found)?;
    same("what was put", &found, &words(&[17, 11, 12, 13]))?;
    buffer.read(32, &mut found)?;
    same("what was got", &found, &words(&[17, 11, 12, 13]))?;
    context.meet()?;
    free(window)
}

//! The kernels of `cuda/started.cu` on the suite's device: the host executes their commands from a ring.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};
use plugin_api::{HmemInfo, hmem_iface};

use super::started::{free, words, zeroed};
use crate::buffer::{DEVICE, DeviceBuffer};
use crate::case::{Context, Failure, Outcome, ensure, same, say};
use host_stub::device::{Level, MappedRing, Ring, XpuEndpoint};
use host_stub::win::{Proxy, Window};

/// Compiled from `cuda/started.cu`, whose comment has the command.
const PTX: &str = concat!(
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../cuda/started.ptx")),
    "\0"
);
/// Blocks of the kernel of many threads, the threads of each, and the rounds of each thread.
const BLOCKS: u32 = 2;
const THREADS: u32 = 16;
const ROUNDS: usize = 4;

fn done(call: &str, result: CUresult) -> Outcome {
    ensure(result == CUresult::CUDA_SUCCESS, || {
        format!("{call} answered {result:?}")
    })
}

/// The arguments of both kernels: (endpoint of the ring, number of the window in the ring, target), a number whose meaning
/// depends on the kernel, and host memory for the answers.
type Arguments<'a> = ((XpuEndpoint, u32, i32), u64, &'a mut [u64]);

/// A kernel under way, in the device's primary context, which is current as long as this lives.
struct Launched {
    device: i32,
    stream: sys::CUstream,
    module: sys::CUmodule,
}

impl Launched {
    /// Launches a kernel with blocks of `threads` threads.
    fn new(
        device: i32,
        (kernel, blocks, threads): (&CStr, u32, u32),
        ((mut ep, mut window, mut target), mut own, answers): Arguments<'_>,
    ) -> Result<Launched, Failure> {
        let mut context = std::ptr::null_mut();
        let mut launched = Launched {
            device,
            stream: std::ptr::null_mut(),
            module: std::ptr::null_mut(),
        };
        // SAFETY: each pointer receives an answer; the image ends with a 0; the parameters are the
        // kernel's, and their targets outlive the kernel (`finish`).
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
            let name = kernel.as_ptr();
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
                (&raw mut own).cast(),
                (&raw mut at).cast(),
            ];
            done(
                "cuLaunchKernel",
                sys::cuLaunchKernel(
                    function,
                    blocks,
                    1,
                    1,
                    threads,
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

    /// Whether the kernel has ended.
    fn is_over(&self) -> Result<bool, Failure> {
        // SAFETY: the stream was made by `new` and lives.
        match unsafe { sys::cuStreamQuery(self.stream) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => done("cuStreamQuery", result).map(|()| true),
        }
    }

    /// Frees everything, once the kernel has ended.
    fn finish(self, answers: &mut [u64]) -> Outcome {
        let mut before = std::ptr::null_mut();
        // SAFETY: `new` made these objects, and the kernel that used them has ended.
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

/// Runs a kernel to its end, with a ring of 8 slots and `window`, whose epoch it then closes. The target is the next rank.
fn run(
    context: &Context<'_>,
    window: &Arc<Window>,
    kernel: (&CStr, u32, u32),
    own: u64,
    answers: &mut [u64],
) -> Outcome {
    let devices = context.job.devices();
    let device = devices.device(DEVICE)?;
    let next = context.next();
    let ring = Arc::new(Ring::new(8));
    let mapped = MappedRing::new(devices, DEVICE, &ring)?;
    let proxy = Proxy::new(context.job, &ring, Level::DeviceOnBoth)?;
    let number = proxy.add_window(Arc::clone(window))?;
    let known = (mapped.endpoint(), number, next as i32);
    let launched = Launched::new(device.number as i32, kernel, (known, own, answers))?;
    let engine = context.job.runtime().engine();
    while !launched.is_over()? {
        if engine.progress() == 0 {
            std::thread::yield_now();
        }
    }
    launched.finish(answers)?;
    drop(proxy);
    Ok(window.unlock_all()?)
}

/// Whether the suite's device runs kernels.
fn runs_kernels(context: &Context<'_>) -> Result<bool, Failure> {
    let device = context.job.devices().device(DEVICE)?;
    let info = context.job.transport().query_hmem(hmem_iface::CUDA);
    // A simulated device has its own copy functions.
    let real = |info: HmemInfo| info.devices > 0 && info.overrides == HmemInfo::NONE;
    let runs = info.is_some_and(real) && device.starts;
    if !runs {
        say(context, "the suite's device is no CUDA device")?;
    }
    Ok(runs)
}

/// A kernel puts, updates, gets and flushes.
pub(super) fn by_a_kernel(context: &Context<'_>) -> Outcome {
    if !runs_kernels(context)? {
        return Ok(());
    }
    let window = zeroed(context)?;
    let buffer = DeviceBuffer::new(context.job.devices(), 64, 0)?;
    let words = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| w.to_ne_bytes()).collect() };
    buffer.write(0, &words(&[10, 11, 12, 13]))?;
    let mut answers = [u64::MAX; 6];
    let local = buffer.pointer(0)? as u64;
    let kernel = (c"host_stub_started", 1, 1);
    run(context, &window, kernel, local, &mut answers)?;
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

/// Many threads of a kernel, more than the ring has slots, update one word: each value is fetched once. Takes 2 s if two ranks
/// share a GPU: the driver alternates between processes every few milliseconds, and every update of a window on the device
/// copies twice.
pub(super) fn by_many_threads(context: &Context<'_>) -> Outcome {
    if !runs_kernels(context)? {
        return Ok(());
    }
    let window = zeroed(context)?;
    let updates = (BLOCKS * THREADS) as usize * ROUNDS;
    let mut found = vec![u64::MAX; updates];
    let kernel = (c"host_stub_started_by_many", BLOCKS, THREADS);
    run(context, &window, kernel, ROUNDS as u64, &mut found)?;
    let in_turn = |of_thread: &[u64]| of_thread.is_sorted();
    ensure(found.chunks(ROUNDS).all(in_turn), || {
        format!("a thread found values that shrink: {found:?}")
    })?;
    found.sort_unstable();
    ensure(found.iter().copied().eq(0..updates as u64), || {
        format!("the threads found {found:?}")
    })?;
    context.meet()?;
    let sum = words(&window, 1)?;
    ensure(sum == [updates as u64], || {
        format!("{updates} updates came to {sum:?}")
    })?;
    context.meet()?;
    free(window)
}

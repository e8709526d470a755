//! A window on a device: each rank puts from device memory to the next rank's, and adds to a counter
//! there.
//!
//!     cargo build --release -p host-stub-command -p btl-ofi-plugin
//!     cargo build --release -p host-stub --example device_window
//!     target/release/host-stub launch -n 2 --mca host_pretended_devices 1 \
//!         --mca btl_ofi_provider_include shm -- target/release/examples/device_window
//!
//! The device is pretended: its memory faults when it is touched other than by a copy function. With a
//! CUDA device leave the setting out: the host finds it. `Devices::add` adds a device of another kind,
//! `Devices::add_memory` its memory, and `Devices::set_overrides` its copy functions.

use host_stub::device::DeviceBuffer;
use host_stub::win::{Assertion, Datatype, Info, Layout, Op, Window};
use host_stub::{Job, JobOptions};

/// The operand of the sum, alive as long as anything uses it.
static ONE: [u8; 8] = 1u64.to_ne_bytes();

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job = Job::init(JobOptions::default())?;
    let (rank, size) = (job.rank() as usize, job.size() as usize);
    let next = (rank + 1) % size;
    let devices = job.devices();
    let device = 0;
    println!(
        "rank {rank}: device support level {}",
        job.device_support().level
    );

    let window = Window::allocate_with(&job, 4096, 8, &Info::new().with_device(device))?;
    let buffer: Box<dyn DeviceBuffer> = devices.allocate(device, 64)?;

    // The device's result, computed by the host.
    let iface = devices.device(device)?.iface;
    let run = plugin_api::IoVec {
        base: std::ptr::with_exposed_provenance_mut(buffer.base() as usize),
        len: 64,
    };
    let words: Vec<u8> = (0..8)
        .flat_map(|i| (100 * rank as u64 + i).to_ne_bytes())
        .collect();
    // SAFETY: the run is the buffer just allocated.
    unsafe { devices.write(&[run], &[iface], &words) }
        .map_err(|answer| format!("the copy answered {answer}"))?;

    // Device and address in one value, which every call with an address takes.
    let pointer: *const u8 = std::ptr::with_exposed_provenance(buffer.base() as usize);
    let origin: *const u8 =
        std::ptr::with_exposed_provenance(devices.encode_location(pointer, device)? as usize);
    let eight = Layout::contiguous(Datatype::Uint64, 8);
    let one = Layout::contiguous(Datatype::Uint64, 1);
    window.fence(Assertion::empty())?;
    // SAFETY: the buffer lives until after the epoch.
    unsafe {
        let target = eight.at(next, 0);
        window.put(origin, &eight, target)?;
        for to in 0..size {
            let target = one.at(to, 8);
            window.accumulate(ONE.as_ptr(), &one, target, Op::Sum)?;
        }
    }
    window.fence(Assertion::empty())?;

    let mut found = [0; 72];
    window.read_local(0, &mut found)?;
    let found: Vec<u64> = found
        .as_chunks::<8>()
        .0
        .iter()
        .map(|w| u64::from_ne_bytes(*w))
        .collect();
    let before = (rank + size - 1) % size;
    let mut wanted: Vec<u64> = (0..8).map(|i| 100 * before as u64 + i).collect();
    wanted.push(size as u64);
    if found != wanted {
        return Err(format!("rank {rank}: {found:?}, wanted {wanted:?}").into());
    }
    println!("rank {rank}: {found:?}");
    window.free()?;
    job.finalize()?;
    Ok(())
}

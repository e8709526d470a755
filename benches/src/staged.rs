//! Puts from device memory through copies, against the two things they are made of: the copy out of the
//! device and the wire, each alone, turn by turn. A rank of a job:
//!
//! ```text
//! host-stub launch -n 2 --mca btl_ofi_provider_include shm --mca host_pretended_devices 1 \
//!     -- target/release/staged
//! ```
//!
//! Rank 0 measures puts of 4 MiB to rank 1's window in host memory and to its window on the device;
//! rank 1 makes progress. Beside the part of the slower stands the part of copy and wire one after the
//! other, which is what a machine comes to whose processors do both.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use benches::part;
use benches::target::{Bound, Target as Wanted};
use clap::Parser;
use host_stub::win::{Assertion, Datatype, Info, Layout, TableChoice, Target, Window};
use host_stub::{Job, JobOptions};
use plugin_api::IoVec;
use serde::Serialize;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Bytes of a put.
const SIZE: usize = 4 << 20;
const ROUNDS: usize = 101;
/// Part of the slower of copy and wire that puts are to reach.
const OF_THE_SLOWER: f64 = 0.8;
const DEVICE: i32 = 0;

#[derive(Parser)]
#[command(about = "Measure puts from device memory through copies")]
struct Arguments {
    /// Writes the results as JSON.
    #[arg(long)]
    output: Option<PathBuf>,
}

/// What was measured, in GB/s.
#[derive(Serialize)]
struct Rates {
    copy: f64,
    wire: f64,
    device_to_host: f64,
    device_to_device: f64,
}

/// The middle of what was measured, as GB/s.
fn rate(mut times: Vec<Duration>) -> f64 {
    times.sort();
    let middle = times
        .get(times.len() / 2)
        .map_or(1.0, Duration::as_secs_f64);
    SIZE as f64 / middle / 1e9
}

fn main() -> Outcome<()> {
    let arguments = Arguments::parse();
    let job = Job::init(JobOptions::default())?;
    let devices = job.devices();
    let btl = || Info::new().with_table(TableChoice::Btl);
    let host = Window::allocate_with(&job, SIZE + 8, 1, &btl())?;
    let device = Window::allocate_with(&job, SIZE, 1, &btl().with_device(DEVICE))?;
    let buffer = devices.allocate(DEVICE, SIZE)?;
    let iface = [devices.device(DEVICE)?.iface];
    let run = [IoVec {
        base: std::ptr::with_exposed_provenance_mut(buffer.base() as usize),
        len: SIZE,
    }];
    let mut flat = vec![1u8; SIZE];
    let layout = Layout::contiguous(Datatype::Uint8, SIZE);
    let target = Target {
        rank: 1,
        displacement: 0,
        layout: &layout,
    };
    let staged: *const u8 = std::ptr::with_exposed_provenance(buffer.base() as usize);
    // SAFETY: the run is the buffer.
    unsafe { devices.write(&run, &iface, &flat) }.map_err(|n| format!("a copy answered {n}"))?;
    host.lock_all(Assertion::empty())?;
    device.lock_all(Assertion::empty())?;
    job.barrier()?;
    if job.rank() == 0 {
        let (mut copy, mut wire, mut from, mut both) = (vec![], vec![], vec![], vec![]);
        for round in 0..ROUNDS + 5 {
            let note = |times: &mut Vec<Duration>, started: Instant| {
                // The first touch pages and make connections.
                if round >= 5 {
                    times.push(started.elapsed());
                }
            };
            let started = Instant::now();
            // SAFETY: as above.
            unsafe { devices.read(&run, &iface, &mut flat) }
                .map_err(|n| format!("a copy answered {n}"))?;
            note(&mut copy, started);
            let put = |window: &Window, origin: *const u8| {
                // SAFETY: the buffers live until the flush.
                unsafe { window.put(origin, &layout, target) }.and_then(|()| window.flush(1))
            };
            let started = Instant::now();
            put(&host, flat.as_ptr())?;
            note(&mut wire, started);
            let started = Instant::now();
            put(&host, staged)?;
            note(&mut from, started);
            let started = Instant::now();
            put(&device, staged)?;
            note(&mut both, started);
        }
        let (copy, wire, from, both) = (rate(copy), rate(wire), rate(from), rate(both));
        let slower = copy.min(wire);
        let provider = &job.transport().attributes().provider;
        println!("4 MiB over {provider}, GB/s");
        println!("copy out of the device      {copy:6.2}");
        println!("put from host memory        {wire:6.2}");
        // Where copy and wire are both work of one processor, nothing can be faster than what is left
        // when it does one after the other; beyond 1, the rest overlaps.
        let one = 1.0 / (1.0 / copy + 1.0 / wire);
        let two = 1.0 / (2.0 / copy + 1.0 / wire);
        let mut targets = Vec::new();
        for (what, rate, after) in [
            ("put from device to host  ", from, one),
            ("put from device to device", both, two),
        ] {
            println!(
                "{what}   {rate:6.2}  {:.2} of the slower, {:.2} of one after the other",
                rate / slower,
                rate / after
            );
            let what = what.trim_end();
            targets.push(Wanted::new(
                format!("{provider}: 4 MiB {what}, of the slower of copy and wire"),
                Some(rate / slower),
                Bound::Least,
                OF_THE_SLOWER,
                "times",
                None,
            ));
        }
        if let Some(path) = &arguments.output {
            let rates = Rates {
                copy,
                wire,
                device_to_host: from,
                device_to_device: both,
            };
            part::write(path, &targets, &rates)?;
        }
        let (one, last) = (Layout::contiguous(Datatype::Uint8, 1), SIZE as u64);
        let end = Target {
            displacement: last,
            layout: &one,
            ..target
        };
        // SAFETY: the byte is static.
        unsafe { host.put([1u8].as_ptr(), &one, end) }?;
        host.flush(1)?;
    } else {
        // The out-of-band barrier makes progress now and then only.
        let mut over = [0];
        while over == [0] {
            job.transport().progress();
            host.read_local(SIZE, &mut over)?;
        }
    }
    job.barrier()?;
    host.unlock_all()?;
    device.unlock_all()?;
    host.free()?;
    device.free()?;
    Ok(job.finalize()?)
}

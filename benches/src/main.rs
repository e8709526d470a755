//! What the transport adds to libfabric: the same transfers through the plugin's vtable and by raw
//! calls, in the same two processes, turn by turn, so that a machine whose speed drifts slows both.
//!
//! `overhead --provider shm` launches itself as two ranks. Rank 0 measures; rank 1 makes progress
//! for both sides. The table shows medians over rounds and the ratio of the transport to raw;
//! `--output FILE` writes the same as JSON.

mod raw;

use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use host_stub::bootstrap::local::Environment;
use host_stub::job::{Job, JobOptions};
use host_stub::launcher::{LaunchOptions, launch};
use host_stub::loader::{EndpointRef, Transport};
use indicatif::{ProgressBar, ProgressStyle};
use plugin_api::{Access, BtlAtomicOp, Handle, OpFlags, Status, ThreadLevel};
use serde::Serialize;

use raw::{Raw, Target};

/// Largest transfer, and so the size of each buffer.
const LARGEST: usize = 4 << 20;
/// Where rank 1 looks for the word that ends it, behind the data.
const STOP: usize = LARGEST;

#[derive(Parser)]
#[command(about = "Measure what the transport adds to libfabric")]
struct Arguments {
    /// Provider, as `fi_info` prints it.
    #[arg(long, default_value = "shm")]
    provider: String,
    /// Rounds, each measuring both sides once.
    #[arg(long, default_value_t = 21)]
    rounds: usize,
    /// The plugin's file; the one beside this program by default.
    #[arg(long)]
    plugin: Option<PathBuf>,
    /// Writes the results as JSON.
    #[arg(long)]
    output: Option<PathBuf>,
}

/// One line of the table.
#[derive(Serialize)]
struct Row {
    what: String,
    unit: &'static str,
    raw: f64,
    transport: f64,
    /// Median of the rounds' own ratios, transport over raw.
    ratio: f64,
    /// Quarter and three-quarter marks of those.
    spread: (f64, f64),
}

#[derive(Clone, Copy)]
enum Kind {
    Put,
    Get,
    FetchAdd,
}

#[derive(Clone, Copy)]
enum Measure {
    /// One at a time, complete before the next; nanoseconds each.
    Latency,
    /// As many as the provider takes; operations per second.
    Rate,
    /// Sixteen at a time; bytes per second.
    Bandwidth,
}

/// Both sides of one process.
struct Sides {
    transport: Transport,
    peer: EndpointRef,
    handle: Vec<u64>,
    remote: u64,
    raw: Raw,
    target: Target,
    local: *mut u8,
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let result = match Environment::read() {
        Ok(None) => start(&arguments),
        Ok(Some(environment)) => rank(&arguments, environment.rank).map(|()| 0),
        Err(e) => Err(e.to_string()),
    };
    match result {
        Ok(code) => std::process::ExitCode::from(code),
        Err(e) => {
            eprintln!("overhead: {e}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn start(arguments: &Arguments) -> Result<u8, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut options = LaunchOptions::new(2, program);
    options.arguments = std::env::args_os().skip(1).collect();
    let outcome = launch(&options).map_err(|e| e.to_string())?;
    if let Some(failure) = outcome.failure {
        eprintln!("overhead over {}: {failure}", arguments.provider);
    }
    Ok(outcome.code)
}

/// Keeps a rank on one processor, so that the two do not share one while another idles.
fn pin(rank: u32) {
    // SAFETY: a zeroed set is empty; the calls only write and read it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let cores = usize::try_from(libc::sysconf(libc::_SC_NPROCESSORS_ONLN)).unwrap_or(1);
        libc::CPU_SET(rank as usize % cores, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

fn rank(arguments: &Arguments, rank: u32) -> Result<(), String> {
    pin(rank);
    let mut options = JobOptions::default();
    options.plugin = arguments.plugin.clone();
    options.settings = vec![(
        "btl_ofi_provider_include".into(),
        arguments.provider.clone(),
    )];
    // SAFETY: this program has one thread that calls.
    let options = unsafe { options.assume_threads(ThreadLevel::Single) };
    let job = Job::init(options).map_err(|e| e.to_string())?;
    let raw = Raw::open(&arguments.provider)?;

    let buffer = vec![0u64; (LARGEST + 4096) / 8].leak();
    let base = buffer.as_mut_ptr().cast::<u8>();
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let size = LARGEST + 4096;
    // SAFETY: the buffer is never freed, and only peers' puts change it while it is registered.
    let registration =
        unsafe { job.transport().register(base, size, access) }.map_err(|e| e.to_string())?;
    let (address, key) = raw.register(base, size)?;

    let handles = gather(&job, registration.handle_bytes())?;
    let bases = gather(&job, &(base as u64).to_le_bytes())?;
    let names = gather(&job, &raw.name()?)?;
    let keys = gather(&job, &[address.to_le_bytes(), key.to_le_bytes()].concat())?;
    let other = 1 - rank as usize;
    let word = |bytes: &[u8]| {
        <[u8; 8]>::try_from(bytes)
            .map(u64::from_le_bytes)
            .map_err(|e| e.to_string())
    };
    let handle: Vec<u64> = handles[other]
        .chunks_exact(8)
        .map(word)
        .collect::<Result<_, _>>()?;
    let mut sides = Sides {
        transport: job.transport().clone(),
        peer: job.endpoint(other as u32).map_err(|e| e.to_string())?,
        handle,
        remote: word(&bases[other])?,
        target: Target {
            peer: raw.connect(&names[other])?,
            address: word(&keys[other][..8])?,
            key: word(&keys[other][8..])?,
        },
        raw,
        local: base,
    };
    if rank == 0 {
        let rows = measure(arguments, &mut sides);
        sides.stop();
        report(arguments, &job, &rows)?;
    } else {
        serve(&mut sides);
    }
    job.barrier().map_err(|e| e.to_string())?;
    job.finalize().map_err(|e| e.to_string())
}

fn gather(job: &Job, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    job.allgather(bytes).map_err(|e| e.to_string())
}

/// Rank 1: progress for both sides until the word arrives.
fn serve(sides: &mut Sides) {
    // SAFETY: inside the buffer; peers write it, so the read is volatile.
    let stop = || unsafe { sides.local.add(STOP).cast::<u64>().read_volatile() } != 0;
    let mut turns = 0u32;
    while !stop() {
        sides.transport.progress();
        sides.raw.poll();
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(1024) {
            std::thread::yield_now();
        }
    }
}

impl Sides {
    #[inline]
    fn operate(&mut self, kind: Kind, size: usize) {
        loop {
            let none = std::ptr::null_mut();
            let handle = self.handle.as_ptr().cast::<Handle>();
            // SAFETY: the peer is connected, and both buffers live to the end of the process.
            let status = unsafe {
                match kind {
                    Kind::Put => self.transport.put(
                        self.peer,
                        self.local,
                        self.remote,
                        none,
                        handle,
                        size,
                        None,
                        none.cast(),
                        none.cast(),
                    ),
                    Kind::Get => self.transport.get(
                        self.peer,
                        self.local,
                        self.remote,
                        none,
                        handle,
                        size,
                        None,
                        none.cast(),
                        none.cast(),
                    ),
                    Kind::FetchAdd => self.transport.atomic_fop(
                        self.peer,
                        self.local,
                        self.remote,
                        none,
                        handle,
                        BtlAtomicOp::Add,
                        1,
                        OpFlags::empty(),
                        None,
                        none.cast(),
                        none.cast(),
                    ),
                }
            };
            if status == Status::SUCCESS {
                return;
            }
            self.transport.progress();
        }
    }

    fn flush(&self) {
        self.transport.flush(Some(self.peer));
    }

    fn raw_operate(&mut self, kind: Kind, size: usize) {
        match kind {
            Kind::Put => self.raw.put(self.target, self.local, size),
            Kind::Get => self.raw.get(self.target, self.local, size),
            Kind::FetchAdd => self.raw.fetch_add(self.target, self.local),
        }
    }

    /// Ends rank 1.
    fn stop(&mut self) {
        // SAFETY: inside the buffer, which nobody reads now.
        unsafe { self.local.add(STOP).cast::<u64>().write(1) };
        let (local, remote) = (self.local, self.remote);
        // SAFETY: as above.
        self.local = unsafe { local.add(STOP) };
        self.remote = remote + STOP as u64;
        self.operate(Kind::Put, 8);
        self.flush();
        (self.local, self.remote) = (local, remote);
    }
}

/// Runs one side `n` times; seconds.
fn timed(sides: &mut Sides, raw: bool, kind: Kind, measure: Measure, size: usize, n: u32) -> f64 {
    let window = match measure {
        Measure::Latency => 1,
        Measure::Rate => n,
        Measure::Bandwidth => 16,
    };
    let start = Instant::now();
    let mut left = n;
    while left > 0 {
        let batch = window.min(left);
        for _ in 0..batch {
            if raw {
                sides.raw_operate(kind, size);
                if sides.raw.outstanding > 64 {
                    sides.raw.poll();
                }
            } else {
                sides.operate(kind, size);
            }
        }
        if raw {
            sides.raw.drain();
        } else {
            sides.flush();
        }
        left -= batch;
    }
    start.elapsed().as_secs_f64()
}

fn measure(arguments: &Arguments, sides: &mut Sides) -> Vec<Row> {
    let mut plan = Vec::new();
    for kind in [Kind::Put, Kind::Get] {
        plan.push((kind, Measure::Latency, 8));
        plan.push((kind, Measure::Rate, 8));
        for size in [64 << 10, 1 << 20, LARGEST] {
            plan.push((kind, Measure::Bandwidth, size));
        }
    }
    plan.push((Kind::FetchAdd, Measure::Latency, 8));
    plan.push((Kind::FetchAdd, Measure::Rate, 8));
    let bar = ProgressBar::new((plan.len() * arguments.rounds) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let rows = plan
        .into_iter()
        .map(|(kind, what, size)| compare(arguments, sides, kind, what, size, &bar));
    let rows = rows.collect();
    bar.finish_and_clear();
    rows
}

fn compare(
    arguments: &Arguments,
    sides: &mut Sides,
    kind: Kind,
    measure: Measure,
    size: usize,
    bar: &ProgressBar,
) -> Row {
    // About 10 ms a side and round, found with a warm-up.
    let mut n = 16;
    loop {
        let seconds = timed(sides, true, kind, measure, size, n);
        if seconds > 0.005 || n >= 1 << 20 {
            n = ((f64::from(n) * 0.010 / seconds) as u32).clamp(4, 1 << 20);
            break;
        }
        n *= 4;
    }
    timed(sides, false, kind, measure, size, n);
    let figure = |seconds: f64| match measure {
        Measure::Latency => seconds / f64::from(n) * 1e9,
        Measure::Rate => f64::from(n) / seconds,
        Measure::Bandwidth => f64::from(n) * size as f64 / seconds,
    };
    let (mut raw, mut ours, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..arguments.rounds {
        // Who goes first changes, so that neither always finds the caches of the other.
        let raw_first = round % 2 == 0;
        let first = figure(timed(sides, raw_first, kind, measure, size, n));
        let second = figure(timed(sides, !raw_first, kind, measure, size, n));
        let (r, o) = if raw_first {
            (first, second)
        } else {
            (second, first)
        };
        raw.push(r);
        ours.push(o);
        ratios.push(o / r);
        bar.inc(1);
    }
    let name = match kind {
        Kind::Put => "put",
        Kind::Get => "get",
        Kind::FetchAdd => "fetch-add",
    };
    let (what, unit) = match measure {
        Measure::Latency => (format!("{name} {size} B latency"), "ns"),
        Measure::Rate => (format!("{name} {size} B rate"), "1/s"),
        Measure::Bandwidth => (format!("{name} {} KiB bandwidth", size >> 10), "B/s"),
    };
    Row {
        what,
        unit,
        raw: quantile(&mut raw, 0.5),
        transport: quantile(&mut ours, 0.5),
        ratio: quantile(&mut ratios, 0.5),
        spread: (quantile(&mut ratios, 0.25), quantile(&mut ratios, 0.75)),
    }
}

fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * q).round() as usize]
}

fn report(arguments: &Arguments, job: &Job, rows: &[Row]) -> Result<(), String> {
    let attributes = job.transport().attributes();
    println!(
        "provider {}, {}",
        attributes.provider, attributes.completion
    );
    println!(
        "{:<24} {:>14} {:>14} {:>7}  spread",
        "", "raw", "transport", "ratio"
    );
    for r in rows {
        println!(
            "{:<24} {:>14.1} {:>14.1} {:>7.3}  {:.3}..{:.3} {}",
            r.what, r.raw, r.transport, r.ratio, r.spread.0, r.spread.1, r.unit
        );
    }
    if let Some(path) = &arguments.output {
        let json = serde_json::to_vec_pretty(rows).map_err(|e| e.to_string())?;
        std::fs::write(path, json).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

//! Memory of a rank on a node of 256 ranks. Each rank reaches all others: through rings, by messages, through the
//! node's segments, and by mapped memory.
//!
//! The program launches itself as the ranks. Each rank reads its memory while all ranks run. A page that several
//! processes map counts for each process by its share (Pss). Memory of shared segments is allocated before the first
//! touch, so it is read for the whole machine and divided equally among the ranks. The figure is an upper bound for this
//! project: it includes libfabric, the page tables and the buffers of this benchmark.

use std::path::{Path, PathBuf};
use std::time::Instant;

use benches::target::Bound;
use host_stub::comm::Comm;
use host_stub::launcher::{LaunchOptions, launch};
use host_stub::win::{Assertion, Datatype, Info, Layout, Op, TableChoice, Target, Window};
use host_stub::{Job, JobOptions};
use plugin_api::ThreadLevel;
use serde::{Deserialize, Serialize};

use crate::report::Report;

/// Ranks of the node, and of the node of a short run.
const RANKS: u32 = 256;
const FEW: u32 = 64;
/// Mebibytes that a rank may take.
const MOST: f64 = 32.0;
/// Seconds after which a rank is killed, which ends the job.
const PATIENCE: u32 = 300;

/// Bytes of a window that belong to one origin: a word, a longer put, a counter, a vector of sums.
const PLACE: usize = 512;
const LONG: usize = 256;
const COUNTER: usize = 8 + LONG;
const VECTOR: usize = COUNTER + 8;
/// Bytes from each rank to each other in an all-to-all: enough to send a message to each rank and to fill the slots in
/// shared memory.
const BLOCK: usize = 512;

/// The figures of one rank: bytes, and seconds since its start.
#[derive(Serialize, Deserialize)]
struct Figures {
    /// Private memory that the job added.
    private: u64,
    /// The rank's share of the program and of libraries.
    files: u64,
    page_tables: u64,
    /// Shared memory of the whole machine.
    shared: u64,
    joined: f64,
    reached: f64,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Reads a number after a name in a file of the kernel, in kB, as bytes.
fn bytes(path: &str, name: &str) -> Result<u64, String> {
    let content = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let rest = content.lines().find_map(|line| line.strip_prefix(name));
    let number = rest.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(number.ok_or_else(|| format!("{path} has no {name}"))? << 10)
}

/// Bytes of this process's own memory.
fn private() -> Result<u64, String> {
    bytes("/proc/self/smaps_rollup", "Pss_Anon:")
}

/// Bytes of shared memory of this machine.
fn shared() -> Result<u64, String> {
    bytes("/proc/meminfo", "Shmem:")
}

impl Figures {
    fn read(before: u64, joined: f64, start: Instant) -> Result<Figures, String> {
        Ok(Figures {
            private: private()?.saturating_sub(before),
            files: bytes("/proc/self/smaps_rollup", "Pss_File:")?,
            page_tables: bytes("/proc/self/status", "VmPTE:")?,
            shared: shared()?,
            joined,
            reached: start.elapsed().as_secs_f64(),
        })
    }
}

/// Puts to all other ranks of a window, updates their memory, and waits for the completion.
fn reach(window: &Window) -> Result<(), String> {
    let (own, size) = (window.rank(), window.size());
    let value = [own as u64 + 1; LONG / 8];
    let from = value.as_ptr().cast::<u8>();
    let one = 1u64;
    let mut fetched = vec![0u64; size];
    let word = Layout::contiguous(Datatype::Uint64, 1);
    let long = Layout::contiguous(Datatype::Uint64, LONG / 8);
    let vector = Layout::contiguous(Datatype::Uint64, (PLACE - VECTOR) / 8);
    window.lock_all(Assertion::empty()).map_err(text)?;
    for rank in (1..size).map(|further| (own + further) % size) {
        let place = |at: usize| (own * PLACE + at) as u64;
        let target = |at, layout| Target {
            rank,
            displacement: place(at),
            layout,
        };
        let (add, old) = ((&raw const one).cast(), (&raw mut fetched[rank]).cast());
        let (integer, counter) = (Datatype::Uint64, place(COUNTER));
        // SAFETY: all buffers live until the flush, and each result has its own.
        unsafe {
            window.put(from, &word, target(0, &word)).map_err(text)?;
            window.put(from, &long, target(8, &long)).map_err(text)?;
            let updated = window.fetch_and_op(add, old, integer, rank, counter, Op::Sum);
            updated.map_err(text)?;
            let sums = target(VECTOR, &vector);
            let updated = window.accumulate(from, &vector, sums, Op::Sum);
            updated.map_err(text)?;
        }
    }
    window.flush_all().map_err(text)?;
    window.unlock_all().map_err(text)
}

/// Checks that all other ranks have updated this rank's memory.
fn check(window: &Window) -> Result<(), String> {
    let (own, size) = (window.rank(), window.size());
    for origin in (0..size).filter(|rank| *rank != own) {
        let value = origin as u64 + 1;
        let last = [
            (0, value),
            (COUNTER - 8, value),
            (COUNTER, 1),
            (PLACE - 8, value),
        ];
        for (at, wanted) in last {
            let mut word = [0; 8];
            let read = window.read_local(origin * PLACE + at, &mut word);
            read.map_err(text)?;
            let found = u64::from_ne_bytes(word);
            if found != wanted {
                return Err(format!(
                    "rank {origin} left {found} at byte {at} of its place, not {wanted}"
                ));
            }
        }
    }
    Ok(())
}

/// Sends to every rank, by messages and through the memory that the ranks of a node share.
fn exchange(world: &Comm) -> Result<(), String> {
    let from = vec![world.rank() as u8; world.size() * BLOCK];
    let mut into = vec![0u8; from.len()];
    let (from, into) = (from.as_ptr(), into.as_mut_ptr());
    // SAFETY: both buffers have a block for each rank, and live until the request has ended.
    let request = unsafe { world.ialltoall(from, into, BLOCK, Datatype::Uint8) };
    request.map_err(text)?.wait().map_err(text)?;
    // Once for each of a rank's two slots.
    for _ in 0..2 {
        // SAFETY: both buffers have a block for each rank.
        unsafe { world.alltoall(from, into, BLOCK, Datatype::Uint8) }.map_err(text)?;
    }
    Ok(())
}

/// Runs as one rank of the node.
pub(crate) fn rank(provider: &str, output: &Path) -> Result<(), String> {
    // SAFETY: the signal has no handler, so it ends this process in any wait.
    unsafe { libc::alarm(PATIENCE) };
    let start = Instant::now();
    let before = private()?;
    let mut options = JobOptions::default();
    options.settings = vec![
        ("btl_ofi_provider_include".into(), provider.into()),
        ("btl_ofi_same_node".into(), "auto".into()),
        // No warnings: with this many ranks on a processor, each rank is silent for long.
        ("host_verbose".into(), "0".into()),
    ];
    // SAFETY: a rank has one thread that calls.
    let options = unsafe { options.assume_threads(ThreadLevel::Single) };
    let job = Job::init(options).map_err(text)?;
    let joined = start.elapsed().as_secs_f64();

    // Memory of one window is reached through rings and by the kernel; memory of the other is
    // mapped.
    let info = Info::new().with_table(TableChoice::Btl);
    let len = job.size() as usize * PLACE;
    let own = Window::allocate_with(&job, len, 1, &info).map_err(text)?;
    let mapped = Window::allocate_shared(&job, len, 1, &info).map_err(text)?;
    let windows = [own, mapped];
    for window in &windows {
        reach(window)?;
        job.barrier().map_err(text)?;
        check(window)?;
    }
    exchange(&Comm::world(&job).map_err(text)?)?;
    job.barrier().map_err(text)?;
    let figures = Figures::read(before, joined, start)?;
    // No rank leaves before all have read their memory.
    let figures = serde_json::to_vec(&figures).map_err(text)?;
    let all = job.allgather(&figures).map_err(text)?;
    if job.rank() == 0 {
        let all = format!("[{}]", String::from_utf8_lossy(&all.join(&b',')));
        std::fs::write(output, all).map_err(|e| format!("{}: {e}", output.display()))?;
    }
    for window in windows {
        window.free().map_err(text)?;
    }
    job.finalize().map_err(text)
}

/// Launches the ranks; returns the figures of each.
fn launched(provider: &str, ranks: u32, output: PathBuf) -> Result<Vec<Figures>, String> {
    let program = std::env::current_exe().map_err(text)?;
    let mut options = LaunchOptions::new(ranks, program);
    options.arguments = vec![
        "--rank-over".into(),
        provider.into(),
        "--output".into(),
        output.clone().into(),
    ];
    let outcome = launch(&options).map_err(text)?;
    if let Some(failure) = outcome.failure {
        return Err(format!("{ranks} ranks over {provider}: {failure}"));
    }
    let json = std::fs::read(&output).map_err(|e| format!("{}: {e}", output.display()))?;
    std::fs::remove_file(&output).map_err(|e| format!("{}: {e}", output.display()))?;
    serde_json::from_slice(&json).map_err(text)
}

/// Runs a job of `ranks` ranks; returns the greatest and the mean memory of a rank, in mebibytes, and reports
/// its parts.
fn job(report: &mut Report, provider: &str, ranks: u32) -> Result<f64, String> {
    let output = std::env::temp_dir().join(format!("growth-node-{}", std::process::id()));
    let before = shared()?;
    let all = launched(provider, ranks, output)?;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mean = |of: fn(&Figures) -> u64| mib(all.iter().map(of).sum()) / f64::from(ranks);
    let most = |of: fn(&Figures) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let node = most(|f| f.shared as f64) as u64;
    let segments = mib(node.saturating_sub(before)) / f64::from(ranks);
    let greatest = mib(most(|f| (f.private + f.files + f.page_tables) as f64) as u64) + segments;
    report.row(format!(
        "{provider}: {ranks} ranks on one node, all-to-all: {:.1} MiB each, the greatest {greatest:.1}: private {:.1}, \
         shared {segments:.1}, page tables {:.1}, program and libraries {:.2}; joined after {:.1} s, done after {:.1} s",
        mean(|f| f.private + f.files + f.page_tables) + segments,
        mean(|f| f.private),
        mean(|f| f.page_tables),
        mean(|f| f.files),
        most(|f| f.joined),
        most(|f| f.reached),
    ));
    Ok(greatest)
}

/// Measures jobs of two ranks, which show the fixed memory of libfabric, and the node.
pub(crate) fn measure(report: &mut Report, short: bool) -> Result<(), String> {
    for provider in ["tcp;ofi_rxm", "shm"] {
        job(report, provider, 2)?;
    }
    if short {
        return job(report, "shm", FEW).map(drop);
    }
    let greatest = job(report, "shm", RANKS)?;
    report.target(
        format!("shm: memory of a rank of {RANKS} on one node, all-to-all, libfabric's included, the greatest"),
        greatest,
        Bound::Most,
        MOST,
        "MiB",
        None,
    );
    Ok(())
}

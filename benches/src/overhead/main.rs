//! The time that the transport adds to libfabric: the same transfers through the plugin's vtable, through a window of the host
//! over that transport, and by raw calls, in the same two processes, turn by turn, so that a machine whose speed drifts slows
//! all of them.
//!
//! `overhead --provider shm` launches itself as two ranks. Rank 0 measures; rank 1 makes progress
//! for all sides. The table shows medians over rounds and the ratios to raw; `--output FILE` writes
//! the same as JSON.

mod first;
mod measure;
mod raw;
mod sides;

use std::os::fd::AsFd;
use std::path::PathBuf;

use benches::{ranks, shared};
use clap::Parser;
use host_stub::job::Job;
use host_stub::win::{Assertion, Info, TableChoice, Window};
use plugin_api::{Access, AtomicKind, AtomicOp, Datatype};

use first::{First, Stranger};
use raw::{Raw, Target};
use sides::Sides;

/// The largest transfer, which is the size of each buffer.
const LARGEST: usize = 4 << 20;
/// The place behind the data where rank 1 looks for the word that ends it.
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
    /// Measures only sizes with targets.
    #[arg(long)]
    short: bool,
    /// Measures only rows whose names contain this text, such as `put 65536 B bandwidth`; all by
    /// default.
    #[arg(long, default_value = "")]
    only: String,
    /// Registers memory of a file, which local peers map.
    #[arg(long)]
    shared: bool,
    /// Measures only the first put of both sides, which makes the connection, with this side first.
    #[arg(long, value_enum)]
    first: Option<First>,
    /// The plugin's file; the one beside this program by default.
    #[arg(long)]
    plugin: Option<PathBuf>,
    /// Writes the results as JSON.
    #[arg(long)]
    output: Option<PathBuf>,
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    ranks::run("overhead", &arguments.provider, 2, |number| {
        rank(&arguments, number)
    })
}

fn rank(arguments: &Arguments, rank: u32) -> Result<(), String> {
    ranks::pin(rank);
    let job = ranks::job(&arguments.provider, arguments.plugin.clone())?;
    let mut raw = Raw::open(&arguments.provider)?;

    let size = LARGEST + 4096;
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let (base, registration) = if arguments.shared {
        let (base, file) = shared::leak(size).map_err(|e| e.to_string())?;
        let place = (file.as_fd(), 0);
        // SAFETY: the file stays mapped from its first byte on, and only peers' puts change it while it is registered.
        let made = unsafe { job.transport().register_shared(base, size, access, place) };
        (base, made)
    } else {
        let base = vec![0u64; size / 8].leak().as_mut_ptr().cast();
        // SAFETY: the buffer is never freed, and only peers' puts change it while it is registered.
        (base, unsafe {
            job.transport().register(base, size, access)
        })
    };
    let registration = registration.map_err(|e| e.to_string())?;
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
    if let Some(first) = arguments.first {
        let stranger = Stranger {
            rank: other as u32,
            name: names[other].clone(),
            address: word(&keys[other][..8])?,
            key: word(&keys[other][8..])?,
            handle,
            remote: word(&bases[other])?,
        };
        first::run(first, &job, &mut raw, &stranger, base)?;
        job.barrier().map_err(|e| e.to_string())?;
        return job.finalize().map_err(|e| e.to_string());
    }
    let words = (
        raw.most_words()?,
        job.transport()
            .atomic_query(Datatype::Uint64, AtomicOp::Sum, AtomicKind::Update)
            .ok_or("the transport has no atomic sum")?,
    );
    let info = Info::new().with_table(TableChoice::Btl);
    let window = match arguments.shared {
        true => Window::allocate_shared(&job, LARGEST, 1, &info),
        false => Window::allocate_with(&job, LARGEST, 1, &info),
    };
    let window = window.map_err(|e| e.to_string())?;
    let mut sides = Sides {
        window,
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
        operands: vec![0; LARGEST / 8].leak(),
        words,
    };
    if rank == 0 {
        let all = sides.window.lock_all(Assertion::empty());
        all.map_err(|e| e.to_string())?;
        let rows = measure::measure(arguments, &mut sides);
        sides.window.unlock_all().map_err(|e| e.to_string())?;
        sides.stop()?;
        measure::report(arguments, &job, &rows?)?;
    } else {
        serve(&mut sides)?;
    }
    sides.window.free().map_err(|e| e.to_string())?;
    job.barrier().map_err(|e| e.to_string())?;
    job.finalize().map_err(|e| e.to_string())
}

fn gather(job: &Job, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    job.allgather(bytes).map_err(|e| e.to_string())
}

/// Rank 1: progress for both sides until the word arrives.
fn serve(sides: &mut Sides) -> Result<(), String> {
    // SAFETY: the word is inside the buffer; peers write it, so the read is volatile.
    let stop = || unsafe { sides.local.add(STOP).cast::<u64>().read_volatile() } != 0;
    let mut turns = 0u32;
    while !stop() {
        sides.transport.progress();
        sides.raw.poll()?;
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(1024) {
            std::thread::yield_now();
        }
    }
    Ok(())
}

//! What windows cost: the table of windows in one segment against the bare memory, and the table
//! over the transport against the transport's own functions, in one run, turn by turn.
//!
//! `tables --provider shm` launches itself as two ranks. Rank 0 measures; rank 1 makes progress.
//! Each line holds medians over rounds and the median of the rounds' own ratios, so that a machine
//! whose speed drifts slows both sides. Below, the instructions of one call each, counted by single
//! steps, which no other load disturbs.

mod count;
mod direct;
mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use benches::ranks;
use clap::Parser;
use host_stub::job::Job;
use host_stub::win::{
    Assertion, Datatype, Info, Layout, Op, TableChoice, Target, WinError, Window,
};

use direct::Direct;
use report::Report;

/// Bytes of a large transfer, and of each rank's memory.
const LARGE: usize = 1 << 20;
/// Calls measured at once.
const CALLS: usize = 2000;
/// Large transfers measured at once.
const LARGE_CALLS: usize = 16;

#[derive(Parser)]
#[command(about = "Measure what windows cost")]
struct Arguments {
    /// Provider, as `fi_info` prints it.
    #[arg(long, default_value = "shm")]
    provider: String,
    /// Rounds, each measuring everything once.
    #[arg(long, default_value_t = 31)]
    rounds: usize,
    /// The plugin's file; the one beside this program by default.
    #[arg(long)]
    plugin: Option<PathBuf>,
    /// Writes the results as JSON.
    #[arg(long)]
    output: Option<PathBuf>,
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    ranks::run("tables", &arguments.provider, 2, |number| {
        rank(&arguments, number)
    })
}

fn rank(arguments: &Arguments, rank: u32) -> Result<(), String> {
    ranks::pin(rank);
    let job = ranks::job(&arguments.provider, arguments.plugin.clone())?;
    let shm = window(&job, TableChoice::Shm)?;
    let btl = window(&job, TableChoice::Btl)?;
    let direct = Direct::open(&job, LARGE)?;
    let all = [&shm, &btl];
    if rank == 0 {
        for window in all {
            window.lock_all(Assertion::empty()).map_err(text)?;
        }
        let report = measure(arguments, &shm, &btl, &direct);
        let one = 1u64.to_ne_bytes();
        put(&shm, one.as_ptr(), STOP, 8)?;
        for window in all {
            window.unlock_all().map_err(text)?;
        }
        report?.print(&job, arguments.output.as_deref())?;
    } else {
        let mut stop = [0; 8];
        while stop == [0; 8] {
            for _ in 0..256 {
                job.transport().progress();
            }
            std::thread::yield_now();
            shm.read_local(STOP as usize, &mut stop).map_err(text)?;
        }
    }
    job.barrier().map_err(|e| e.to_string())?;
    drop(direct);
    for window in [shm, btl] {
        window.free().map_err(|e| e.to_string())?;
    }
    job.finalize().map_err(|e| e.to_string())
}

/// Where rank 1 looks for the word that ends it, behind the data.
const STOP: u64 = LARGE as u64;

fn window(job: &Arc<Job>, table: TableChoice) -> Result<Window, String> {
    let info = Info::new().with_table(table);
    Window::allocate_with(job, LARGE + 64, 1, &info).map_err(text)
}

fn text(error: WinError) -> String {
    error.to_string()
}

/// Nanoseconds of each of a number of calls.
fn time(calls: usize, mut call: impl FnMut() -> Result<(), String>) -> Result<f64, String> {
    let started = Instant::now();
    for _ in 0..calls {
        call()?;
    }
    Ok(started.elapsed().as_nanos() as f64 / calls as f64)
}

#[inline(always)]
fn put(window: &Window, origin: *const u8, displacement: u64, len: usize) -> Result<(), String> {
    let layout = Layout::contiguous(Datatype::Uint8, len);
    let target = Target {
        rank: 1,
        displacement,
        layout: &layout,
    };
    // SAFETY: callers pass buffers of that length, which live to the end of the process's loops.
    unsafe { window.put(origin, &layout, target) }.map_err(text)
}

#[inline(always)]
fn get(window: &Window, into: *mut u8, len: usize) -> Result<(), String> {
    let layout = Layout::contiguous(Datatype::Uint8, len);
    let target = Target {
        rank: 1,
        displacement: 0,
        layout: &layout,
    };
    // SAFETY: as in `put`.
    unsafe { window.get(into, &layout, target) }.map_err(text)
}

#[inline(always)]
fn fetch_add(window: &Window, operand: *const u8, result: *mut u8) -> Result<(), String> {
    // SAFETY: as in `put`.
    unsafe { window.fetch_and_op(operand, result, Datatype::Int64, 1, 64, Op::Sum) }.map_err(text)
}

#[inline(always)]
fn accumulate(window: &Window, operand: *const u8) -> Result<(), String> {
    let layout = Layout::contiguous(Datatype::Int64, 1);
    let target = Target {
        rank: 1,
        displacement: 64,
        layout: &layout,
    };
    // SAFETY: as in `put`.
    unsafe { window.accumulate(operand, &layout, target, Op::Sum) }.map_err(text)
}

#[inline(always)]
fn compare_swap(window: &Window, words: [*mut u8; 3]) -> Result<(), String> {
    let [origin, compare, result] = words;
    // SAFETY: as in `put`.
    unsafe { window.compare_and_swap(origin, compare, result, Datatype::Int64, 1, 64) }
        .map_err(text)
}

fn flush(window: &Window) -> Result<(), String> {
    window.flush(1).map_err(text)
}

/// A name and what measures it.
type Measured<'a> = (&'static str, &'a mut dyn FnMut() -> Result<f64, String>);

/// Measures two things one after the other, in an order that changes from round to round.
fn in_turn<'a>(
    swap: bool,
    add: &mut impl FnMut(&'static str, f64),
    a: Measured<'a>,
    b: Measured<'a>,
) -> Result<(), String> {
    let (first, second) = if swap { (b, a) } else { (a, b) };
    for (what, measure) in [first, second] {
        add(what, measure()?);
    }
    Ok(())
}

fn measure(
    arguments: &Arguments,
    shm: &Window,
    btl: &Window,
    direct: &Direct,
) -> Result<Report, String> {
    let mut origin = vec![1u64; LARGE / 8];
    let mut result = [0u64; 8];
    let from = origin.as_mut_ptr().cast::<u8>();
    let into = result.as_mut_ptr().cast::<u8>();
    let there = shm.shared_query(Some(1)).map_err(text)?.base;
    let mut report = Report::default();
    for round in 0..arguments.rounds + 1 {
        // The first round warms caches, page tables and pools.
        let kept = round > 0;
        let mut add = |what, nanoseconds| report.add(what, nanoseconds, kept);

        add("shm put 8 B", time(CALLS, || put(shm, from, 0, 8))?);
        add("shm get 8 B", time(CALLS, || get(shm, into, 8))?);
        add(
            "shm fetch-add 8 B",
            time(CALLS, || fetch_add(shm, from, into))?,
        );
        add("shm accumulate 8 B", time(CALLS, || accumulate(shm, from))?);
        add(
            "shm compare-swap 8 B",
            time(CALLS, || compare_swap(shm, [from, from, into]))?,
        );
        add(
            "shm put 8 B and flush",
            time(CALLS, || {
                put(shm, from, 0, 8)?;
                flush(shm)
            })?,
        );
        add(
            "bare fetch-add 8 B",
            time(CALLS, || {
                // SAFETY: an aligned word of rank 1's part of the segment.
                let word = unsafe { std::sync::atomic::AtomicU64::from_ptr(there.add(64).cast()) };
                word.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
                Ok(())
            })?,
        );

        let swap = round % 2 == 0;
        let large = |call: &dyn Fn() -> Result<(), String>| {
            // Caches hold what the last measurement left.
            call()?;
            time(LARGE_CALLS, call)
        };
        in_turn(
            swap,
            &mut add,
            ("shm put 1 MiB", &mut || large(&|| put(shm, from, 0, LARGE))),
            ("memcpy 1 MiB", &mut || {
                large(&|| {
                    // SAFETY: both hold as much, and are not the same memory.
                    unsafe { libc::memcpy(there.cast(), from.cast(), LARGE) };
                    Ok(())
                })
            }),
        )?;
        in_turn(
            swap,
            &mut add,
            ("btl put 8 B and flush", &mut || {
                time(CALLS, || {
                    put(btl, from, 0, 8)?;
                    flush(btl)
                })
            }),
            ("vtable put 8 B and flush", &mut || {
                time(CALLS, || {
                    direct.put(from, 8)?;
                    direct.flush()
                })
            }),
        )?;
        in_turn(
            swap,
            &mut add,
            ("btl 64 puts 8 B and flush", &mut || {
                time(CALLS / 64, || {
                    for _ in 0..64 {
                        put(btl, from, 0, 8)?;
                    }
                    flush(btl)
                })
            }),
            ("vtable 64 puts 8 B and flush", &mut || {
                time(CALLS / 64, || {
                    for _ in 0..64 {
                        direct.put(from, 8)?;
                    }
                    direct.flush()
                })
            }),
        )?;
        in_turn(
            swap,
            &mut add,
            ("btl get 8 B and flush", &mut || {
                time(CALLS, || {
                    get(btl, into, 8)?;
                    flush(btl)
                })
            }),
            ("vtable get 8 B and flush", &mut || {
                time(CALLS, || {
                    direct.get(into, 8)?;
                    direct.flush()
                })
            }),
        )?;
        in_turn(
            swap,
            &mut add,
            ("btl fetch-add 8 B and flush", &mut || {
                time(CALLS / 8, || {
                    fetch_add(btl, from, into)?;
                    flush(btl)
                })
            }),
            ("vtable fetch-add 8 B and flush", &mut || {
                time(CALLS / 8, || {
                    direct.fetch_add(from, into)?;
                    direct.flush()
                })
            }),
        )?;
    }
    report.ratio("shm put 1 MiB", "memcpy 1 MiB");
    report.ratio("shm fetch-add 8 B", "bare fetch-add 8 B");
    report.ratio("btl put 8 B and flush", "vtable put 8 B and flush");
    report.ratio("btl 64 puts 8 B and flush", "vtable 64 puts 8 B and flush");
    report.ratio("btl get 8 B and flush", "vtable get 8 B and flush");
    report.ratio(
        "btl fetch-add 8 B and flush",
        "vtable fetch-add 8 B and flush",
    );

    report.count("shm put 8 B", count::steps(|| put(shm, from, 0, 8)));
    report.count("shm get 8 B", count::steps(|| get(shm, into, 8)));
    report.count(
        "shm fetch-add 8 B",
        count::steps(|| fetch_add(shm, from, into)),
    );
    report.count("shm accumulate 8 B", count::steps(|| accumulate(shm, from)));
    report.count(
        "shm compare-swap 8 B",
        count::steps(|| compare_swap(shm, [from, from, into])),
    );
    report.count("shm flush", count::steps(|| flush(shm)));
    report.count("btl put 8 B", count::steps(|| put(btl, from, 0, 8)));
    report.count("vtable put 8 B", count::steps(|| direct.put(from, 8)));
    report.count("btl flush", count::steps(|| flush(btl)));
    report.count("vtable flush", count::steps(|| direct.flush()));
    report.count("nothing", count::steps(|| Ok(())));
    Ok(report)
}

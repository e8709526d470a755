//! What waiting costs: conditions beside bare futexes, 64 waits of 1 ms on one thread, one after the other
//! and at once, with and without a progress thread, and one outstanding request in each mode.
//!
//! Sides are measured turn by turn, so that a machine whose speed drifts slows all; the table shows
//! medians, and for ratios medians of each turn's own. Since the mode is a process's, the program runs
//! itself once for each mode and turn. The waits are of requests over the C plugin of the tests, whose
//! `CMA_DELAY_US` makes each take as long as wanted; `--plugin` names its file.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use benches::part;
use benches::statistics::{Figure, median};
use benches::target::{Bound, Target as Wanted};
use clap::Parser;
use host_stub::crt::{CAN_YIELD, Cond, Hooks, set_hooks, signal, wait};
use host_stub::win::{Assertion, Datatype, Info, Layout, Request, TableChoice, Target, Window};
use host_stub::{Job, JobOptions};

#[derive(Parser)]
#[command(about = "Measure what waiting costs, in each mode of OMP_EXTERNAL")]
struct Arguments {
    /// The C plugin of the tests.
    #[arg(long)]
    plugin: PathBuf,
    /// Rounds, each measuring both sides once.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Writes what is to be reached, and whether it was, as JSON.
    #[arg(long)]
    output: Option<PathBuf>,
    /// What this process measures, for the one that started it.
    #[arg(long, hide = true)]
    part: Option<Part>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Part {
    /// Prints milliseconds of [`TASKS`] waits in series, and at once.
    Tasks,
    /// Prints nanoseconds of one outstanding request, and pages more after all of them.
    One,
    /// Prints nanoseconds from signal to wake inside of a job, and of a bare futex wake.
    Wake,
}

type Failure = Box<dyn std::error::Error>;

/// Wakes by bare futexes: a word that is 1 when its owner may go on.
fn futex_wait(word: &AtomicU32) {
    while word.swap(0, Ordering::Acquire) == 0 {
        // SAFETY: the word is live; the call writes nothing.
        unsafe {
            let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            let none = std::ptr::null::<libc::timespec>();
            libc::syscall(libc::SYS_futex, word.as_ptr(), op, 0, none);
        }
    }
}

fn futex_wake(word: &AtomicU32) {
    word.store(1, Ordering::Release);
    // SAFETY: as above.
    unsafe {
        let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, word.as_ptr(), op, 1);
    }
}

// Each condition has one waiter and one signaller here, so neither refuses.
fn wait_for(cond: &Cond) {
    let _ = wait(cond);
}

fn wake(cond: &Cond) {
    let _ = signal(cond);
}

/// Nanoseconds of one hand-over between two threads.
fn ping_pong<T: Sync>(pair: &[T; 2], wait: impl Fn(&T) + Sync, wake: impl Fn(&T) + Sync) -> f64 {
    const TURNS: u32 = 4000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..TURNS {
                wait(&pair[0]);
                wake(&pair[1]);
            }
        });
        let start = Instant::now();
        for _ in 0..TURNS {
            wake(&pair[0]);
            wait(&pair[1]);
        }
        start.elapsed().as_nanos() as f64 / f64::from(2 * TURNS)
    })
}

/// Nanoseconds of a hand-over by conditions, and by bare futexes.
fn hand_overs() -> (f64, f64) {
    let conds = [Cond::new(), Cond::new()];
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let cond = ping_pong(&conds, wait_for, wake);
    (cond, ping_pong(&words, futex_wait, futex_wake))
}

/// Nanoseconds of a wait whose signal came before.
fn signalled() -> f64 {
    const COUNT: usize = 4096;
    let conds: Vec<Cond> = (0..COUNT).map(|_| Cond::new()).collect();
    let mut best = f64::MAX;
    for _ in 0..20 {
        for cond in &conds {
            let _ = signal(cond);
        }
        let start = Instant::now();
        for cond in &conds {
            let _ = std::hint::black_box(wait(cond));
        }
        best = best.min(start.elapsed().as_nanos() as f64 / COUNT as f64);
    }
    best
}

fn get<'w>(window: &'w Window, into: &mut u64) -> Result<Request<'w>, Failure> {
    let row = Layout::contiguous(Datatype::Uint64, 1);
    let target = Target {
        rank: 0,
        displacement: 0,
        layout: &row,
    };
    // SAFETY: the callers keep the word until the request has ended.
    Ok(unsafe { window.rget(std::ptr::from_mut(into).cast(), &row, target) }?)
}

const TASKS: usize = 64;

/// One thread that waits for each request before it issues the next.
fn in_series(window: &Window) -> Result<Duration, Failure> {
    let start = Instant::now();
    for _ in 0..TASKS {
        let mut word = 0;
        get(window, &mut word)?.wait()?;
    }
    Ok(start.elapsed())
}

/// The same gets at once, and one wait for all.
fn at_once(window: &Window) -> Result<Duration, Failure> {
    let mut words = [0; TASKS];
    let start = Instant::now();
    let requests: Vec<_> = words
        .iter_mut()
        .map(|word| get(window, word))
        .collect::<Result<_, _>>()?;
    Request::wait_all(requests)?;
    Ok(start.elapsed())
}

/// Resident pages of this process.
fn resident() -> u64 {
    std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse().ok())
        .unwrap_or(0)
}

/// Hooks of a tasking runtime in which no task runs: without any, task mode is not provided.
fn lend_hooks() -> Result<(), Failure> {
    unsafe extern "C" fn running() -> *mut c_void {
        std::ptr::null_mut()
    }
    unsafe extern "C" fn yield_now() {}
    let hooks = Hooks {
        claims: CAN_YIELD,
        running: Some(running),
        yield_now: Some(yield_now),
        ..Hooks::default()
    };
    // SAFETY: the functions are this program's, and there is no task to do anything to.
    Ok(unsafe { set_hooks(Some(&hooks)) }?)
}

/// Waits of one part, over a window of this process alone.
fn measure(plugin: PathBuf, part: Part) -> Result<(), Failure> {
    const WAITS: u32 = 1_000_000;
    lend_hooks()?;
    // SAFETY: the user names it on the command line, and trusts it as this program.
    let options = unsafe { JobOptions::default().plugin(plugin) };
    let job = Job::init(options)?;
    let info = Info::new().with_table(TableChoice::Btl);
    let window = Window::allocate_with(&job, 8, 8, &info)?;
    window.lock_all(Assertion::empty())?;
    match part {
        Part::Tasks => {
            let (series, tasks) = (in_series(&window)?, at_once(&window)?);
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            println!("{} {}", ms(series), ms(tasks));
        }
        Part::One => {
            let mut word = 0;
            for _ in 0..1000 {
                get(&window, &mut word)?.wait()?;
            }
            let before = resident();
            let start = Instant::now();
            for _ in 0..WAITS {
                get(&window, &mut word)?.wait()?;
            }
            let each = start.elapsed().as_nanos() as f64 / f64::from(WAITS);
            println!("{each} {}", resident().saturating_sub(before));
        }
        Part::Wake => {
            let (cond, futex) = hand_overs();
            println!("{cond} {futex}");
        }
    }
    window.unlock_all()?;
    window.free()?;
    job.finalize()?;
    Ok(())
}

/// The two numbers of a part, measured by a process in a mode, with a progress thread (1), without
/// (0), or as the mode has it (-1).
fn part(plugin: &Path, part: &str, mode: &str, keeper: &str) -> Result<[f64; 2], Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("--plugin")
        .arg(plugin)
        .args(["--part", part])
        .env("OMP_EXTERNAL", mode)
        .env("OMPI_MCA_host_progress_thread", keeper);
    if part == "tasks" {
        command.env("CMA_DELAY_US", "1000");
    }
    let output = command.output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = printed
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    match numbers.as_slice() {
        [first, second] if output.status.success() => Ok([*first, *second]),
        _ => Err(format!(
            "{part} in {mode} mode: {}; printed {printed:?} and {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
        .into()),
    }
}

fn row(what: &str, value: String, target: &str) {
    println!("{what:<66}{value:>14}  {target}");
}

/// Shows a value that is to be at most so much, and keeps it.
fn judge(targets: &mut Vec<Wanted>, what: &str, values: Vec<f64>, most: f64, unit: &str) {
    let figure = Figure::of(values);
    let value = format!("{:.3} {unit}", figure.median);
    row(what, value, &format!("at most {most} {unit}"));
    let spread = Some(figure.spread());
    targets.push(Wanted::new(
        what.into(),
        Some(figure.median),
        Bound::Most,
        most,
        unit,
        spread,
    ));
}

fn conditions(rounds: usize, targets: &mut Vec<Wanted>) {
    let (mut ours, mut bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (cond, futex) = hand_overs();
        ours.push(cond);
        bare.push(futex);
        ratios.push(cond / futex);
    }
    row("signal to wake", format!("{:.0} ns", median(ours)), "");
    row("bare futex wake", format!("{:.0} ns", median(bare)), "");
    let over = "signal to wake over a bare futex wake";
    judge(targets, over, ratios, 1.2, "times");
    let before = "wait for a signal that came before";
    judge(targets, before, vec![signalled()], 20.0, "ns");
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let plugin = arguments.plugin.as_path();
    if let Some(part) = arguments.part {
        return measure(arguments.plugin, part);
    }
    let mut targets = Vec::new();
    conditions(arguments.rounds, &mut targets);
    for (keeper, with) in [("0", "without"), ("1", "with")] {
        let (mut series, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..arguments.rounds {
            series.push(part(plugin, "tasks", "thread", keeper)?[0]);
            tasks.push(part(plugin, "tasks", "task", keeper)?[1]);
        }
        row(
            &format!("{TASKS} waits of 1 ms in thread mode, {with} a progress thread"),
            format!("{:.2} ms", median(series)),
            "in series",
        );
        let what = format!("{TASKS} waits of 1 ms in task mode, {with} a progress thread");
        judge(&mut targets, &what, tasks, 1.2, "ms");
    }
    for (keeper, with) in [("0", "without"), ("1", "with")] {
        let (mut ours, mut ratios) = (Vec::new(), Vec::new());
        for _ in 0..arguments.rounds {
            let [cond, futex] = part(plugin, "wake", "thread", keeper)?;
            ours.push(cond);
            ratios.push(cond / futex);
        }
        let what = format!("signal to wake in a job, {with} a progress thread");
        row(&what, format!("{:.0} ns", median(ours)), "");
        let what = format!("the same over a bare futex wake, {with} a progress thread");
        row(&what, format!("{:.2} times", median(ratios)), "");
    }
    let modes = ["master", "thread", "task"];
    let mut times: [Vec<f64>; 3] = Default::default();
    let mut pages = 0.0f64;
    for _ in 0..arguments.rounds {
        for (mode, times) in modes.iter().zip(&mut times) {
            let [each, more] = part(plugin, "one", mode, "-1")?;
            times.push(each);
            pages = pages.max(more);
        }
    }
    let over =
        |mode: &[f64]| -> Vec<f64> { mode.iter().zip(&times[0]).map(|(a, b)| a / b).collect() };
    let ratios = [over(&times[1]), over(&times[2])];
    for (mode, times) in modes.iter().zip(times) {
        let what = format!("one outstanding request, {mode} mode");
        row(&what, format!("{:.0} ns", median(times)), "");
    }
    for (mode, ratio) in modes[1..].iter().zip(ratios) {
        let what = format!("one outstanding request, {mode} over master mode");
        judge(&mut targets, &what, ratio, 1.05, "times");
    }
    let what = "pages more after 1,000,000 waits, the most in any mode";
    judge(&mut targets, what, vec![pages], 0.0, "pages");
    if let Some(path) = &arguments.output {
        part::write(path, &targets, &())?;
    }
    Ok(())
}

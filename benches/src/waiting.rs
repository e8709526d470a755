//! What waiting costs: conditions beside bare futexes, and 64 waits of 1 ms on one thread by threads and
//! by tasks.
//!
//! Each pair is measured turn by turn in this one process, so that a machine whose speed drifts slows
//! both; the table shows medians. The waits are of requests over the C plugin of the tests, whose
//! `CMA_DELAY_US` makes each take as long as wanted; `--plugin` names its file.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use benches::statistics::median;
use clap::Parser;
use host_stub::crt::{Cond, signal, wait};
use host_stub::win::{Assertion, Datatype, Info, Layout, Request, TableChoice, Target, Window};
use host_stub::{Job, JobOptions};

#[derive(Parser)]
#[command(about = "Measure what waiting costs, in the mode of OMP_EXTERNAL")]
struct Arguments {
    /// The C plugin of the tests.
    #[arg(long)]
    plugin: PathBuf,
    /// Rounds, each measuring both sides once.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
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

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
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

/// The same waits by tasks of one thread.
fn by_tasks(window: &Window) -> Result<Duration, Failure> {
    type Task<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>>;
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let start = Instant::now();
    let mut tasks: Vec<Task<'_>> = (0..TASKS)
        .map(|_| {
            Box::pin(async {
                let mut word = 0;
                Ok(get(window, &mut word)?.await?)
            }) as Task<'_>
        })
        .collect();
    while !tasks.is_empty() {
        let mut open = Vec::with_capacity(tasks.len());
        for mut task in tasks {
            match task.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(outcome) => outcome?,
                Poll::Pending => open.push(task),
            }
        }
        tasks = open;
        if !tasks.is_empty() {
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
    Ok(start.elapsed())
}

/// Resident pages of this process.
fn resident() -> u64 {
    std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse().ok())
        .unwrap_or(0)
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let conds = [Cond::new(), Cond::new()];
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let (mut ours, mut bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        let cond = ping_pong(&conds, wait_for, wake);
        let futex = ping_pong(&words, futex_wait, futex_wake);
        ours.push(cond);
        bare.push(futex);
        ratios.push(cond / futex);
    }
    println!(
        "signal to wake: {:.0} ns, bare futex {:.0} ns, ratio {:.2}",
        median(ours),
        median(bare),
        median(ratios)
    );
    println!("wait for a signal that came before: {:.1} ns", signalled());

    let mut options = JobOptions::default();
    options.plugin = Some(arguments.plugin);
    let job = Job::init(options)?;
    let info = Info::new().with_table(TableChoice::Btl);
    let window = Window::allocate_with(&job, 8, 8, &info)?;
    window.lock_all(Assertion::empty())?;
    println!("mode: {}", job.runtime().mode().name());
    if std::env::var_os("CMA_DELAY_US").is_some() {
        let (series, tasks) = (in_series(&window)?, by_tasks(&window)?);
        println!(
            "{TASKS} waits on one thread, one after the other: {series:.2?}; by tasks: {tasks:.2?}"
        );
    } else {
        const WAITS: u32 = 1_000_000;
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
        let pages = resident().saturating_sub(before);
        println!("one outstanding request: {each:.0} ns; {pages} pages more after {WAITS} waits");
    }
    window.unlock_all()?;
    window.free()?;
    job.finalize()?;
    Ok(())
}

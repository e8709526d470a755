//! The work of each rank of a run: epochs of one kind without end, until a call fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host_stub::win::{Assertion, Datatype, Info, Layout, LockKind, Op, Window};
use host_stub::{Comm, Job, JobOptions};
use integration_tests::random::Random;
use integration_tests::usage;

use crate::ATTENDED;
use crate::run::{FATE, KIND, SEED};

type Failed = Box<dyn std::error::Error>;

/// The size of a rank's window in bytes; large enough for transfers that providers divide into
/// fragments.
const SIZE: usize = 1 << 17;
/// The number of steps within which a rank may signal itself.
const STEPS: u64 = 40;
/// The number of microseconds within which a rank may be signalled.
const DELAY: u64 = 60_000;

/// Microseconds of a clock that all processes share.
pub(crate) fn clock() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// Prints one whole line in one write, because another thread or a signal may end the process right
/// after it.
fn say(text: &str) {
    let line = format!("@{text}\n");
    // SAFETY: the bytes are readable; standard output is the launcher's pipe.
    unsafe { libc::write(1, line.as_ptr().cast(), line.len()) };
}

/// The signal and its time that the seed selects for this run.
struct End {
    signal: i32,
    /// The step before which the rank signals itself; `None` if a thread does, at any time.
    step: Option<u64>,
    delay: Duration,
}

impl End {
    fn of(seed: u64, fate: &str) -> (u64, End) {
        let mut random = Random::from_seed(seed);
        let victim = random.word();
        let signal = if fate == "Killed" {
            libc::SIGKILL
        } else {
            libc::SIGSTOP
        };
        let inside = random.word().is_multiple_of(2);
        let end = End {
            signal,
            step: (!inside).then(|| random.word() % STEPS),
            delay: Duration::from_micros(random.word() % DELAY),
        };
        (victim, end)
    }

    fn strike(&self) {
        say(&format!("signal {}", clock()));
        // SAFETY: the signal goes to this process.
        unsafe { libc::kill(libc::getpid(), self.signal) };
    }
}

/// A rank between its start and its error.
struct Rank {
    job: Arc<Job>,
    rank: usize,
    size: usize,
    step: u64,
    end: Option<End>,
    random: Random,
    /// Origins and results. The buffer is never freed, because an operation that was given up may
    /// still use it.
    buffer: &'static mut [u8],
}

impl Rank {
    /// A point between two calls, at which a victim may signal itself.
    fn pause(&mut self) {
        if let Some(end) = &self.end
            && end.step == Some(self.step)
        {
            end.strike();
        }
        self.step += 1;
    }

    fn another(&mut self) -> usize {
        (self.rank + 1 + self.random.below(self.size - 1)) % self.size
    }

    /// Makes a few operations on a rank, small and large, with and without result.
    fn operate(&mut self, window: &Window, rank: usize) -> Result<(), Failed> {
        for _ in 0..1 + self.random.below(3) {
            self.pause();
            let large = self.random.below(4) == 0;
            let layout = Layout::contiguous(Datatype::Uint8, if large { SIZE / 2 } else { 8 });
            let target = layout.at(rank, 64);
            let half = self.buffer.as_mut_ptr();
            // SAFETY: the buffer lives to the end of the process; only operations write its halves,
            // and no code reads them.
            unsafe {
                let result = half.add(SIZE / 2);
                match self.random.below(3) {
                    0 => window.put(half, &layout, target)?,
                    1 => window.get(result, &layout, target)?,
                    _ => {
                        window.fetch_and_op(half, result, Datatype::Uint64, rank, 0, Op::Sum)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn epoch(&mut self, kind: &str, window: &Window) -> Result<(), Failed> {
        let none = Assertion::empty();
        let other = self.another();
        match kind {
            "fence" => {
                self.operate(window, other)?;
                self.pause();
                window.fence(none)?;
            }
            "post-start-complete-wait" => {
                let all: Vec<usize> = (0..self.size).filter(|r| *r != self.rank).collect();
                self.pause();
                window.post(&all, none)?;
                self.pause();
                window.start(&all, none)?;
                self.operate(window, other)?;
                window.complete()?;
                self.pause();
                window.wait()?;
            }
            "lock shared" | "lock exclusive" => {
                let kind = if kind == "lock shared" {
                    LockKind::Shared
                } else {
                    LockKind::Exclusive
                };
                self.pause();
                window.lock(kind, other, none)?;
                self.operate(window, other)?;
                self.pause();
                window.unlock(other)?;
            }
            "lock_all and flush" => {
                self.pause();
                window.lock_all(none)?;
                for _ in 0..3 {
                    let other = self.another();
                    self.operate(window, other)?;
                    self.pause();
                    window.flush(other)?;
                }
                window.flush_all()?;
                self.pause();
                window.unlock_all()?;
            }
            "window creation" => {
                self.pause();
                let another = Window::allocate(&self.job, 4096, 1)?;
                self.pause();
                another.free()?;
            }
            "barrier" => {
                self.pause();
                self.job.barrier()?;
            }
            "barrier, polled" => {
                self.pause();
                let mut request = Comm::world(&self.job)?.ibarrier()?;
                while !request.test()? {
                    std::thread::yield_now();
                }
            }
            ATTENDED => {
                self.pause();
                Comm::world(&self.job)?.ibarrier()?.wait()?;
            }
            other => panic!("no epochs of kind {other}"),
        }
        Ok(())
    }

    fn attached(&self, kind: &str) -> Result<Option<Window>, Failed> {
        if kind != "lock_all and flush" {
            return Ok(None);
        }
        // A segment cannot serve a dynamic window.
        let mut info = Info::new();
        info.set("host_win_table", "btl")?;
        let window = Window::dynamic_with(&self.job, &info)?;
        let memory = Box::leak(vec![0u8; 4096].into_boxed_slice());
        // SAFETY: the memory is never freed, and no other code uses it.
        unsafe { window.attach(memory.as_mut_ptr(), memory.len()) }?;
        Ok(Some(window))
    }

    fn until_error(&mut self, kind: &str) -> Failed {
        let window = match Window::allocate(&self.job, SIZE, 1) {
            Ok(window) => window,
            Err(error) => return error.into(),
        };
        // Another window, which stays because of the memory that it holds.
        let _dynamic = match self.attached(kind) {
            Ok(window) => window,
            Err(error) => return error,
        };
        let rest = |rank: &mut Rank| -> Result<(), Failed> {
            if kind == "fence" {
                window.fence(Assertion::empty())?;
            }
            loop {
                rank.epoch(kind, &window)?;
            }
        };
        match rest(self) {
            Ok(()) => "the epochs ended".into(),
            Err(error) => error,
        }
        // The window is dropped without being freed, as its documentation requires after a failure.
    }
}

/// The byte in all memory that a rank watches.
const MARK: u8 = 0x5a;

/// Memory that the transport freed as this process left the job, and that other code may have by now.
fn freed() -> Vec<Vec<u8>> {
    // More than all that a rank frees, in blocks that fit into the free memory.
    let sizes = (0..4096).map(|n| 1024 << (n % 3));
    sizes.map(|size| vec![MARK; size]).collect()
}

/// Waits until a process has ended, and its parent knows.
fn gone(pid: i32) {
    for _ in 0..3000 {
        // SAFETY: signal 0 is none; the call only looks for the process.
        if unsafe { libc::kill(pid, 0) } != 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the rank that came back, process {pid}, does not end");
}

/// Runs this process's part.
pub(crate) fn run() {
    let variable = |name| std::env::var(name).unwrap();
    let (kind, fate) = (variable(KIND), variable(FATE));
    let seed: u64 = variable(SEED).parse().unwrap();
    let before = usage::descriptors();
    let job = Job::init(JobOptions::default()).expect("init");
    let (rank, size) = (job.rank() as usize, job.size() as usize);
    let (victim, end) = End::of(seed, &fate);
    let victim = victim as usize % size;
    let pids = job.allgather(&std::process::id().to_ne_bytes());
    let pids = pids.expect("allgather");
    say(&format!("ready {rank} {}", std::process::id()));
    let struck = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if rank == victim && end.step.is_none() {
            let End { signal, delay, .. } = end;
            let struck = &struck;
            scope.spawn(move || {
                std::thread::sleep(delay);
                struck.store(true, Ordering::Relaxed);
                End {
                    signal,
                    step: None,
                    delay,
                }
                .strike();
            });
        }
        let mut part = Rank {
            job: Arc::clone(&job),
            rank,
            size,
            step: 0,
            end: (rank == victim).then_some(end),
            random: Random::from_seed(seed ^ ((rank as u64 + 1) << 32)),
            buffer: Box::leak(vec![0; SIZE].into_boxed_slice()),
        };
        let error = part.until_error(&kind);
        let text = error.to_string().replace('\n', " ");
        say(&format!("error {rank} {} {text}", clock()));
    });
    // Leaving the job fails, but must not hang.
    let left = job.finalize().is_err();
    drop(job);
    let mut after = usage::descriptors();
    after.retain(|open| !before.contains(open));
    let watches = fate == "Stopped" && rank != victim && seed.is_multiple_of(2);
    let freed = if watches { freed() } else { Vec::new() };
    say(&format!("left {rank} {left}:{}", after.join(";")));
    if watches {
        let pid = i32::from_ne_bytes(*pids[victim].first_chunk().expect("a process id"));
        gone(pid);
        let changed = freed.iter().flatten().filter(|byte| **byte != MARK);
        assert_eq!(changed.count(), 0, "bytes that the stopped rank changed");
    }
}

//! Tasks of a runtime that yields: a waiting task lies on the stack below the tasks that run on its thread meanwhile, and
//! continues when they have ended. The tests use the C plugin with slow operations.
//!
//! Each rank runs one of the tests named `rank_`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use common::ranks::passes_with;
use host_stub::crt::{CAN_YIELD, Hooks, Level, set_hooks};
use host_stub::win::{Assertion, Custom, CustomOp, Datatype, Info, Layout, Window};
use host_stub::{Job, JobOptions};
use plugin_api::Status;

/// Fetching a word takes longer than beginning another task; only the tasks' thread makes progress.
const SLOW: [(&str, &str); 2] = [
    ("CMA_DELAY_US", "500"),
    ("OMPI_MCA_host_progress_thread", "0"),
];

/// The tasks of a test, which share a thread. The test waits for all tasks.
static TASKS: Mutex<VecDeque<Task>> = Mutex::new(VecDeque::new());
/// Number of tasks on the thread's stack.
static DEPTH: AtomicUsize = AtomicUsize::new(0);
/// The greatest such number so far.
static DEEPEST: AtomicUsize = AtomicUsize::new(0);
/// The job whose operations are counted.
static JOB: OnceLock<Arc<Job>> = OnceLock::new();
/// Operations after which the task on top of the stack lets others run.
static PATIENCE: AtomicU64 = AtomicU64::new(0);

type Task = Box<dyn FnOnce() + Send>;

/// Operations that this process has begun.
fn begun() -> u64 {
    let job = JOB.get().expect("a job");
    job.transport().stats().expect("stats").posted
}

/// Runs the next task to its end. Other tasks run inside the task after its first `patience`
/// operations.
fn run_one(patience: u64) -> bool {
    let task = TASKS.lock().expect("tasks").pop_front();
    let Some(task) = task else {
        return false;
    };
    let depth = DEPTH.fetch_add(1, Ordering::Relaxed) + 1;
    DEEPEST.fetch_max(depth, Ordering::Relaxed);
    let before = PATIENCE.swap(begun() + patience, Ordering::Relaxed);
    task();
    PATIENCE.store(before, Ordering::Relaxed);
    DEPTH.fetch_sub(1, Ordering::Relaxed);
    true
}

unsafe extern "C" fn running() -> *mut c_void {
    std::ptr::without_provenance_mut(DEPTH.load(Ordering::Relaxed))
}

unsafe extern "C" fn yield_now() {
    if begun() >= PATIENCE.load(Ordering::Relaxed) {
        run_one(0);
    }
}

/// Runs all tasks: the others run inside the first one, after `patience` of its operations. Returns the greatest number of
/// tasks on the stack.
fn run_all(tasks: impl Iterator<Item = Task>, patience: u64) -> usize {
    TASKS.lock().expect("tasks").extend(tasks);
    while run_one(patience) {}
    DEEPEST.swap(0, Ordering::Relaxed)
}

/// Adds words.
unsafe fn add(_: u32, size: usize, elements: *mut u8, operands: *const u8, count: usize) -> Status {
    assert_eq!((size, count), (8, 1));
    // SAFETY: there is one element, aligned as a word.
    unsafe { *elements.cast::<u64>() += *operands.cast::<u64>() };
    Status::SUCCESS
}

fn join() -> Arc<Job> {
    let hooks = Hooks {
        claims: CAN_YIELD,
        running: Some(running),
        yield_now: Some(yield_now),
        ..Hooks::default()
    };
    // SAFETY: the functions stay, and keep the contract of the table.
    unsafe { set_hooks(Some(&hooks)) }.expect("hooks");
    let mut options = JobOptions::default().task_multiple();
    options.arithmetic = Some(add);
    let job = Job::init(options).expect("init");
    assert_eq!(job.runtime().provided(), Level::TaskMultiple);
    assert!(JOB.set(Arc::clone(&job)).is_ok());
    job
}

fn info() -> Info {
    Info::new().with("host_win_table", "btl").expect("a hint")
}

fn word() -> Layout {
    Layout::contiguous(Datatype::Uint64, 1)
}

#[test]
fn tasks_of_a_thread_update_under_one_lock() {
    passes_with(2, "rank_updates_in_tasks", &SLOW);
}

#[test]
#[ignore = "a rank of tasks_of_a_thread_update_under_one_lock"]
fn rank_updates_in_tasks() {
    const TASKS: u64 = 8;
    let job = join();
    let window = Arc::new(Window::allocate_with(&job, 64, 1, &info()).expect("a window"));
    window.lock_all(Assertion::empty()).expect("lock_all");
    let tasks = (0..TASKS).map(|_| {
        let window = Arc::clone(&window);
        let task = move || {
            let row = Layout::contiguous(Datatype::Uint8, 8);
            let target = row.at(0, 17);
            let custom = Custom {
                size: 8,
                op: CustomOp::Combine(0),
            };
            let one = 1u64.to_ne_bytes();
            // SAFETY: the operand lives until the call returns, and an accumulate under a lock is complete
            // then.
            unsafe { window.accumulate_custom(custom, (one.as_ptr(), &row), None, target) }
                .expect("accumulate");
        };
        Box::new(task) as Task
    });
    run_all(tasks, 0);
    window.unlock_all().expect("unlock_all");
    job.barrier().expect("barrier");
    let mut sum = [0; 8];
    window.read_local(17, &mut sum).expect("read");
    if job.rank() == 0 {
        assert_eq!(u64::from_ne_bytes(sum), 2 * TASKS);
    }
    job.barrier().expect("barrier");
    let window = Arc::into_inner(window).expect("the tasks are gone");
    window.free().expect("free");
    job.finalize().expect("finalize");
    println!("passed");
}

#[test]
fn tasks_of_a_thread_read_the_regions_of_one_target() {
    passes_with(2, "rank_puts_to_regions_in_tasks", &SLOW);
}

#[test]
#[ignore = "a rank of tasks_of_a_thread_read_the_regions_of_one_target"]
fn rank_puts_to_regions_in_tasks() {
    // Two operations: reads of the version of the regions and of the first changed word.
    puts_to_regions(4, 2);
}

#[test]
fn more_tasks_of_a_thread_fetch_words_than_there_are_slots() {
    passes_with(2, "rank_puts_to_regions_in_many_tasks", &SLOW);
}

#[test]
#[ignore = "a rank of more_tasks_of_a_thread_fetch_words_than_there_are_slots"]
fn rank_puts_to_regions_in_many_tasks() {
    let deepest = puts_to_regions(100, 0);
    assert!(deepest > 64, "{deepest} tasks waited at once");
}

/// Runs tasks that put to attached memory of the other rank, after a read of the version of its regions. Returns the
/// greatest number of tasks on the stack.
fn puts_to_regions(tasks: u64, patience: u64) -> usize {
    let job = join();
    let window = Arc::new(Window::dynamic_with(&job, &info()).expect("a window"));
    let mut memory = vec![0u64; tasks as usize];
    let (base, bytes) = (memory.as_mut_ptr().cast::<u8>(), memory.len() * 8);
    // SAFETY: the memory lives until it is detached, and is read after the barrier only.
    unsafe { window.attach(base, bytes) }.expect("attach");
    let bases = job
        .allgather(&(base as u64).to_ne_bytes())
        .expect("allgather");
    let other = 1 - job.rank() as usize;
    let theirs = u64::from_ne_bytes(bases[other].as_slice().try_into().expect("an address"));
    window.lock_all(Assertion::empty()).expect("lock_all");
    let all = (0..tasks).map(|number| {
        let window = Arc::clone(&window);
        let task = move || {
            let row = word();
            let target = row.at(other, theirs + 8 * number);
            let request = {
                let number = &raw const number;
                // SAFETY: the number outlives the request.
                unsafe { window.rput(number.cast(), &row, target) }.expect("put")
            };
            request.wait().expect("wait");
        };
        Box::new(task) as Task
    });
    let deepest = run_all(all, patience);
    window.unlock_all().expect("unlock_all");
    job.barrier().expect("barrier");
    window.detach(base).expect("detach");
    let wanted: Vec<u64> = (0..tasks).collect();
    assert_eq!(memory, wanted);
    let window = Arc::into_inner(window).expect("the tasks are gone");
    window.free().expect("free");
    job.finalize().expect("finalize");
    println!("passed");
    deepest
}

//! Windows whose ranks share memory, in jobs of several processes over the C plugin: a rank that
//! ends while others wait for its lock, and memory that must be freed completely.
//!
//! Each rank runs one of the tests named `rank_`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::ranks::run;
use host_stub::win::{
    Assertion, Datatype, Info, Layout, LockKind, Op, WinError, Window, alloc_mem, free_mem, unboxed,
};
use host_stub::{Job, JobOptions};
use integration_tests::fixtures::c_plugin;
use integration_tests::process::Outcome;

fn passed(run: &Outcome, word: &str, times: usize) {
    let said = format!("{}{}", run.stdout, run.stderr);
    assert_eq!(run.status.code(), Some(0), "{said}");
    assert_eq!(said.matches(word).count(), times, "{said}");
}

#[test]
fn a_rank_that_goes_with_a_lock_does_not_hang_the_others() {
    let run = run(3, "rank_goes_with_a_lock", &[]);
    passed(&run, "noticed that rank 2 is gone", 2);
}

#[test]
#[ignore = "a rank of a_rank_that_goes_with_a_lock_does_not_hang_the_others"]
fn rank_goes_with_a_lock() {
    let job = Job::init(JobOptions::default()).expect("init");
    let window = Window::allocate(&job, 8, 8).expect("a window");
    assert_eq!(window.table_name(), "shm");
    if job.rank() == 2 {
        let none = Assertion::empty();
        window.lock(LockKind::Exclusive, 0, none).expect("a lock");
    }
    job.barrier().expect("barrier");
    // In good order as far as the launcher knows: otherwise it ends the job, and the test sees
    // nothing.
    job.bootstrap().finalize().expect("leave");
    if job.rank() == 2 {
        // SAFETY: ends this process at once, as a kill would.
        unsafe { libc::_exit(0) };
    }
    let kind = [LockKind::Shared, LockKind::Exclusive][job.rank() as usize];
    match unboxed(&window.lock(kind, 0, Assertion::empty())) {
        // The plugin may detect the failure first, and reports it in its own words.
        Err(WinError::Job { reason, .. })
            if reason.contains("rank 2") || reason.contains("process 2") =>
        {
            println!("noticed that rank 2 is gone");
        }
        other => panic!("the lock gave {other:?}"),
    }
    std::mem::forget(window);
    // SAFETY: ends this process without the destructors of a job that no longer exists.
    unsafe { libc::_exit(0) };
}

#[test]
fn a_rank_that_goes_without_a_notification_ends_the_wait_for_it() {
    for table in ["shm", "btl"] {
        let run = run(3, "rank_goes_unnotified", &[("UNNOTIFIED_TABLE", table)]);
        passed(&run, "waited no longer for rank 2", 2);
    }
}

#[test]
#[ignore = "a rank of a_rank_that_goes_without_a_notification_ends_the_wait_for_it"]
fn rank_goes_unnotified() {
    let job = Job::init(JobOptions::default()).expect("init");
    let table = std::env::var("UNNOTIFIED_TABLE").expect("a table");
    let info = Info::new().with("host_win_table", &table).expect("a hint");
    let window = Window::allocate_with(&job, 8, 8, &info).expect("a window");
    assert_eq!(window.table_name(), table);
    window.lock_all(Assertion::empty()).expect("lock_all");
    if job.rank() == 2 {
        let row = Layout::contiguous(Datatype::Uint64, 1);
        let word = [7u8; 8];
        for rank in 0..2 {
            let target = row.at(rank, 0);
            // SAFETY: the word lives until the flush below.
            unsafe { window.put_notify(word.as_ptr(), &row, target, 1) }.expect("a put");
        }
        window.flush_all().expect("a flush");
    }
    window
        .wait_notified(1, u64::from(job.rank() != 2))
        .expect("what came before");
    job.barrier().expect("barrier");
    job.bootstrap().finalize().expect("leave");
    if job.rank() == 2 {
        // SAFETY: ends this process at once, as a kill would.
        unsafe { libc::_exit(0) };
    }
    match unboxed(&window.wait_notified(1, 2)) {
        Err(WinError::Job { reason, .. })
            if reason.contains("rank 2") || reason.contains("process 2") =>
        {
            println!("waited no longer for rank 2");
        }
        other => panic!("the wait gave {other:?}"),
    }
    std::mem::forget(window);
    // SAFETY: ends this process without the destructors of a job that no longer exists.
    unsafe { libc::_exit(0) };
}

#[test]
fn nothing_remains_of_many_windows() {
    let run = run(2, "rank_makes_many_windows", &[]);
    passed(&run, "as before", 2);
}

#[test]
#[ignore = "a rank of nothing_remains_of_many_windows"]
fn rank_makes_many_windows() {
    let job = Job::init(JobOptions::default()).expect("init");
    let holdings = || {
        let files = std::fs::read_dir("/proc/self/fd").expect("files").count();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        (files, maps.matches("host-window").count())
    };
    let round = || {
        let shared = Window::allocate_shared(&job, 5000, 1, &Info::new()).expect("a window");
        assert!(Window::allocate(&job, usize::MAX / 4, 1).is_err());
        shared.free().expect("free");
    };
    round();
    let before = holdings();
    for _ in 0..100 {
        round();
    }
    assert_eq!(holdings(), before);
    println!("as before");
    job.finalize().expect("finalize");
}

/// Memory that belongs to no window at first, then to one.
#[test]
fn allocated_memory_serves_windows() {
    // SAFETY: the plugin is built with these tests.
    let options = unsafe { JobOptions::default().plugin(c_plugin("")) };
    let job = Job::init(options).expect("a job of one");
    let memory = alloc_mem(100).expect("memory");
    assert!(memory.addr().get().is_multiple_of(4096));
    // SAFETY: the memory lives until after the window.
    let window = unsafe { Window::create(&job, memory.as_ptr(), 100, 1) }.expect("a window");
    window.lock_all(Assertion::empty()).expect("lock_all");
    let (one, mut old) = (1i32.to_ne_bytes(), [9u8; 4]);
    for _ in 0..3 {
        let (from, into) = (one.as_ptr(), old.as_mut_ptr());
        // SAFETY: the buffers live until after the unlock.
        unsafe { window.fetch_and_op(from, into, Datatype::Int32, 0, 8, Op::Sum) }.expect("sum");
        window.flush(0).expect("flush");
    }
    window.unlock_all().expect("unlock_all");
    assert_eq!(i32::from_ne_bytes(old), 2);
    window.free().expect("free");
    // SAFETY: the memory comes from `alloc_mem`, and the window is freed.
    unsafe { free_mem(memory, 100) };
    assert!(alloc_mem(usize::MAX).is_err());
    job.finalize().expect("finalize");
}

//! How windows end after calls that failed.
//!
//! The tests named `rank_` are what each rank runs.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::Arc;

use common::c_plugin;
use common::ranks::{passes_with, run_over};
use host_stub::win::{
    Assertion, Datatype, Info, Layout, NewWindow, Op, Target, WinError, Window, WindowHook,
};
use host_stub::{Job, JobOptions};
use plugin_api::Status;

fn hook(created: fn(&mut NewWindow<'_>, &()) -> Result<(), String>) -> WindowHook<()> {
    WindowHook {
        name: "of this test",
        created,
        ended: |_, ()| {},
    }
}

fn joined() -> Arc<Job> {
    Job::init(JobOptions::default()).expect("init")
}

fn leave(job: &Job) {
    job.finalize().expect("finalize");
    println!("passed");
}

/// What the functions below say once.
fn refusal(call: &'static str) -> WinError {
    WinError::BadArgument {
        call,
        reason: "of this test".to_owned(),
    }
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of a hook")]
fn fail_exposures(new: &mut NewWindow<'_>, (): &()) -> Result<(), String> {
    match new.window().len() {
        1 => new.table.post = |_, _, _| Err(refusal("post")),
        2 => new.table.wait = |_| Err(refusal("wait")),
        3 => new.table.test = |_| Err(refusal("test")),
        _ => {}
    }
    Ok(())
}

/// A window whose exposure failed can be freed like any other.
#[test]
fn an_exposure_that_fails_is_over() {
    // SAFETY: the plugin is built with these tests.
    let options = unsafe { JobOptions::default().plugin(c_plugin(None)) };
    let job = Job::init(options).expect("a job of one");
    job.add_window_hook(hook(fail_exposures), ());
    let none = Assertion::empty();
    for table in ["shm", "btl"] {
        let info = Info::new().with("host_win_table", table).expect("a hint");
        let made = |len| Window::allocate_with(&job, len, 1, &info).expect("a window");
        let unposted = made(1);
        assert!(unposted.post(&[0], none).is_err());
        let [waited, tested] = [2, 3].map(made);
        for window in [&waited, &tested] {
            window.post(&[0], none).expect("post");
        }
        assert!(waited.wait().is_err());
        assert!(tested.test().is_err());
        for window in [unposted, waited, tested] {
            // There is no exposure to wait for.
            assert!(matches!(window.wait(), Err(WinError::EpochMisuse { .. })));
            window.free().expect("free");
        }
    }
    job.finalize().expect("finalize");
}

#[test]
fn a_window_whose_rank_is_lost_ends_with_an_error() {
    for table in ["shm", "btl"] {
        passes_with(3, "rank_goes_in_an_epoch", &[("APART_TABLE", table)]);
    }
}

/// Rank 2 goes before it has completed what the others posted for.
#[test]
#[ignore = "a rank of a_window_whose_rank_is_lost_ends_with_an_error"]
fn rank_goes_in_an_epoch() {
    let job = joined();
    let table = std::env::var("APART_TABLE").expect("a table");
    let info = Info::new().with("host_win_table", &table).expect("a hint");
    let window = Window::allocate_with(&job, 8, 8, &info).expect("a window");
    if job.rank() < 2 {
        window.post(&[2], Assertion::empty()).expect("post");
    }
    job.barrier().expect("barrier");
    // In good order as far as the launcher knows: it ends the job otherwise, and nobody would see.
    job.bootstrap().finalize().expect("leave");
    println!("passed");
    if job.rank() < 2 {
        let waited = window.wait();
        assert!(matches!(waited, Err(WinError::Job { .. })), "{waited:?}");
        let error = window.free().expect_err("a rank is lost").error;
        assert!(!matches!(error, WinError::EpochMisuse { .. }), "{error}");
    }
    // SAFETY: ends this process without the destructors of a job that is no more; rank 2 as a kill would.
    unsafe { libc::_exit(0) };
}

#[test]
fn failed_transfers_leave_no_registrations() {
    let plugin = c_plugin(Some("WANTS_REGISTRATION"));
    let run = run_over(
        &plugin,
        1,
        "rank_fails_at_transfers",
        &[("CMA_FAILING_BYTES", "24")],
    );
    let said = format!("{}{}", run.stdout(), run.stderr());
    assert_eq!(run.code(), Some(0), "{said}");
    assert!(said.contains("passed\n"), "{said}");
}

/// Updates that go by a buffer of the window, more than the plugin has registrations.
#[test]
#[ignore = "a rank of failed_transfers_leave_no_registrations"]
fn rank_fails_at_transfers() {
    const REGISTRATIONS: usize = 4096;
    let job = joined();
    let info = Info::new().with("host_win_table", "btl").expect("a hint");
    let window = Window::allocate_with(&job, 64, 1, &info).expect("a window");
    window.lock_all(Assertion::empty()).expect("lock_all");
    let row = Layout::contiguous(Datatype::Uint64, 3);
    let operand = [1u64; 3];
    for _ in 0..REGISTRATIONS + 10 {
        let target = Target {
            rank: 0,
            // Not aligned, so that the update reads and writes the target.
            displacement: 1,
            layout: &row,
        };
        // SAFETY: the operand lives until the call returns, which completes it.
        let added = unsafe { window.accumulate(operand.as_ptr().cast(), &row, target, Op::Sum) };
        match added {
            Err(WinError::Transport { status, .. }) => assert_eq!(status, Status::ERROR),
            other => panic!("the update gave {other:?}"),
        }
    }
    window.unlock_all().expect("unlock_all");
    window.free().expect("free");
    leave(&job);
}

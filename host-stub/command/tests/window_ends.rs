//! Ends of windows, and changes of their hints: with threads that call in another order at each rank, in jobs of several
//! processes over the C plugin; and after calls that failed.
//!
//! Each rank runs one of the tests named `rank_`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::ranks::{passes, passes_with};
use host_stub::win::{
    Assertion, Datatype, Info, NewWindow, Op, WinError, Window, WindowHook, unboxed,
};
use host_stub::{Comm, Job, JobOptions};
use integration_tests::fixtures::c_plugin;

/// Number of round trips after which a call of another rank on the wrong window would have ended.
const ROUNDS: usize = 2000;

/// Calls that are about to begin.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

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

/// Makes two windows, and one for messages between the ranks: over the job, or over the world's
/// communicator.
fn windows(job: &Arc<Job>) -> [Window; 3] {
    let table = std::env::var("APART_TABLE").expect("a table");
    let info = Info::new().with("host_win_table", &table).expect("a hint");
    let world = Comm::world(job).expect("the world");
    [8, 16, 24].map(|len| {
        let made = match std::env::var("APART_OVER").expect("a group").as_str() {
            "job" => Window::allocate_with(job, len, 8, &info),
            _ => Window::allocate_with(&world, len, 8, &info),
        };
        let window = made.expect("a window");
        assert_eq!(window.table_name(), table);
        window
    })
}

fn in_each_way(body: &str, beside: &str) {
    for table in ["shm", "btl"] {
        for over in ["job", "communicator"] {
            let environment = [
                ("APART_TABLE", table),
                ("APART_OVER", over),
                ("APART_BESIDE", beside),
            ];
            passes_with(2, body, &environment);
        }
    }
}

fn leave(job: &Job) {
    job.finalize().expect("finalize");
    println!("passed");
}

/// Adds to the first word of a rank.
fn add(window: &Window, rank: usize, operand: u64) -> u64 {
    let (one, mut old) = (operand.to_ne_bytes(), [0; 8]);
    let (from, into) = (one.as_ptr(), old.as_mut_ptr());
    // SAFETY: the buffers live until after the flush.
    unsafe { window.fetch_and_op(from, into, Datatype::Uint64, rank, 0, Op::Sum) }.expect("add");
    window.flush(rank).expect("flush");
    u64::from_ne_bytes(old)
}

/// The calls that rank 1 makes in another order than rank 0; returns the window if it still exists.
fn beside(job: &Job, second: Window) -> Option<Window> {
    BEGUN.fetch_add(1, Ordering::SeqCst);
    if std::env::var("APART_BESIDE").expect("a call") == "barrier" {
        job.barrier().expect("barrier");
        return Some(second);
    }
    second.free().expect("free");
    None
}

#[test]
fn the_end_of_a_window_is_apart_from_that_of_others() {
    in_each_way("rank_ends_a_window_beside", "free");
}

#[test]
fn the_end_of_a_window_is_apart_from_barriers_of_the_job() {
    in_each_way("rank_ends_a_window_beside", "barrier");
}

/// Rank 0 ends a window, then does other calls; rank 1 makes these other calls first, in a thread, while its main
/// thread still uses the window.
#[test]
#[ignore = "a rank of the_end_of_a_window_is_apart_from_that_of_others and its neighbour"]
fn rank_ends_a_window_beside() {
    let job = joined();
    let [first, second, told] = windows(&job);
    told.lock_all(Assertion::empty()).expect("lock_all");
    let left = if job.rank() == 0 {
        first.free().expect("free");
        assert_eq!(add(&told, 0, 0), 1, "rank 1 still used the window");
        beside(&job, second)
    } else {
        first.lock_all(Assertion::empty()).expect("lock_all");
        std::thread::scope(|scope| {
            let ended = scope.spawn(|| beside(&job, second));
            while BEGUN.load(Ordering::SeqCst) == 0 {
                std::hint::spin_loop();
            }
            for round in 0..ROUNDS {
                assert_eq!(add(&first, 0, 1), round as u64);
            }
            add(&told, 0, 1);
            first.unlock_all().expect("unlock_all");
            first.free().expect("free");
            ended.join().expect("a thread")
        })
    };
    told.unlock_all().expect("unlock_all");
    for window in left.into_iter().chain([told]) {
        window.free().expect("free");
    }
    leave(&job);
}

#[test]
fn hints_of_windows_are_compared_apart() {
    in_each_way("rank_changes_hints_in_another_order", "set_info");
}

/// Rank 0 changes the hints of the first window, then of the second one. Rank 1 has a thread that begins with the second one.
#[test]
#[ignore = "a rank of hints_of_windows_are_compared_apart"]
fn rank_changes_hints_in_another_order() {
    let job = joined();
    let [first, second, told] = windows(&job);
    let info = |key: &str, value: &str| Info::new().with(key, value).expect("a hint");
    let unordered = info("accumulate_ordering", "none");
    let unlocked = info("no_locks", "true");
    // More than once, so that the words of an earlier call must not be read again.
    for _ in 0..3 {
        if job.rank() == 0 {
            first.set_info(&unordered).expect("set_info");
            second.set_info(&unlocked).expect("set_info");
        } else {
            let before = BEGUN.load(Ordering::SeqCst);
            std::thread::scope(|scope| {
                let set = scope.spawn(|| {
                    BEGUN.fetch_add(1, Ordering::SeqCst);
                    second.set_info(&unlocked)
                });
                while BEGUN.load(Ordering::SeqCst) == before {
                    std::hint::spin_loop();
                }
                for _ in 0..ROUNDS {
                    job.runtime().engine().progress();
                }
                first.set_info(&unordered).expect("set_info");
                set.join().expect("a thread").expect("set_info");
            });
        }
        let found = |window: &Window, key: &str| window.get_info().expect("get_info").get(key);
        assert_eq!(found(&first, "no_locks").as_deref(), Some("false"));
        assert_eq!(found(&second, "no_locks").as_deref(), Some("true"));
        // Without an exchange between the ranks, and with one.
        second.fence(Assertion::empty()).expect("fence");
        second.fence(Assertion::NOSUCCEED).expect("fence");
        second
            .set_info(&info("no_locks", "false"))
            .expect("set_info");
    }
    // All ranks get a refusal of one rank, with its text.
    let fixed = match job.rank() {
        0 => info("no_locks", "false"),
        _ => info("host_ranks_per_node", "7"),
    };
    match unboxed(&first.set_info(&fixed)) {
        Err(WinError::BadArgument { reason, .. }) => assert!(
            reason.contains("rank 1: key host_ranks_per_node is fixed when a window is made"),
            "{reason}"
        ),
        other => panic!("set_info gave {other:?}"),
    }
    for window in [first, second, told] {
        window.free().expect("free");
    }
    leave(&job);
}

#[test]
fn a_window_outlives_its_communicator() {
    passes(2, "rank_frees_a_communicator_first");
}

/// Another communicator then has its number.
#[test]
#[ignore = "a rank of a_window_outlives_its_communicator"]
fn rank_frees_a_communicator_first() {
    let job = joined();
    let world = Comm::world(&job).expect("the world");
    for table in ["shm", "btl"] {
        let info = Info::new().with("host_win_table", table).expect("a hint");
        let comm = world.dup().expect("dup");
        let window = Window::allocate_with(&comm, 8, 8, &info).expect("a window");
        let context = comm.context();
        comm.free().expect("free");
        let next = world.dup().expect("dup");
        assert_eq!(next.context(), context);
        // One rank is in an exchange of the new communicator, and the other in a call on the window.
        if job.rank() == 0 {
            window.set_info(&info).expect("set_info");
            next.exchange(&[]).expect("exchange");
        } else {
            std::thread::scope(|scope| {
                let exchanged = scope.spawn(|| next.exchange(&[]));
                window.set_info(&info).expect("set_info");
                exchanged.join().expect("a thread").expect("exchange");
            });
        }
        window.free().expect("free");
        next.free().expect("free");
    }
    leave(&job);
}

/// The refusal of the functions below.
fn refusal(call: &'static str) -> Box<WinError> {
    Box::new(WinError::BadArgument {
        call,
        reason: "of this test".to_owned(),
    })
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
    let options = unsafe { JobOptions::default().plugin(c_plugin("")) };
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
            // No exposure is open, so the wait is refused.
            assert!(matches!(
                unboxed(&window.wait()),
                Err(WinError::EpochMisuse { .. })
            ));
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

/// Rank 2 ends before it completes the epoch for which the others posted.
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
    // In good order as far as the launcher knows: otherwise it ends the job, and the test sees
    // nothing.
    job.bootstrap().finalize().expect("leave");
    println!("passed");
    if job.rank() < 2 {
        let waited = window.wait();
        assert!(
            matches!(unboxed(&waited), Err(WinError::Job { .. })),
            "{waited:?}"
        );
        let error = window.free().expect_err("a rank is lost").error;
        assert!(!matches!(*error, WinError::EpochMisuse { .. }), "{error}");
    }
    // SAFETY: ends this process without the destructors of a job that no longer exists; rank 2 ends as if
    // killed.
    unsafe { libc::_exit(0) };
}

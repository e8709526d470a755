//! Collectives that one rank alone cannot go on with, and threads that make communicators side by side: nobody waits for
//! ever, and no message is taken for another. Over the C plugin.
//!
//! The tests named `rank_` are what each rank runs.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::ranks::{passes, passes_with};
use host_stub::coll::{CollArgs, CollTable, Collective};
use host_stub::comm::{Comm, CommError, CommResult, HookError, Layer};
use host_stub::win::{Datatype, Op};
use host_stub::{Job, JobOptions};

fn join() -> Arc<Job> {
    Job::init(JobOptions::default()).expect("init")
}

fn sum(comm: &Comm, value: u64) -> CommResult<u64> {
    let mut sum = 0;
    let (send, recv) = (&raw const value, &raw mut sum);
    // SAFETY: one element each, which live until the call returns.
    unsafe { comm.allreduce(send.cast(), recv.cast(), 1, Datatype::Uint64, Op::Sum) }?;
    Ok(sum)
}

/// What is left of a communicator that failed: it says so, and so does its end. The next one is another.
fn replaced(comm: Comm, parent: &Comm) -> Comm {
    let failed = comm.barrier().expect_err("the communicator is of no use");
    assert!(matches!(failed, CommError::Broken { .. }), "{failed:?}");
    let context = comm.context();
    comm.free().expect_err("not in good order");
    let next = parent.dup().expect("dup");
    assert_ne!(next.context(), context);
    next
}

#[test]
fn a_count_that_is_wrong_at_one_rank_ends_the_collective_at_all() {
    for ranks in [3, 4] {
        passes(ranks, "rank_with_a_wrong_count");
    }
}

#[test]
#[ignore = "a rank of a_count_that_is_wrong_at_one_rank_ends_the_collective_at_all"]
fn rank_with_a_wrong_count() {
    let job = join();
    let world = Comm::world(&job).expect("world");
    let comm = world.dup().expect("dup");
    let count = if comm.rank() == 0 { 2 } else { 1 };
    let (from, mut into) = ([1_u64; 2], [0_u64; 2]);
    let (send, recv) = (from.as_ptr().cast(), into.as_mut_ptr().cast());
    // SAFETY: two elements each; they are too short to be fetched, so nothing reaches them after the end.
    let done = unsafe { comm.iallreduce(send, recv, count, Datatype::Uint64, Op::Sum) };
    let failed = done.expect("started").wait().expect_err("counts differ");
    let told = matches!(failed, CommError::Length { .. } | CommError::Broken { .. });
    assert!(told, "{failed:?}");

    let next = replaced(comm, &world);
    let size = next.size() as u64;
    assert_eq!(sum(&next, 1).expect("allreduce"), size);
    next.free().expect("free");
    job.finalize().expect("finalize");
    println!("passed");
}

/// Whether the layer below still fails.
static FAILS: AtomicBool = AtomicBool::new(true);

/// A reduction that cannot be done at rank 2.
unsafe fn reduction(table: &CollTable, comm: &Comm, args: &CollArgs<'_>) -> CommResult<()> {
    if comm.job().rank() == 2 && FAILS.load(Ordering::Relaxed) {
        return Err(CommError::Layer {
            call: "reduce",
            code: -7,
            reason: "it cannot".to_owned(),
        });
    }
    let below = table.previous().expect("a table below");
    // SAFETY: the arguments are passed on.
    unsafe { below.call(Collective::Reduce, comm, args) }
}

fn override_reduction(comm: &Comm, _: &()) -> Result<(), HookError> {
    let mut functions = comm.collectives().functions();
    functions.set_blocking(Collective::Reduce, Some(reduction));
    comm.override_collectives(functions, None)?;
    Ok(())
}

fn restore(comm: &Comm, _: &()) -> Result<(), HookError> {
    comm.restore_collectives()?;
    Ok(())
}

/// On two nodes. The leader of the second fails in the stage of its node; the other leader waits for it in the next.
#[test]
fn a_stage_that_fails_at_one_rank_ends_the_collective_at_all() {
    let nodes = ("OMPI_MCA_host_ranks_per_node", "2");
    for node in ["0", "1"] {
        let settings = [nodes, ("OMPI_MCA_host_coll_node", node)];
        passes_with(4, "rank_whose_stage_fails", &settings);
    }
}

#[test]
#[ignore = "a rank of a_stage_that_fails_at_one_rank_ends_the_collective_at_all"]
fn rank_whose_stage_fails() {
    let job = join();
    let world = Comm::world(&job).expect("world");
    // Its hook runs after those of the host's layers, so its table is called before theirs.
    let layer = Layer(50);
    job.comm_hooks()
        .register(layer, override_reduction, restore, ());
    let comm = world.dup().expect("dup");
    let failed = sum(&comm, 1).expect_err("a stage fails");
    let told = match comm.rank() {
        2 => matches!(failed, CommError::Layer { code: -7, .. }),
        _ => matches!(failed, CommError::Broken { .. }),
    };
    assert!(told, "{failed:?}");

    FAILS.store(false, Ordering::Relaxed);
    let next = replaced(comm, &world);
    assert_eq!(sum(&next, 1).expect("allreduce"), 4);
    next.free().expect("free");
    job.finalize().expect("finalize");
    println!("passed");
}

/// How often communicators are made side by side.
const ROUNDS: usize = 30;

#[test]
fn threads_that_make_communicators_do_not_wait_for_each_other() {
    passes(3, "rank_of_threads");
    // Here the first collective makes those of its stages.
    passes_with(
        4,
        "rank_of_threads",
        &[("OMPI_MCA_host_ranks_per_node", "2")],
    );
}

#[test]
#[ignore = "a rank of threads_that_make_communicators_do_not_wait_for_each_other"]
fn rank_of_threads() {
    let job = join();
    let world = Comm::world(&job).expect("world");
    let use_new = |parent: &Comm| {
        let made = parent.dup().expect("dup");
        assert_eq!(sum(&made, 1).expect("allreduce"), made.size() as u64);
        made.free().expect("free");
    };
    let (low, high) = (world.dup().expect("dup"), world.dup().expect("dup"));
    for _ in 0..ROUNDS {
        // Both at once, in whatever order, or one after the other.
        if world.rank() == 0 {
            std::thread::scope(|scope| {
                scope.spawn(|| use_new(&low));
                use_new(&high);
            });
        } else {
            use_new(&high);
            use_new(&low);
        }
    }
    low.free().expect("free");
    high.free().expect("free");
    job.finalize().expect("finalize");
    println!("passed");
}

#[test]
fn a_rank_with_a_setting_that_is_not_allowed_keeps_nobody_waiting() {
    passes(3, "rank_with_a_bad_setting");
}

#[test]
#[ignore = "a rank of a_rank_with_a_setting_that_is_not_allowed_keeps_nobody_waiting"]
fn rank_with_a_bad_setting() {
    let odd = std::env::var("HOST_STUB_RANK").expect("a rank") == "1";
    if odd {
        // SAFETY: no other thread uses the environment.
        unsafe { std::env::set_var("OMPI_MCA_host_coll_node", "perhaps") };
    }
    let job = join();
    let failed = Comm::world(&job).expect_err("rank 1 cannot take part");
    assert!(failed.to_string().contains("perhaps"), "{failed}");
    let by_others = matches!(failed, CommError::Creation { rank: 1, .. });
    assert!(odd || by_others, "{failed:?}");
    job.finalize().expect("finalize");
    println!("passed");
}

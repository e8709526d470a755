//! Collectives that only one rank cannot continue, and threads that make communicators at the same time: no rank waits
//! for ever, and no message is mistaken for another. The tests use the C plugin.
//!
//! Each rank runs one of the tests named `rank_`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::Arc;

use common::ranks::passes;
use host_stub::comm::{Comm, CommError, CommResult};
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
    // SAFETY: two elements each; they are too short to be fetched, so no rank accesses them after the
    // end.
    let done = unsafe { comm.iallreduce(send, recv, count, Datatype::Uint64, Op::Sum) };
    let failed = done.expect("started").wait().expect_err("counts differ");
    let told = matches!(failed, CommError::Length { .. } | CommError::Broken { .. });
    assert!(told, "{failed:?}");

    let failed = comm.barrier().expect_err("the communicator is of no use");
    assert!(matches!(failed, CommError::Broken { .. }), "{failed:?}");
    comm.free().expect_err("not in good order");
    // Other operations that these ranks begin together may fail or not, but each ends.
    let _ = job.finalize();
    println!("passed");
}

/// The number of communicators that are made side by side.
const ROUNDS: usize = 30;

#[test]
fn threads_that_make_communicators_do_not_wait_for_each_other() {
    passes(3, "rank_of_threads");
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
        // Both failures at once, in any order, or one after the other.
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

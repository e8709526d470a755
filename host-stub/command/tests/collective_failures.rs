//! Threads that make communicators side by side: nobody waits for ever. Over the C plugin.
//!
//! The tests named `rank_` are what each rank runs.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::Arc;

use common::ranks::{passes, passes_with};
use host_stub::comm::{Comm, CommResult};
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

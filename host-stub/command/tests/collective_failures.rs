//! Threads that make communicators side by side, and persistent collectives that one rank cannot start: nobody waits for ever.
//! Over the C plugin.
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
use host_stub::coll::{CollArgs, Collective};
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
fn the_checking_mode_names_a_rank_that_cannot_start_a_persistent_collective() {
    for node in ["0", "1"] {
        let settings = [
            ("OMPI_MCA_host_check", "1"),
            ("OMPI_MCA_host_coll_node", node),
        ];
        passes_with(3, "rank_that_cannot_start", &settings);
    }
}

#[test]
#[ignore = "a rank of the_checking_mode_names_a_rank_that_cannot_start_a_persistent_collective"]
fn rank_that_cannot_start() {
    let job = join();
    let world = Comm::world(&job).expect("world");
    let odd = world.rank() == 2;
    let (from, mut into) = ([1_u64], [0_u64]);
    let args = CollArgs {
        send: from.as_ptr().cast(),
        recv: into.as_mut_ptr().cast(),
        count: 1,
        datatype: Datatype::Uint64.into(),
        op: Op::Sum.into(),
        // It is not, which is found at each start.
        on_device: odd,
        ..CollArgs::default()
    };
    // SAFETY: one element each, which live until it is dropped.
    let made = unsafe { world.init_collective(Collective::Allreduce, &args) };
    let mut persistent = made.expect("made");
    for _ in 0..3 {
        match persistent.start() {
            Err(CommError::BadArgument { .. }) if odd => {}
            Ok(()) if !odd => match persistent.wait() {
                Err(CommError::Mismatch { reason, .. }) => {
                    let named = "iallreduce with wrong arguments at rank 2";
                    assert!(reason.contains(named), "{reason}");
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
        // Those of the others are still in order.
        assert_eq!(sum(&world, 1).expect("allreduce"), 3);
    }
    drop(persistent);
    job.finalize().expect("finalize");
    println!("passed");
}

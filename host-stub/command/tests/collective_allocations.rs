//! Warm short collectives allocate nothing. The global allocator counts in each of two ranks over
//! the C plugin, whose own memory does not count.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::counting::{Counting, allocations};
use common::ranks::passes_with;
use host_stub::comm::Comm;
use host_stub::win::{Datatype, Op};
use host_stub::{Job, JobOptions};

#[global_allocator]
static GLOBAL: Counting = Counting;

#[test]
fn short_collectives_allocate_nothing_once_warm() {
    for node in ["0", "1"] {
        passes_with(2, "rank_counts", &[("OMPI_MCA_host_coll_node", node)]);
    }
}

#[test]
#[ignore = "a rank of short_collectives_allocate_nothing_once_warm"]
fn rank_counts() {
    let job = Job::init(JobOptions::default()).expect("init");
    let comm = Comm::world(&job).expect("world");
    let (from, mut into) = ([1u64; 8], [0u64; 16]);
    let (send, recv) = (from.as_ptr().cast::<u8>(), into.as_mut_ptr().cast::<u8>());
    let int = Datatype::Int64;
    let calls = || {
        // SAFETY: the buffers have room for the calls' data, and no other code uses them.
        unsafe {
            comm.allreduce(send, recv, 8, int, Op::Sum)
                .expect("allreduce");
            comm.bcast(recv, 8, int, 1).expect("bcast");
            comm.reduce(send, recv, 8, int, Op::Max, 0).expect("reduce");
            comm.allgather(send, recv, 8, int).expect("allgather");
            comm.alltoall(send, recv, 4, int).expect("alltoall");
            comm.scan(send, recv, 8, int, Op::Sum).expect("scan");
            comm.iallreduce(send, recv, 8, int, Op::Sum)
                .expect("iallreduce")
                .wait()
                .expect("wait");
        }
        // Keeps the ranks together, so that no message comes before the wait for it.
        comm.barrier().expect("barrier");
    };
    for _ in 0..200 {
        calls();
    }
    let before = allocations();
    for _ in 0..200 {
        calls();
    }
    let allocated = allocations() - before;
    // A message that comes early is kept in allocated memory; the ranks are close, but not in step.
    assert!(
        allocated < 100,
        "{allocated} allocations in 1600 collectives"
    );
    job.finalize().expect("finalize");
    println!("passed");
}

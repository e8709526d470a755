//! Work that is taken, not given: a counter at rank 0 says which task is next, and each rank takes tasks by fetch-and-add
//! until none is left.
//!
//!     target/release/host-stub launch -n 4 --provider shm -- target/release/examples/counter

use host_stub::rma::{Op, Window};
use host_stub::{Job, JobOptions};

const TASKS: u64 = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job = Job::init(JobOptions::default())?;
    // At rank 0: the next task, how many were done, and the sum of their results.
    let mut shared = Window::<u64>::allocate(&job, 3)?;
    let rank = shared.rank();
    job.barrier()?;
    let (mut done, mut sum) = ([0], [0]);
    shared.lock_all(|epoch| {
        loop {
            let task = epoch.fetch_and_op(1, 0, 0, Op::Sum)?;
            if task >= TASKS {
                return Ok(());
            }
            done[0] += 1;
            sum[0] += task * task;
        }
    })?;
    shared.lock_all(|epoch| {
        epoch.accumulate(&done, 0, 1, Op::Sum)?;
        epoch.accumulate(&sum, 0, 2, Op::Sum)
    })?;
    job.barrier()?;
    if rank == 0 {
        let mut found = [0; 3];
        shared.read(0, &mut found)?;
        let wanted = (0..TASKS).map(|task| task * task).sum::<u64>();
        assert_eq!(found[1..], [TASKS, wanted]);
    }
    println!("rank {rank} did {} of {TASKS} tasks", done[0]);
    shared.free()?;
    job.finalize()?;
    Ok(())
}

//! Ranks take tasks: a counter at rank 0 has the number of the next task. Each rank takes tasks by fetch-and-add until none
//! is left; a reduction then combines the results at rank 0.
//!
//!     target/release/host-stub launch -n 4 --provider shm -- target/release/examples/counter

use host_stub::rma::{Op, SliceCollectives, Window};
use host_stub::{Comm, Job, JobOptions};

const TASKS: u64 = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job = Job::init(JobOptions::default())?;
    let world = Comm::world(&job)?;
    // At rank 0: the next task.
    let next = Window::<u64>::allocate(&job, 1)?;
    let (mut done, mut sum) = (0, 0);
    next.lock_all(|epoch| {
        loop {
            let task = epoch.fetch_and_op(1, 0, 0, Op::Sum)?;
            if task >= TASKS {
                return Ok(());
            }
            done += 1;
            sum += task * task;
        }
    })?;
    let mut all = [0; 2];
    SliceCollectives::of(&world).reduce(&[done, sum], &mut all, Op::Sum, 0)?;
    let rank = world.rank();
    if rank == 0 {
        let wanted = (0..TASKS).map(|task| task * task).sum();
        assert_eq!(all, [TASKS, wanted]);
    }
    println!("rank {rank} did {done} of {TASKS} tasks");
    next.free()?;
    job.finalize()?;
    Ok(())
}

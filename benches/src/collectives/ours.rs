//! A rank of ours: the same measurement as `benches/openmpi/allreduce.c`.

use std::time::Instant;

use host_stub::comm::Comm;
use host_stub::win::{Datatype, Op};
use host_stub::{Job, JobOptions};
use plugin_api::ThreadLevel;

/// Prints the median time of one allreduce, in microseconds, at rank 0.
pub(crate) fn measure(
    bytes: usize,
    rounds: usize,
    calls: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: this program has one thread.
    let options = unsafe { JobOptions::default().assume_threads(ThreadLevel::Single) };
    let job = Job::init(options)?;
    let comm = Comm::world(&job)?;
    let count = bytes / size_of::<f64>();
    let send: Vec<f64> = (0..count).map(|i| (comm.rank() + i) as f64).collect();
    let mut recv = vec![0.0f64; count];
    let (from, into) = (send.as_ptr().cast::<u8>(), recv.as_mut_ptr().cast::<u8>());
    let mut times = Vec::with_capacity(rounds);
    for round in 0..rounds + 1 {
        comm.barrier()?;
        let start = Instant::now();
        for _ in 0..calls {
            // SAFETY: both buffers hold `count` elements.
            unsafe { comm.allreduce(from, into, count, Datatype::Double, Op::Sum) }?;
        }
        // The first round is not counted.
        if round > 0 {
            times.push(start.elapsed().as_secs_f64() / calls as f64 * 1e6);
        }
    }
    if comm.rank() == 0 {
        times.sort_by(f64::total_cmp);
        let median = times.get(rounds / 2).copied().unwrap_or(f64::NAN);
        println!("{median:.3}");
    }
    job.finalize()?;
    Ok(())
}

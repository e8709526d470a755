//! Each rank puts a word to the next one.
//!
//!     cargo build --release -p host-stub-command -p btl-ofi-plugin
//!     cargo build --release -p host-stub --examples
//!     target/release/host-stub launch -n 2 --provider shm -- target/release/examples/hello

use host_stub::rma::Window;
use host_stub::{Job, JobOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job = Job::init(JobOptions::default())?;
    let mut window = Window::<u64>::allocate(&job, 1)?;
    let (rank, size) = (window.rank(), window.size());
    let word = [100 + rank as u64];
    window.fence(|epoch| epoch.put(&word, (rank + 1) % size, 0))?;
    let mut found = [0];
    window.read(0, &mut found)?;
    assert_eq!(found, [100 + ((rank + size - 1) % size) as u64]);
    println!("rank {rank} has {}", found[0]);
    window.free()?;
    job.finalize()?;
    Ok(())
}

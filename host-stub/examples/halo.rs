//! Heat in a rod that is split between the ranks: in each step a rank puts its first and last cell into the borders
//! of its neighbours, between two fences, and then computes.
//!
//!     target/release/host-stub launch -n 4 --provider shm -- target/release/examples/halo

use host_stub::rma::Window;
use host_stub::{Job, JobOptions};

/// Cells of a rank, without the borders at both ends.
const CELLS: usize = 50;
const STEPS: usize = 200;

fn step(old: &[f64]) -> Vec<f64> {
    let mut new = old.to_vec();
    for at in 1..old.len() - 1 {
        new[at] = (old[at - 1] + 2.0 * old[at] + old[at + 1]) / 4.0;
    }
    new
}

/// The whole rod, computed by one process: zeros with a hot cell in the first rank's part.
fn serial(ranks: usize) -> Vec<f64> {
    let mut rod = vec![0.0; ranks * CELLS + 2];
    rod[1 + CELLS / 2] = 1000.0;
    for _ in 0..STEPS {
        rod = step(&rod);
    }
    rod[1..=ranks * CELLS].to_vec()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job = Job::init(JobOptions::default())?;
    // The borders: the left neighbour writes the first element, the right one the second.
    let mut borders = Window::<f64>::allocate(&job, 2)?;
    let (rank, size) = (borders.rank(), borders.size());
    let mut cells = vec![0.0; CELLS + 2];
    if rank == 0 {
        cells[1 + CELLS / 2] = 1000.0;
    }
    for _ in 0..STEPS {
        borders.fence(|epoch| {
            if rank > 0 {
                epoch.put(&cells[1..2], rank - 1, 1)?;
            }
            if rank + 1 < size {
                epoch.put(&cells[CELLS..=CELLS], rank + 1, 0)?;
            }
            Ok(())
        })?;
        let mut found = [0.0; 2];
        borders.read(0, &mut found)?;
        (cells[0], cells[CELLS + 1]) = (found[0], found[1]);
        cells = step(&cells);
        // No rank puts the next borders before all ranks have read these.
        job.barrier()?;
    }
    let wanted = &serial(size)[rank * CELLS..(rank + 1) * CELLS];
    assert_eq!(&cells[1..=CELLS], wanted, "rank {rank}");
    println!("rank {rank} has the heat of one process");
    borders.free()?;
    job.finalize()?;
    Ok(())
}

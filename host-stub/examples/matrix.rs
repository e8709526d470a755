//! A square matrix; each rank has some rows. Rank 0 distributes the rows, all ranks scale and transpose the matrix,
//! and rank 0 gets it back.
//!
//!     target/release/host-stub launch -n 4 --provider shm -- target/release/examples/matrix

use host_stub::rma::{Op, SliceCollectives};
use host_stub::{Comm, Job, JobOptions};

/// Rows of a rank.
const ROWS: usize = 40;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job = Job::init(JobOptions::default())?;
    let world = Comm::world(&job)?;
    let ranks = SliceCollectives::of(&world);
    let (rank, size) = (world.rank(), world.size());
    let n = ROWS * size;
    let at_root = if rank == 0 { n * n } else { 0 };

    let whole: Vec<f64> = (0..at_root).map(|i| i as f64).collect();
    let mut factor = [if rank == 0 { 2.0 } else { 0.0 }];
    let mut mine = vec![0.0; ROWS * n];
    ranks.bcast(&mut factor, 0)?;
    ranks.scatter(&whole, &mut mine, 0)?;

    // For each rank a block: its columns of the rows here, one column after the other.
    let mut given = Vec::with_capacity(mine.len());
    for column in 0..n {
        given.extend((0..ROWS).map(|row| factor[0] * mine[row * n + column]));
    }
    let mut taken = vec![0.0; given.len()];
    ranks.alltoall(&given, &mut taken)?;
    for row in 0..ROWS {
        for column in 0..n {
            let (from, at) = (column / ROWS, column % ROWS);
            mine[row * n + column] = taken[(from * ROWS + row) * ROWS + at];
        }
    }

    let mut transposed = vec![0.0; at_root];
    ranks.gather(&mine, &mut transposed, 0)?;
    for i in 0..at_root {
        assert_eq!(transposed[i], 2.0 * whole[i % n * n + i / n], "element {i}");
    }

    let sum: f64 = mine.iter().sum();
    let largest = mine.iter().copied().fold(0.0, f64::max);
    let (mut sums, mut total, mut most) = (vec![0.0; size], [0.0], [0.0]);
    ranks.allgather(&[sum], &mut sums)?;
    ranks.allreduce(&[sum], &mut total, Op::Sum)?;
    ranks.reduce(&[largest], &mut most, Op::Max, 0)?;
    let last = (n * n - 1) as f64;
    assert_eq!(total[0], last * (n * n) as f64);
    assert_eq!(sums.iter().sum::<f64>(), total[0]);
    assert!(rank > 0 || most[0] == 2.0 * last);
    ranks.barrier()?;
    println!("rank {rank} has {ROWS} rows of the transposed matrix");
    job.finalize()?;
    Ok(())
}

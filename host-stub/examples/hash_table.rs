//! A hash table over all ranks: each inserts its keys by compare-and-swap into whatever rank's part they belong to, and
//! then finds the keys of all.
//!
//!     target/release/host-stub launch -n 4 --provider shm -- target/release/examples/hash_table

use host_stub::rma::{Epoch, WinResult, Window};
use host_stub::{Job, JobOptions};

/// Slots of a rank, each a key; zero is free.
const SLOTS: usize = 256;
/// Keys of a rank.
const KEYS: u64 = 100;

/// The place where the search for a key begins: a rank and a slot. (Multiplicative hashing, with Knuth's
/// multiplier.)
fn place(key: u64, ranks: usize) -> (usize, usize) {
    let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let slot = hash as usize % (ranks * SLOTS);
    (slot / SLOTS, slot % SLOTS)
}

/// Inserts a key at the first slot from its place on that is free; false if the rank's part has none.
fn insert(epoch: &Epoch<'_, '_, u64>, ranks: usize, key: u64) -> WinResult<bool> {
    let (rank, first) = place(key, ranks);
    for step in 0..SLOTS {
        let found = epoch.compare_and_swap(0, key, rank, (first + step) % SLOTS)?;
        if found == 0 || found == key {
            return Ok(true);
        }
    }
    Ok(false)
}

fn contains(epoch: &Epoch<'_, '_, u64>, ranks: usize, key: u64) -> WinResult<bool> {
    let (rank, first) = place(key, ranks);
    for step in 0..SLOTS {
        let mut found = [0];
        epoch.get_now(&mut found, rank, (first + step) % SLOTS)?;
        if found[0] == key || found[0] == 0 {
            return Ok(found[0] == key);
        }
    }
    Ok(false)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job = Job::init(JobOptions::default())?;
    let table = Window::<u64>::allocate(&job, SLOTS)?;
    let (rank, size) = (table.rank() as u64, table.size());
    job.barrier()?;
    table.lock_all(|epoch| {
        // Neighbours insert the same keys in part.
        for key in 1 + rank * KEYS / 2..1 + rank * KEYS / 2 + KEYS {
            assert!(insert(epoch, size, key)?, "no room for key {key}");
        }
        Ok(())
    })?;
    job.barrier()?;
    let last = (size as u64 - 1) * KEYS / 2 + KEYS;
    table.lock_all(|epoch| {
        for key in 1..=last {
            assert!(contains(epoch, size, key)?, "key {key} is lost");
        }
        assert!(!contains(epoch, size, last + 1)?);
        Ok(())
    })?;
    println!("rank {rank} found {last} keys");
    table.free()?;
    job.finalize()?;
    Ok(())
}

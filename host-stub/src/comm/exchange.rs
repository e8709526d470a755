//! Exchanges among the ranks of a communicator during creations: bytes of any length, from each
//! rank to all. These exchanges are not optimised for speed.

use std::sync::Arc;

use super::error::CommResult;
use crate::job::Job;
use crate::schedule::{Engine, Extents, Plane, Scope, allgather_bruck};

/// The exchange over a scope, on its control plane.
pub(super) fn exchange(
    job: &Job,
    engine: &Engine,
    scope: &Arc<Scope>,
    data: &[u8],
) -> CommResult<Vec<Vec<u8>>> {
    let size = scope.size();
    let gather = |mine: Vec<u8>| -> CommResult<Vec<u8>> {
        let block = mine.len();
        let mut all = vec![0; block * size];
        let sequence = (Plane::Control, scope.next(Plane::Control));
        let (from, into) = (mine.as_ptr(), all.as_mut_ptr());
        // SAFETY: both buffers live until the collective is complete, and forever if it fails.
        let ticket = unsafe {
            engine.start("exchange", scope, sequence, None, |plan| {
                allgather_bruck(plan, from, into, &Extents::Even(block));
            })
        }?;
        match engine.wait(job, ticket) {
            Ok(()) => Ok(all),
            Err(error) => {
                // Gets may be in progress, here and at peers, and may never end.
                std::mem::forget((mine, all));
                Err(error)
            }
        }
    };
    let lengths = gather((data.len() as u64).to_ne_bytes().to_vec())?;
    let lengths: Vec<usize> = lengths
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| usize::try_from(u64::from_ne_bytes(*word)).unwrap_or(usize::MAX))
        .collect();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    if longest == 0 {
        return Ok(vec![Vec::new(); size]);
    }
    let mut mine = data.to_vec();
    mine.resize(longest, 0);
    Ok(gather(mine)?
        .chunks(longest)
        .zip(lengths)
        .map(|(block, len)| block[..len.min(longest)].to_vec())
        .collect())
}

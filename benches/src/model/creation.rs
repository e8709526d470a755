//! What ranks exchange out of band, through the launcher's servers, when a job starts and when a window is made.

use host_stub::win::sizes::{CARD, INTENT, offer};

use crate::HANDLE;
use crate::traffic::Job;

/// Exchanges of all ranks, and the bytes that a rank gives to them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchanges {
    pub(crate) rounds: u64,
    pub(crate) given: u64,
}

/// A window of its own memory (`win/create.rs`, `win/share.rs`) without hooks.
pub(crate) fn window(job: Job, rank: u64) -> Exchanges {
    let some_share = job.per_node > 1 && job.ranks > 1;
    let one_segment = job.nodes() == 1;
    let mut all = Exchanges {
        rounds: 1,
        given: INTENT as u64,
    };
    // Where the node's segment is, and which ranks map it.
    if some_share || job.ranks == 1 {
        all.rounds += 2;
        if rank.is_multiple_of(job.per_node) {
            all.given += CARD as u64;
        }
    }
    if !one_segment {
        all.rounds += 1;
        all.given += offer(HANDLE) as u64;
    }
    all
}

/// What each rank is given when a window is made: what all ranks give.
pub(crate) fn window_taken(job: Job) -> u64 {
    let leader = window(job, 0).given;
    let other = match job.per_node {
        1 => leader,
        _ => window(job, 1).given,
    };
    job.nodes() * leader + (job.ranks - job.nodes()) * other
}

/// Bytes of the addresses that each rank is given at the start: `docs/scale.md`, tcp;ofi_rxm with two interfaces.
pub(crate) fn addresses_taken(job: Job) -> u64 {
    const BLOB: u64 = 120;
    job.ranks * BLOB
}

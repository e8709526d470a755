//! Memory of one rank, by the formulas of `docs/scale.md`. Sizes come from the code, or are measured.

use btl_ofi::sizes::{
    LOCAL_PEER, RECEIVE, RING, RING_RECORDS, RINGS, SEGMENT_FRONT, SEGMENT_PAYLOADS, counters,
};
use host_stub::coll::node;
use host_stub::coll::sizes::{Rings, node_segments};
use host_stub::win::sizes;

use crate::HANDLE;
use crate::creation::addresses_taken;
use crate::measured::{PEER, USED_PEER, VECTOR};
use crate::traffic::Job;

/// Receives for messages (`btl_ofi_rd_num`).
const RECEIVES: u64 = 10;

/// Bytes of one rank, by what keeps them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// The transport's own.
    pub(crate) transport: u64,
    /// The provider's address vector.
    pub(crate) provider: u64,
    /// The host's addresses of all ranks, and one window.
    pub(crate) host: u64,
    /// The host's mailbox and the node's segments, once there was a collective.
    pub(crate) collectives: u64,
}

impl Memory {
    /// Of a rank that has used so many remote peers, and all peers of its node.
    pub(crate) fn of(job: Job, used: u64) -> Memory {
        let near = job.beside(0) - 1;
        let far = job.ranks - 1 - near;
        let rings = near.min(RINGS as u64);
        let local = match near {
            0 => 0,
            _ => SEGMENT_FRONT + SEGMENT_PAYLOADS,
        };
        let transport = far as f64 * PEER.value
            + used.min(far) as f64 * USED_PEER.value
            + (near * LOCAL_PEER as u64 + rings * (RING + RING_RECORDS) as u64) as f64
            + (RECEIVES * RECEIVE as u64) as f64
            + (local + counters(job.ranks as usize)) as f64;
        let window =
            sizes::control(job.ranks as usize) as u64 + job.ranks * sizes::peer(HANDLE) as u64;
        let mailbox = Rings::of(job.ranks as usize, HANDLE);
        let beside = near as usize + 1;
        let shared = match beside {
            // Its part of what the node shares.
            2..=node::MOST => node_segments(beside) / beside,
            _ => 0,
        };
        Memory {
            transport: transport as u64,
            provider: (job.ranks as f64 * VECTOR.value) as u64,
            host: addresses_taken(job) + window,
            collectives: mailbox.bytes as u64 + job.ranks * mailbox.peer as u64 + shared as u64,
        }
    }

    pub(crate) fn all(&self) -> u64 {
        self.transport + self.provider + self.host + self.collectives
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_page_on_scale() {
        // One rank, tcp;ofi_rxm, 100 peers used: 11.0 MB of 10,000 ranks and 41.0 MB of 100,000, the provider's included.
        for (ranks, wanted) in [(10_000, 11.0e6), (100_000, 41.0e6)] {
            let job = Job {
                ranks,
                per_node: 128,
            };
            let memory = Memory::of(job, 100);
            let both = (memory.transport + memory.provider) as f64;
            assert!((both / wanted - 1.0).abs() < 0.1, "{ranks} ranks: {both}");
        }
    }

    #[test]
    fn a_node_of_256_ranks_keeps_within_its_bound() {
        let job = Job {
            ranks: 256,
            per_node: 256,
        };
        let memory = Memory::of(job, 0);
        let ours = memory.all() - memory.provider;
        let mib = ours as f64 / f64::from(1 << 20);
        assert!(
            (13.0..15.0).contains(&mib),
            "docs/scale.md has 14 MiB: {mib}"
        );
    }
}

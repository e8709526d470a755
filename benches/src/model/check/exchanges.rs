//! A group of ranks that counts what it exchanges out of band.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host_stub::job::{Group, Job, JobError};

use crate::creation::Exchanges;

/// All ranks of a job.
pub(super) struct Counted {
    job: Arc<Job>,
    rounds: AtomicU64,
    given: AtomicU64,
}

impl Counted {
    pub(super) fn new(job: &Arc<Job>) -> Arc<Counted> {
        Arc::new(Counted {
            job: Arc::clone(job),
            rounds: AtomicU64::new(0),
            given: AtomicU64::new(0),
        })
    }

    /// What was exchanged so far.
    pub(super) fn exchanges(&self) -> Exchanges {
        Exchanges {
            rounds: self.rounds.load(Ordering::Relaxed),
            given: self.given.load(Ordering::Relaxed),
        }
    }
}

impl Group for Counted {
    fn job(&self) -> &Arc<Job> {
        &self.job
    }

    fn rank(&self) -> usize {
        self.job.rank() as usize
    }

    fn size(&self) -> usize {
        self.job.size() as usize
    }

    fn world_rank(&self, rank: usize) -> u32 {
        rank as u32
    }

    fn allgather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        self.given.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.job.allgather(data)
    }
}

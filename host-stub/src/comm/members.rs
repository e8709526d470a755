//! A communicator as what windows are made over.

use std::sync::Arc;

use super::communicator::Comm;
use crate::job::{Job, JobError};
use crate::win;

impl win::Group for Comm {
    fn job(&self) -> &Arc<Job> {
        Comm::job(self)
    }

    fn rank(&self) -> usize {
        Comm::rank(self)
    }

    fn size(&self) -> usize {
        Comm::size(self)
    }

    fn world_rank(&self, rank: usize) -> u32 {
        self.scope().job_rank(rank) as u32
    }

    fn allgather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        Ok(self.exchange(data)?)
    }

    fn barrier(&self) -> Result<(), JobError> {
        Ok(self.exchange(&[]).map(drop)?)
    }
}

impl From<&Comm> for win::Members {
    fn from(comm: &Comm) -> win::Members {
        win::Members::new(Arc::new(comm.clone()))
    }
}

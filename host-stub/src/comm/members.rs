//! A communicator as what windows are made over.

use std::sync::Arc;

use super::communicator::Comm;
use super::error::CommError;
use crate::job::{Group, Job, JobError, Members};

impl Group for Comm {
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
        self.intra("window creation")?;
        Ok(self.exchange(data)?)
    }

    fn barrier(&self) -> Result<(), JobError> {
        Ok(self.exchange(&[]).map(drop)?)
    }
}

impl From<&Comm> for Members {
    fn from(comm: &Comm) -> Members {
        Members::new(Arc::new(comm.clone()))
    }
}

impl From<CommError> for JobError {
    fn from(error: CommError) -> JobError {
        JobError::Layer(Box::new(error))
    }
}

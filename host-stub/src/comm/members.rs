//! A communicator as what windows are made over.

use std::sync::Arc;

use super::communicator::Comm;
use super::error::CommError;
use crate::job::{Group, Job, JobError, Members};

/// The ranks of a window, which may outlive its communicator: these meet in the communicator's messages while the window
/// is made, and not after.
struct WindowRanks(Comm);

impl Group for WindowRanks {
    fn job(&self) -> &Arc<Job> {
        self.0.job()
    }

    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn world_rank(&self, rank: usize) -> u32 {
        self.0.scope().job_rank(rank) as u32
    }

    fn allgather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        let call = "window creation";
        // Another communicator may have the context of one that was freed.
        self.0.engine(call)?;
        Ok(self.0.exchange(data)?)
    }
}

impl From<&Comm> for Members {
    fn from(comm: &Comm) -> Members {
        Members::new(Arc::new(WindowRanks(comm.clone())))
    }
}

impl From<CommError> for JobError {
    fn from(error: CommError) -> JobError {
        JobError::Layer(Box::new(error))
    }
}

//! A communicator as what windows are made over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::communicator::Comm;
use super::error::{CommError, CommResult};
use crate::job::{Group, Job, JobError, Members};

/// The ranks of a window, which may outlive its communicator: the context stays in use until the window is gone, for the
/// ranks meet there when it ends.
struct WindowRanks {
    comm: Comm,
    /// Whether it keeps the context: not of a communicator that was freed before.
    kept: bool,
    /// Whether an exchange failed: ranks may still send there.
    failed: AtomicBool,
}

impl WindowRanks {
    fn exchange(&self, data: &[u8]) -> CommResult<Vec<Vec<u8>>> {
        if !self.kept {
            return Err(CommError::Freed {
                call: "window creation",
            });
        }
        let exchanged = self.comm.exchange(data);
        if exchanged.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        exchanged
    }
}

impl Drop for WindowRanks {
    fn drop(&mut self) {
        if self.kept && !*self.failed.get_mut() {
            self.comm.let_go();
        }
    }
}

impl Group for WindowRanks {
    fn job(&self) -> &Arc<Job> {
        self.comm.job()
    }

    fn rank(&self) -> usize {
        self.comm.rank()
    }

    fn size(&self) -> usize {
        self.comm.size()
    }

    fn world_rank(&self, rank: usize) -> u32 {
        self.comm.scope().job_rank(rank) as u32
    }

    fn allgather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        self.comm.intra("window creation")?;
        Ok(self.exchange(data)?)
    }

    fn barrier(&self) -> Result<(), JobError> {
        Ok(self.exchange(&[]).map(drop)?)
    }
}

impl From<&Comm> for Members {
    fn from(comm: &Comm) -> Members {
        Members::new(Arc::new(WindowRanks {
            comm: comm.clone(),
            kept: comm.keep(),
            failed: AtomicBool::new(false),
        }))
    }
}

impl From<CommError> for JobError {
    fn from(error: CommError) -> JobError {
        JobError::Layer(Box::new(error))
    }
}

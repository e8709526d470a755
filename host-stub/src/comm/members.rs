//! A communicator as a set of ranks over which windows are made.

use std::sync::Arc;

use osc_engine::door::{Context, Group, Members};

use super::communicator::Comm;
use crate::loader::EndpointRef;

/// The ranks of a window, which may outlive its communicator. The ranks use the communicator's messages while the window is
/// made, and not afterwards.
struct WindowRanks(Comm);

impl WindowRanks {
    fn job_rank(&self, rank: usize) -> u32 {
        self.0.scope().job_rank(rank) as u32
    }
}

impl Group for WindowRanks {
    fn context(&self) -> &Arc<Context> {
        self.0.job().windows()
    }

    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn process(&self, rank: usize) -> u64 {
        u64::from(self.job_rank(rank))
    }

    fn endpoint(&self, rank: usize) -> Result<EndpointRef, String> {
        let endpoint = self.0.job().endpoint(self.job_rank(rank));
        endpoint.map_err(|error| error.to_string())
    }

    fn is_beside(&self, rank: usize) -> bool {
        let job = self.0.job();
        let bootstrap = job.bootstrap();
        bootstrap.node(self.job_rank(rank)) == bootstrap.node(job.rank())
    }

    fn may_share(&self, rank: usize) -> bool {
        let job = self.0.job();
        job.node(self.job_rank(rank)) == job.node(job.rank())
    }

    fn allgather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let call = "window creation";
        // Another communicator may have the context of a freed one.
        let checked = self.0.engine(call);
        checked.map_err(|error| error.to_string())?;
        let all = self.0.exchange(mine);
        all.map_err(|error| error.to_string())
    }
}

impl From<&Comm> for Members {
    fn from(comm: &Comm) -> Members {
        Members::new(Arc::new(WindowRanks(comm.clone())))
    }
}

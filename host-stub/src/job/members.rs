//! The ranks that a window is made over, and how they meet out of band to make it: a whole job, or a part of
//! one.

use std::sync::Arc;

use super::{Job, JobError};

/// An ordered set of ranks of a job that can exchange bytes out of band. Implemented by [`Job`];
/// anything else that wants windows of its own implements it too. Windows are made by exchanges of their
/// members, which call in the same order; a window that is made needs none.
pub trait Group: Send + Sync {
    /// The job the members belong to.
    fn job(&self) -> &Arc<Job>;

    /// This process among the members.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// The rank in the job of a member; `rank` is below [`size`](Self::size).
    fn world_rank(&self, rank: usize) -> u32;

    /// Gives every member what each gave, in order; collective. Progresses the transport meanwhile.
    fn allgather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, JobError>;
}

/// What window creation takes: a [`Group`], shared.
#[derive(Clone)]
pub struct Members(Arc<dyn Group>);

impl Members {
    /// Windows over this group.
    pub fn new(group: Arc<dyn Group>) -> Members {
        Members(group)
    }
}

impl std::ops::Deref for Members {
    type Target = dyn Group;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref()
    }
}

impl From<&Arc<Job>> for Members {
    fn from(job: &Arc<Job>) -> Members {
        Members(Arc::new(World(Arc::clone(job))))
    }
}

/// All ranks of a job.
struct World(Arc<Job>);

impl Group for World {
    fn job(&self) -> &Arc<Job> {
        &self.0
    }

    fn rank(&self) -> usize {
        self.0.rank() as usize
    }

    fn size(&self) -> usize {
        self.0.size() as usize
    }

    fn world_rank(&self, rank: usize) -> u32 {
        rank as u32
    }

    fn allgather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>, JobError> {
        self.0.allgather(data)
    }
}

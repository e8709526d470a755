//! Outstanding collectives.

use std::sync::Arc;

use super::layered::{Pending, Run};
use super::staged::{Staged, give_back};
use crate::comm::{Comm, CommResult};
use crate::schedule::Ticket;

enum Work {
    Done,
    Scheduled(Ticket),
    Layer(Arc<Run>),
}

/// A collective in progress. The buffers belong to the collective until [`test`](Self::test) or
/// [`wait`](Self::wait) returns that the collective is complete. Dropping the request waits.
#[must_use = "a request that is dropped at once waits for its collective"]
pub struct CollRequest {
    comm: Comm,
    work: Work,
    /// Buffers on a device that get the results after the collective is complete.
    staged: Vec<Staged>,
}

impl CollRequest {
    /// The request of a completed collective.
    pub fn done(comm: &Comm) -> CollRequest {
        CollRequest {
            comm: comm.clone(),
            work: Work::Done,
            staged: Vec::new(),
        }
    }

    /// The request of a collective that a layer runs. Freeing the communicator waits for the
    /// request.
    pub fn of_layer(comm: &Comm, pending: Box<dyn Pending>) -> CollRequest {
        CollRequest {
            comm: comm.clone(),
            work: Work::Layer(comm.layered().begin(comm.scope(), pending)),
            staged: Vec::new(),
        }
    }

    pub(crate) fn scheduled(comm: &Comm, ticket: Ticket) -> CollRequest {
        // From now on the progress thread drives the collective.
        comm.job().runtime().engine().awaited();
        CollRequest {
            comm: comm.clone(),
            work: Work::Scheduled(ticket),
            staged: Vec::new(),
        }
    }

    /// Adds buffers whose results are copied back to their devices after the end.
    pub(crate) fn and_then_back(mut self, staged: Vec<Staged>) -> CollRequest {
        self.staged.extend(staged);
        self
    }

    /// The outcome of the collective, after its results were copied to their buffers.
    fn ended(&mut self, outcome: CommResult<()>) -> CommResult<()> {
        if self.staged.is_empty() {
            return outcome;
        }
        let staged = std::mem::take(&mut self.staged);
        // SAFETY: the start of a collective requires buffers that stay valid until the request is
        // complete.
        unsafe { give_back(staged, self.comm.job().devices(), outcome) }
    }

    /// Makes progress, and returns whether the collective is complete. A failure is returned once;
    /// after that, and after the end, this returns true.
    pub fn test(&mut self) -> CommResult<bool> {
        let job = self.comm.job().clone();
        let _entered = job.runtime().enter("test")?;
        let progress = || job.runtime().engine().progress();
        let outcome = self.outcome().or_else(|| {
            progress();
            self.outcome()
        });
        let Some(outcome) = outcome else {
            if let Some(engine) = self.comm.registry().engine() {
                engine.look_sometimes(&job);
            }
            return Ok(false);
        };
        // Sends the last messages of the collective, because other ranks wait for them and this rank may
        // make no progress for a long time.
        progress();
        outcome.map(|()| true)
    }

    /// The outcome, if the collective has ended. The work then ends.
    fn outcome(&mut self) -> Option<CommResult<()>> {
        let comm = self.comm.clone();
        let Some(engine) = comm.registry().engine() else {
            return Some(Ok(()));
        };
        self.advance(|ticket| engine.test(ticket))
    }

    /// Like [`outcome`](Self::outcome); `look` checks scheduled collectives.
    fn advance(
        &mut self,
        look: impl FnOnce(Ticket) -> Option<CommResult<()>>,
    ) -> Option<CommResult<()>> {
        let outcome = match &mut self.work {
            // The collective was complete from the beginning, or its outcome was already returned.
            Work::Done if self.staged.is_empty() => return Some(Ok(())),
            Work::Done => Ok(()),
            Work::Scheduled(ticket) => look(*ticket)?,
            Work::Layer(run) if run.advance() => run.outcome(),
            Work::Layer(_) => return None,
        };
        self.work = Work::Done;
        Some(self.ended(outcome))
    }

    /// Waits until the collective is complete. [`CommError::Level`](crate::comm::CommError::Level):
    /// this thread may not call. The call nevertheless waits, because it drops the request.
    pub fn wait(mut self) -> CommResult<()> {
        let job = self.comm.job().clone();
        let _entered = job.runtime().enter("wait")?;
        self.finish()
    }

    /// Waits for all requests. Returns the first failure after all have ended.
    pub fn wait_all(requests: impl IntoIterator<Item = CollRequest>) -> CommResult<()> {
        let mut outcome = Ok(());
        for request in requests {
            let ended = request.wait();
            outcome = outcome.and(ended);
        }
        outcome
    }

    fn finish(&mut self) -> CommResult<()> {
        let comm = self.comm.clone();
        let (job, Some(engine)) = (comm.job(), comm.registry().engine()) else {
            return Ok(());
        };
        let outcome = match std::mem::replace(&mut self.work, Work::Done) {
            Work::Done => Ok(()),
            Work::Scheduled(ticket) => engine.wait(job, ticket),
            Work::Layer(run) => {
                // Threads that make progress call the layer, one thread at a time.
                engine.wait_until(job, || run.advance());
                run.outcome()
            }
        };
        self.ended(outcome)
    }
}

impl Drop for CollRequest {
    fn drop(&mut self) {
        if matches!(self.work, Work::Done) && self.staged.is_empty() {
            return;
        }
        if let Err(error) = self.finish() {
            tracing::warn!("a collective whose request was dropped failed: {error}");
        }
    }
}

impl std::fmt::Debug for CollRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let work = match self.work {
            Work::Done => "done",
            _ => "under way",
        };
        write!(f, "CollRequest({work}, {:?})", self.comm)
    }
}

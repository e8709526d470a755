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

/// A collective under way. Its buffers belong to it until [`test`](Self::test) or
/// [`wait`](Self::wait) says that it is done; dropping it waits.
#[must_use = "a request that is dropped at once waits for its collective"]
pub struct CollRequest {
    comm: Comm,
    work: Work,
    /// Buffers on a device, to which results go back once the work is done.
    staged: Vec<Staged>,
}

impl CollRequest {
    /// One that is done.
    pub fn done(comm: &Comm) -> CollRequest {
        CollRequest {
            comm: comm.clone(),
            work: Work::Done,
            staged: Vec::new(),
        }
    }

    /// One that a layer runs. Freeing the communicator waits for it.
    pub fn of_layer(comm: &Comm, pending: Box<dyn Pending>) -> CollRequest {
        CollRequest {
            comm: comm.clone(),
            work: Work::Layer(Run::new(comm, pending)),
            staged: Vec::new(),
        }
    }

    pub(crate) fn scheduled(comm: &Comm, ticket: Ticket) -> CollRequest {
        // The progress thread sees to it from here on.
        comm.job().runtime().engine().awaited();
        CollRequest {
            comm: comm.clone(),
            work: Work::Scheduled(ticket),
            staged: Vec::new(),
        }
    }

    /// After which these go back to their devices.
    pub(crate) fn and_then_back(mut self, staged: Vec<Staged>) -> CollRequest {
        self.staged.extend(staged);
        self
    }

    /// What the work came to, once its results are where they belong.
    fn ended(&mut self, outcome: CommResult<()>) -> CommResult<()> {
        if self.staged.is_empty() {
            return outcome;
        }
        let staged = std::mem::take(&mut self.staged);
        // SAFETY: starting a collective requires buffers that stay until the request is done.
        unsafe { give_back(staged, self.comm.job().devices(), outcome) }
    }

    /// Makes progress, and says whether the collective is done. A failure is reported once; after
    /// it, and after the end, this says true.
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
        // Its last messages leave: other ranks wait for them, and this one may make no progress for long.
        progress();
        outcome.map(|()| true)
    }

    /// The outcome, if it is there now; the work ends with that.
    fn outcome(&mut self) -> Option<CommResult<()>> {
        let comm = self.comm.clone();
        let Some(engine) = comm.registry().engine() else {
            return Some(Ok(()));
        };
        self.advance(|ticket| engine.test(ticket))
    }

    /// As [`outcome`](Self::outcome), with `look` at what is scheduled.
    fn advance(
        &mut self,
        look: impl FnOnce(Ticket) -> Option<CommResult<()>>,
    ) -> Option<CommResult<()>> {
        let outcome = match &mut self.work {
            // From the beginning, or reported before.
            Work::Done if self.staged.is_empty() => return Some(Ok(())),
            Work::Done => Ok(()),
            Work::Scheduled(ticket) => look(*ticket)?,
            Work::Layer(run) if run.advance() => run.outcome(),
            Work::Layer(_) => return None,
        };
        self.work = Work::Done;
        Some(self.ended(outcome))
    }

    /// Waits until the collective is done. [`CommError::Level`](crate::comm::CommError::Level): this
    /// thread may not call; it is waited for all the same, as by dropping it.
    pub fn wait(mut self) -> CommResult<()> {
        let job = self.comm.job().clone();
        let _entered = job.runtime().enter("wait")?;
        self.finish()
    }

    /// Waits for all; reports the first failure after all have ended.
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
                // Threads that make progress ask the layer, one at a time.
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

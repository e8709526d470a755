//! Collectives under way.

use crate::comm::{Comm, CommResult};
use crate::schedule::Ticket;

/// A collective that a layer runs itself.
pub trait Pending: Send {
    /// Makes progress, and says whether the collective is done. After true or an error it is not
    /// called again.
    fn test(&mut self) -> CommResult<bool>;
}

enum Work {
    Done,
    Scheduled(Ticket),
    Layer(Box<dyn Pending>),
    /// Two that are done when both are; the first decides alone when it fails.
    Both(Ticket, Box<CollRequest>),
}

/// A collective under way. Its buffers belong to it until [`test`](Self::test) or
/// [`wait`](Self::wait) says that it is done; dropping it waits.
#[must_use = "a request that is dropped at once waits for its collective"]
pub struct CollRequest {
    comm: Comm,
    work: Work,
}

impl CollRequest {
    /// One that is done.
    pub fn done(comm: &Comm) -> CollRequest {
        CollRequest {
            comm: comm.clone(),
            work: Work::Done,
        }
    }

    /// One that a layer runs.
    pub fn of_layer(comm: &Comm, pending: Box<dyn Pending>) -> CollRequest {
        CollRequest {
            comm: comm.clone(),
            work: Work::Layer(pending),
        }
    }

    pub(super) fn scheduled(comm: &Comm, ticket: Ticket) -> CollRequest {
        CollRequest {
            comm: comm.clone(),
            work: Work::Scheduled(ticket),
        }
    }

    pub(super) fn after(ticket: Ticket, request: CollRequest) -> CollRequest {
        CollRequest {
            comm: request.comm.clone(),
            work: Work::Both(ticket, Box::new(request)),
        }
    }

    /// Makes progress, and says whether the collective is done. A failure is reported once; after
    /// it, and after the end, this says true.
    pub fn test(&mut self) -> CommResult<bool> {
        let Some(engine) = self.comm.job().comms().engine() else {
            return Ok(true);
        };
        let outcome = match &mut self.work {
            Work::Done => return Ok(true),
            Work::Scheduled(ticket) => {
                let outcome = engine.test(*ticket).or_else(|| {
                    engine.progress();
                    engine.test(*ticket)
                });
                outcome.map(|outcome| outcome.map(|()| true))
            }
            Work::Layer(pending) => {
                engine.progress();
                match pending.test() {
                    Ok(false) => None,
                    ended => Some(ended),
                }
            }
            Work::Both(ticket, _) => {
                engine.progress();
                match engine.test(*ticket) {
                    None => None,
                    Some(Err(error)) => Some(Err(error)),
                    Some(Ok(())) => {
                        // Only the second is left.
                        if let Work::Both(_, second) = std::mem::replace(&mut self.work, Work::Done)
                        {
                            *self = *second;
                        }
                        return self.test();
                    }
                }
            }
        };
        match outcome {
            None => Ok(false),
            Some(outcome) => {
                self.work = Work::Done;
                outcome
            }
        }
    }

    /// Waits until the collective is done.
    pub fn wait(mut self) -> CommResult<()> {
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
        let job = self.comm.job().clone();
        let Some(engine) = job.comms().engine() else {
            return Ok(());
        };
        if let Work::Scheduled(ticket) = self.work {
            self.work = Work::Done;
            return engine.wait(&job, ticket);
        }
        let mut patience = engine.patience();
        while !self.test()? {
            if patience.idle() {
                engine.look(&job);
            }
        }
        Ok(())
    }
}

impl Drop for CollRequest {
    fn drop(&mut self) {
        if matches!(self.work, Work::Done) {
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

//! Collectives that layers run themselves. Two things drive them: their requests, and the end of their communicator, which
//! waits for all of them.

use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

use crate::comm::{Comm, CommError, CommResult};
use crate::crt::watched;
use crate::schedule::Scope;

/// A collective that a layer runs itself.
pub trait Pending: Send {
    /// Makes progress, and says whether the collective is done. After true or an error it is not
    /// called again. Any thread that makes progress calls it, so it must not wait. Freeing the communicator
    /// calls it until then: one that waits for a rank which is gone, or in a communicator that has failed, has to end with an
    /// error, as the requests of the host do.
    fn test(&mut self) -> CommResult<bool>;
}

struct State {
    pending: Option<Box<dyn Pending>>,
    /// Whether it has ended.
    ended: bool,
    outcome: Option<CommResult<()>>,
}

/// One such collective, counted among those under way until it has ended.
pub(crate) struct Run {
    scope: Arc<Scope>,
    state: Mutex<State>,
}

impl Run {
    pub(super) fn new(comm: &Comm, pending: Box<dyn Pending>) -> Arc<Run> {
        comm.scope().enter();
        let run = Arc::new(Run {
            scope: Arc::clone(comm.scope()),
            state: Mutex::new(State {
                pending: Some(pending),
                ended: false,
                outcome: None,
            }),
        });
        comm.layered().add(&run);
        run
    }

    /// Asks the layer, unless another thread is asking; says whether the collective has ended.
    pub(super) fn advance(&self) -> bool {
        let (mut state, panicked) = match self.state.try_lock() {
            Ok(state) => (state, false),
            Err(TryLockError::Poisoned(poisoned)) => (poisoned.into_inner(), true),
            Err(TryLockError::WouldBlock) => return false,
        };
        if state.ended {
            return true;
        }
        let outcome = match &mut state.pending {
            Some(pending) if !panicked => match watched(|| pending.test()) {
                Ok(false) => return false,
                ended => ended.map(drop),
            },
            _ => Err(CommError::Layer {
                call: "a layer's collective",
                code: -1,
                reason: "the layer panicked".to_owned(),
            }),
        };
        state.ended = true;
        state.outcome = Some(outcome);
        self.scope.leave();
        true
    }

    /// The outcome of one that has ended, once; then it was a success.
    pub(super) fn outcome(&self) -> CommResult<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (pending, outcome) = (state.pending.take(), state.outcome.take());
        // The layer may call back while it lets go.
        drop(state);
        drop(pending);
        outcome.unwrap_or(Ok(()))
    }

    /// Lets go of what the layer kept, the outcome stays.
    fn settle(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = state.pending.take();
        drop(state);
        drop(pending);
    }
}

/// Those of one communicator.
#[derive(Default)]
pub(crate) struct Layered(Mutex<Vec<Weak<Run>>>);

impl Layered {
    fn add(&self, run: &Arc<Run>) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|run| run.strong_count() > 0);
        runs.push(Arc::downgrade(run));
    }

    fn all(&self) -> Vec<Arc<Run>> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.iter().filter_map(Weak::upgrade).collect()
    }

    /// Asks the layers of all; says whether all have ended.
    pub(crate) fn advance(&self) -> bool {
        // Each is asked, whatever the others say: one may wait for another.
        let runs = self.all();
        let left = runs.iter().filter(|run| !run.advance()).count();
        left == 0
    }

    /// Frees the state that layers kept for ended collectives whose requests no caller has tested.
    pub(crate) fn settle(&self) {
        self.all().iter().for_each(|run| run.settle());
    }
}

//! Collectives that layers run themselves. Two callers drive such collectives: their requests, and the end of their
//! communicator, which waits for all collectives.

use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

use crate::comm::{CommError, CommResult};
use crate::crt::watched;
use crate::schedule::Scope;

/// A collective that a layer runs itself.
pub trait Pending: Send {
    /// Makes progress, and returns whether the collective is complete. The host does not call this function again after it
    /// has returned true or an error. Any thread that makes progress may call this function, so it must not wait. Freeing
    /// the communicator calls this function until the collective is complete. So a collective that waits for a dead rank,
    /// or in a failed communicator, must end with an error, like the host's requests.
    fn test(&mut self) -> CommResult<bool>;
}

struct State {
    pending: Option<Box<dyn Pending>>,
    /// Whether the collective has ended.
    ended: bool,
    outcome: Option<CommResult<()>>,
}

/// A collective that a layer runs. The collective counts as in progress until it has ended.
pub(crate) struct Run {
    scope: Arc<Scope>,
    state: Mutex<State>,
}

impl Run {
    fn new(scope: &Arc<Scope>, pending: Box<dyn Pending>) -> Arc<Run> {
        scope.enter();
        Arc::new(Run {
            scope: Arc::clone(scope),
            state: Mutex::new(State {
                pending: Some(pending),
                ended: false,
                outcome: None,
            }),
        })
    }

    /// Calls the layer, unless another thread is calling it. Returns whether the collective has
    /// ended.
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

    /// The outcome of an ended collective. The outcome is returned once; later calls return success.
    pub(super) fn outcome(&self) -> CommResult<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (pending, outcome) = (state.pending.take(), state.outcome.take());
        // The layer may call the host while its data is dropped.
        drop(state);
        drop(pending);
        outcome.unwrap_or(Ok(()))
    }

    /// Frees the layer's data, and keeps the outcome.
    fn settle(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = state.pending.take();
        drop(state);
        drop(pending);
    }
}

/// The collectives of one communicator that layers run.
#[derive(Default)]
pub(crate) struct Layered(Mutex<Vec<Weak<Run>>>);

impl Layered {
    /// Begins a collective.
    pub(super) fn begin(&self, scope: &Arc<Scope>, pending: Box<dyn Pending>) -> Arc<Run> {
        let run = Run::new(scope, pending);
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|run| run.strong_count() > 0);
        runs.push(Arc::downgrade(&run));
        run
    }

    fn all(&self) -> Vec<Arc<Run>> {
        let runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.iter().filter_map(Weak::upgrade).collect()
    }

    /// Calls the layers of all. Returns whether all have ended.
    pub(crate) fn advance(&self) -> bool {
        // Every layer is called, whatever the others return, because one collective may wait for
        // another.
        let runs = self.all();
        let left = runs.iter().filter(|run| !run.advance()).count();
        left == 0
    }

    /// Frees the data that layers kept for ended collectives whose requests no caller has tested.
    pub(crate) fn settle(&self) {
        self.all().iter().for_each(|run| run.settle());
    }
}

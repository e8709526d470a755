//! Waiting of window calls, and the watch on them while they wait: implements the engine's traits
//! with the runtime.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use osc_engine::door::{Completion, Entered as EnteredCall, Pace, Until, Waiter, Watch};
use osc_engine::win::{WinError, WinResult};

use super::engine::{Blocking, Engine};
use super::level::{Checker, Entered};
use super::watched::set_watched;

/// The condition that a call of a window waits for, as a [`Blocking`].
struct As<'a>(&'a dyn Until);

impl Blocking for As<'_> {
    type Error = Box<WinError>;

    #[inline]
    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn look(&self) -> WinResult<()> {
        self.0.look()
    }

    fn progress_failed(&self, code: i32) -> Box<WinError> {
        self.0.progress_failed(code)
    }
}

/// Lets windows wait in the runtime's mode.
pub(crate) struct Waits(pub(crate) Arc<Engine>);

impl Waiter for Waits {
    fn progress(&self) -> i32 {
        self.0.progress()
    }

    fn others(&self) -> Option<Arc<AtomicUsize>> {
        Some(self.0.busy().count())
    }

    fn visit(&self) {
        self.0.visit();
    }

    fn wait(&self, what: &dyn Until) -> WinResult<()> {
        self.0.wait(&As(what))
    }

    fn wait_request(&self, what: &dyn Until, completion: &Completion) -> WinResult<()> {
        self.0.wait_request(&As(what), completion)
    }

    fn step(&self, pace: &mut Pace, what: &dyn Until) -> WinResult<()> {
        self.0
            .step(pace, |code| what.progress_failed(code), || what.look())
    }

    fn awaited(&self) {
        self.0.awaited();
    }

    fn set_alone(&self, alone: bool) -> bool {
        set_watched(alone)
    }
}

/// Watches the calls of windows.
pub(crate) struct Watches(pub(crate) Arc<Checker>);

impl Watch for Watches {
    fn enter(&self, call: &'static str) -> WinResult<Option<Box<dyn EnteredCall + '_>>> {
        let entered = self.0.enter(call)?;
        Ok(entered
            .is_watched()
            .then(|| Box::new(entered) as Box<dyn EnteredCall>))
    }
}

impl EnteredCall for Entered<'_> {
    fn about(&mut self, process: u64) {
        Entered::about(self, process);
    }
}

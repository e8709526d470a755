//! The layer's state of a communicator, and the steps of its collectives.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::lines::{self, Class, INLINE, Lines, Mark, SHORT};
use crate::base::{Card, Segment, Turn, Turns};
use crate::comm::{Comm, CommError, CommResult, Layer};
use crate::crt::Blocking;
use crate::schedule::Engine;

struct Inner {
    lines: Lines,
    /// The last step that has begun.
    step: u64,
}

/// The data of the layer for a communicator.
pub(super) struct NodeState(Turns<Inner>);

impl NodeState {
    /// Makes the memory that the ranks of a communicator share. Collective. Returns `None` if a
    /// rank cannot take part; then no rank uses the layer.
    pub(super) fn make(comm: &Comm) -> CommResult<Option<Arc<NodeState>>> {
        let Some(segment) = share(comm, lines::bytes(comm.size()))? else {
            return Ok(None);
        };
        Ok(Some(Arc::new(NodeState(Turns::new(Inner {
            lines: Lines::new(comm.size(), segment),
            step: 0,
        })))))
    }

    /// Takes the steps for one collective, which keeps them while it waits. Another task of the same
    /// thread may hold them, so this is a wait like any other.
    fn take(&self, comm: &Comm, engine: &Engine) -> Turn<'_, Inner> {
        loop {
            match self.0.try_take() {
                Some(inner) => return inner,
                None => engine.wait_until(comm.job(), || self.0.is_free()),
            }
        }
    }
}

/// Makes a segment that either all ranks or no rank have mapped. Collective.
fn share(comm: &Comm, bytes: usize) -> CommResult<Option<Segment>> {
    let leader = comm.rank() == 0;
    let made = leader.then(|| {
        let segment = Segment::make(bytes).ok()?;
        segment.reserve(0, bytes).ok()?;
        Some(segment)
    });
    let made = made.flatten();
    let card = made.as_ref().map(|segment| segment.card().encode());
    let heard = comm.exchange(&card.unwrap_or_default())?;
    let mut mine = match made {
        None if !leader => heard
            .first()
            .and_then(|card| Segment::open(&Card::decode(card)?).ok()),
        made => made,
    };
    let all = comm.exchange(&[u8::from(mine.is_some())])?;
    if all.iter().any(|has| has != &[1]) {
        return Ok(None);
    }
    if let Some(segment) = &mut mine {
        segment.close();
    }
    Ok(mine)
}

/// One collective: the steps of this rank.
pub(super) struct Steps<'a> {
    call: &'static str,
    comm: &'a Comm,
    engine: &'a Engine,
    inner: Turn<'a, Inner>,
    class: Class,
    pub(super) me: usize,
    pub(super) size: usize,
}

/// Finds a communicator's state. Returns `None` if the layer has no state for the communicator.
pub(super) fn state(comm: &Comm) -> Option<Arc<NodeState>> {
    comm.attribute(Layer::NODE)
}

impl<'a> Steps<'a> {
    /// Begins a collective in which a rank's slot holds `bytes` bytes. Returns `None` if no slot
    /// has room for `bytes`.
    pub(super) fn begin(
        call: &'static str,
        comm: &'a Comm,
        state: &'a NodeState,
        bytes: usize,
    ) -> CommResult<Option<Steps<'a>>> {
        if let Some(reason) = comm.scope().broken() {
            return Err(CommError::Broken {
                call,
                reason: reason.to_owned(),
            });
        }
        let engine = comm.any_engine(call)?;
        let class = if bytes <= INLINE {
            Class::Inline
        } else if bytes <= SHORT {
            Class::Short
        } else {
            return Ok(None);
        };
        let inner = state.take(comm, engine);
        Ok(Some(Steps {
            call,
            comm,
            engine,
            inner,
            class,
            me: comm.rank(),
            size: comm.size(),
        }))
    }

    /// Begins the next step, and returns its number.
    pub(super) fn step(&mut self) -> u64 {
        self.inner.step += 1;
        self.inner.step
    }

    /// A rank's slot in a step.
    #[inline]
    pub(super) fn slot(&self, rank: usize, step: u64) -> *mut u8 {
        self.inner.lines.slot(self.class, rank, step)
    }

    /// Records that this rank has made this progress in a step.
    #[inline]
    pub(super) fn tell(&self, mark: Mark, step: u64) {
        self.inner.lines.tell(self.me, mark, step);
    }

    /// Waits until a rank has made this progress in a step.
    #[inline]
    pub(super) fn wait_for(&self, rank: usize, mark: Mark, step: u64) -> CommResult<()> {
        if self.inner.lines.has(rank, mark, step) {
            return Ok(());
        }
        self.wait_long(rank, mark, step)
    }

    /// Waits until all ranks have made this progress in a step.
    #[inline]
    pub(super) fn wait_for_all(&self, mark: Mark, step: u64) -> CommResult<()> {
        // The loop begins with the next rank, so that not all ranks read the same line at once.
        for distance in 1..self.size {
            let rank = self.me + distance;
            let rank = if rank >= self.size {
                rank - self.size
            } else {
                rank
            };
            self.wait_for(rank, mark, step)?;
        }
        Ok(())
    }

    /// Waits until this rank's slot may be filled for a step, because all ranks have finished
    /// reading its previous content.
    #[inline]
    pub(super) fn wait_for_room(&self, step: u64) -> CommResult<()> {
        self.wait_for_all(Mark::Done, step.saturating_sub(2))
    }

    #[inline(never)]
    fn wait_long(&self, rank: usize, mark: Mark, step: u64) -> CommResult<()> {
        let come = Come {
            call: self.call,
            comm: self.comm,
            engine: self.engine,
            lines: &self.inner.lines,
            rank,
            mark,
            step,
            looked: Mutex::new(None),
        };
        loop {
            match self.comm.job().runtime().engine().wait(&come) {
                Ok(()) => return Ok(()),
                Err(Some(error)) => return Err(error),
                // The transport failed. Shared memory works without the transport while the ranks
                // live.
                Err(None) => std::thread::yield_now(),
            }
        }
    }
}

/// Time between two checks of the other ranks.
const LOOK: Duration = Duration::from_millis(250);

/// A wait until a rank has made this progress in a step.
struct Come<'a> {
    call: &'static str,
    comm: &'a Comm,
    engine: &'a Engine,
    lines: &'a Lines,
    rank: usize,
    mark: Mark,
    step: u64,
    /// The time of the last check of the other ranks; `None` before the first check.
    looked: Mutex<Option<Instant>>,
}

impl Come<'_> {
    fn check(&self) -> CommResult<()> {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let since = looked.get_or_insert_with(Instant::now);
        if since.elapsed() < LOOK {
            return Ok(());
        }
        *since = Instant::now();
        self.engine
            .check(self.call, self.comm.job(), self.comm.scope())
    }
}

impl Blocking for Come<'_> {
    /// `None` if only the transport failed.
    type Error = Option<CommError>;

    const NEAR: bool = true;

    #[inline]
    fn is_done(&self) -> bool {
        self.lines.has(self.rank, self.mark, self.step)
    }

    fn look(&self) -> Result<(), Option<CommError>> {
        self.check().map_err(Some)
    }

    fn progress_failed(&self, _: i32) -> Option<CommError> {
        self.check().err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that is suspended in a collective may continue on another thread and takes the steps
    /// along. A mutex guard would not allow this. The compiler checks this rule.
    #[test]
    fn steps_go_from_thread_to_thread() {
        fn goes<T: Send>() {}
        goes::<Steps<'_>>();
    }
}

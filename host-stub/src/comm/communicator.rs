//! A communicator: its members, and its end.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::error::{CommError, CommResult};
use super::exchange::exchange;
use super::hooks::Seen;
use super::layer::{Attributes, Layer};
use super::registry::Registry;
use super::table::{CollTable, Layered, Stack, View};
use crate::job::Job;
use crate::schedule::{Engine, Scope};

pub(super) struct Inner {
    // This field is declared before the job, so that it is dropped before the job ends the
    // transport.
    registry: Arc<Registry>,
    job: Arc<Job>,
    scope: Arc<Scope>,
    tables: Stack,
    attributes: Attributes,
    layered: Layered,
    /// Set once, by the last step of the creation.
    seen: OnceLock<Seen>,
    freed: AtomicBool,
}

/// The ranks of a new communicator.
pub(super) struct Ranks {
    /// The members, as ranks of the job.
    pub(super) members: Vec<u32>,
    /// The index of this process among them.
    pub(super) me: usize,
}

/// Ranks of a job with a context of their own, which distinguishes their collectives and agreements
/// from all others. Clones are the same communicator. Any thread may call, within the job's level.
/// All ranks make collective calls in the same order.
///
/// Every rank ends the communicator by [`free`](Self::free). A communicator that is dropped without
/// `free` keeps its context forever.
#[derive(Clone)]
pub struct Comm(pub(super) Arc<Inner>);

impl Comm {
    /// A communicator whose hooks have not run.
    pub(super) fn bare(job: &Arc<Job>, table: &Arc<CollTable>, ranks: Ranks, context: u16) -> Comm {
        let registry = Arc::clone(Registry::of(job));
        Comm(Arc::new(Inner {
            job: Arc::clone(job),
            scope: Arc::new(Scope::new(ranks.members, ranks.me, context)),
            tables: Stack::new(Arc::clone(table)),
            registry,
            attributes: Attributes::default(),
            layered: Layered::default(),
            seen: OnceLock::new(),
            freed: AtomicBool::new(false),
        }))
    }

    /// Runs the create hooks. Collective over the new communicator.
    pub(super) fn complete(self, seen: Seen) -> CommResult<Comm> {
        match seen.create(&self) {
            Ok(()) => {
                let _ = self.0.seen.set(seen);
                Ok(self)
            }
            Err(failed) => {
                // A hook may have kept a clone of the communicator.
                self.0.freed.store(true, Ordering::SeqCst);
                self.drain(self.any_engine("communicator creation")?);
                // The hook that failed here cannot restore the table that it overrode, so this code
                // does: the layers above then find their own table. This comes after the drain,
                // because calls may have used the other table.
                if let Some(table) = failed.table {
                    self.tables().set(table);
                }
                // Failures here were already logged. The returned error is the one that caused the
                // end.
                let _ = seen.undo(failed.ran, &self);
                // The world keeps its number for the next try. A number is also not reused if ranks
                // may still send messages with it.
                if self.context() != 0 && matches!(failed.error, CommError::Creation { .. }) {
                    self.let_go();
                }
                Err(failed.error)
            }
        }
    }

    /// This process's rank.
    #[inline]
    pub fn rank(&self) -> usize {
        self.0.scope.rank()
    }

    /// Number of ranks.
    #[inline]
    pub fn size(&self) -> usize {
        self.0.scope.size()
    }

    /// The members, as ranks of the job.
    pub(super) fn members(&self) -> &[u32] {
        self.0.scope.members()
    }

    /// The job.
    #[inline]
    pub fn job(&self) -> &Arc<Job> {
        &self.0.job
    }

    /// The job's data for all its communicators.
    #[inline]
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.0.registry
    }

    /// The job rank of a rank of this communicator.
    pub fn job_rank(&self, rank: usize) -> CommResult<u32> {
        let members = self.members();
        members.get(rank).copied().ok_or(CommError::BadArgument {
            call: "job_rank",
            reason: format!("no rank {rank} in a communicator of {}", members.len()),
        })
    }

    /// The communicator from the view of this rank.
    #[inline]
    pub(crate) fn view(&self) -> View {
        View {
            rank: self.rank(),
            size: self.size(),
        }
    }

    /// The node of a rank. Ranks with the same number share memory.
    pub fn node(&self, rank: usize) -> CommResult<u32> {
        Ok(self.job().node(self.job_rank(rank)?))
    }

    /// Whether all ranks share one node.
    pub fn is_one_node(&self) -> bool {
        let members = self.members();
        let node = |member: &u32| self.job().node(*member);
        members.iter().all(|m| node(m) == node(&members[0]))
    }

    /// The number that distinguishes messages of this communicator from others. The number is the same on
    /// every rank, and no other communicator of a rank has it at the same time.
    pub fn context(&self) -> u16 {
        self.0.scope.context()
    }

    /// Whether both are the same communicator.
    pub fn is_same(&self, other: &Comm) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the communicator has no other clone.
    pub fn is_sole(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Whether the communicator was freed.
    pub fn is_freed(&self) -> bool {
        self.0.freed.load(Ordering::SeqCst)
    }

    pub(super) fn tables(&self) -> &Stack {
        &self.0.tables
    }

    /// Whether the communicator's create hooks are running.
    pub(super) fn is_being_made(&self) -> bool {
        self.0.seen.get().is_none() && !self.is_freed()
    }

    /// Collectives that layers run.
    pub(crate) fn layered(&self) -> &Layered {
        &self.0.layered
    }

    /// Attaches a layer's data to this communicator. Returns the replaced data.
    pub fn set_attribute(
        &self,
        layer: Layer,
        value: Arc<dyn Any + Send + Sync>,
    ) -> Option<Arc<dyn Any + Send + Sync>> {
        self.0.attributes.set(layer, value)
    }

    /// The data that a layer attached to this communicator, if it is a `T`.
    pub fn attribute<T: Send + Sync + 'static>(&self, layer: Layer) -> Option<Arc<T>> {
        self.0.attributes.get(layer)?.downcast().ok()
    }

    /// Removes and returns the data that a layer attached to this communicator.
    pub fn take_attribute(&self, layer: Layer) -> Option<Arc<dyn Any + Send + Sync>> {
        self.0.attributes.take(layer)
    }

    #[inline]
    pub(crate) fn scope(&self) -> &Arc<Scope> {
        &self.0.scope
    }

    /// The engine that runs the communicator's collectives.
    #[inline]
    pub(crate) fn engine(&self, call: &'static str) -> CommResult<&Engine> {
        if self.0.freed.load(Ordering::Acquire) {
            return Err(CommError::Freed { call });
        }
        self.any_engine(call)
    }

    /// Like [`engine`](Self::engine), also for a communicator that is being freed.
    #[inline]
    pub(crate) fn any_engine(&self, call: &'static str) -> CommResult<&Engine> {
        // The engine exists before any communicator; the error only satisfies the type.
        self.0.registry.engine().ok_or(CommError::Freed { call })
    }

    /// Gives every rank the contributions of all ranks, in rank order. Collective over this
    /// communicator only. The call is also a barrier: no rank returns before all ranks have called.
    pub fn exchange(&self, data: &[u8]) -> CommResult<Vec<Vec<u8>>> {
        let _entered = self.job().runtime().enter("exchange")?;
        let engine = self.any_engine("exchange")?;
        exchange(self.job(), engine, self.scope(), data)
    }

    /// Ends the communicator: collective. Waits until the collectives in progress have ended and every rank has
    /// called, then runs the destroy hooks from the lowest layer to the highest. All clones are freed with the
    /// communicator; windows over it continue to exist. The world is freed only when the rank leaves the job.
    pub fn free(self) -> CommResult<()> {
        let job = Arc::clone(self.job());
        let _entered = job.runtime().enter("free")?;
        if self.context() == 0 {
            return Err(CommError::BadArgument {
                call: "free",
                reason: "the world lasts as long as the job".to_owned(),
            });
        }
        self.end()
    }

    /// Frees any communicator, including the world.
    pub(crate) fn end(self) -> CommResult<()> {
        let call = "free";
        let engine = self.engine(call)?;
        // This wait comes before the mark, because a layer's collective may have to start others
        // here in order to end.
        engine.wait_until(self.job(), || self.0.layered.advance());
        if self.0.freed.swap(true, Ordering::SeqCst) {
            return Err(CommError::Freed { call });
        }
        self.drain(engine);
        let met = self.exchange(&[]).map(drop);
        let hooked = match self.0.seen.get() {
            Some(seen) => seen.destroy(&self),
            None => Ok(()),
        };
        if met.is_ok() {
            // The number is released only if no rank may still send messages with it.
            self.let_go();
        }
        met.and(hooked)
    }

    /// Ends the use of the context number, so that a new communicator may get it.
    fn let_go(&self) {
        // If the communicator was broken off, ranks may still send messages with the number.
        if self.scope().broken().is_none() {
            self.registry().contexts.release(self.context());
        }
    }

    /// Waits until no collective is in progress, and frees the data that layers kept for them.
    fn drain(&self, engine: &Engine) {
        let scope = self.scope();
        engine.wait_until(self.job(), || {
            self.0.layered.advance();
            scope.in_flight() == 0
        });
        self.0.layered.settle();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !*self.freed.get_mut() && self.seen.get().is_some() {
            tracing::warn!(
                context = self.scope.context(),
                "a communicator was dropped without being freed; its context stays in use"
            );
        }
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Comm")
            .field("context", &self.context())
            .field("rank", &self.rank())
            .field("members", &self.0.scope.members())
            .finish_non_exhaustive()
    }
}

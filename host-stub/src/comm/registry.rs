//! A process's data for all its communicators.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

use mca_params::Declaration;

use super::communicator::Comm;
use super::context::Contexts;
use super::error::{CommError, CommResult};
use super::hooks::Hooks;
use super::table::{Collectives, Tables};
use crate::crt::{self, Until};
use crate::job::{Job, Kept, LeaveError};
use crate::mailbox::Mailbox;
use crate::schedule::Engine;

/// Adds layers to a process's hooks.
pub(crate) type Register = fn(&Hooks);

/// The defaults of the first communicator, which the layer above provides.
pub(crate) struct Defaults {
    /// The host's own collectives.
    pub(crate) functions: Collectives,
    /// Reads the parameters, and returns the function that registers the host's own layers that
    /// they select.
    pub(crate) layers: fn(&Job) -> CommResult<Register>,
}

/// The data of a job for all its communicators.
#[derive(Default)]
pub(crate) struct Registry {
    engine: OnceLock<Arc<Engine>>,
    /// Kept until the rank leaves the job. The communicator refers to the job, which otherwise would never end.
    world: Mutex<World>,
    /// Whether the world is being made.
    making: AtomicBool,
    pub(super) contexts: Contexts,
    pub(crate) hooks: Hooks,
    pub(crate) tables: Tables,
}

/// The job's slot for the registry.
#[derive(Default)]
pub(crate) struct Comms(Arc<Registry>);

impl Kept for Comms {
    fn leave(&self) -> Result<(), LeaveError> {
        match self.0.take_world() {
            Some(world) => Ok(world.end()?),
            None => Ok(()),
        }
    }

    fn every_rank_left(&self) {
        if let Some(engine) = self.0.engine() {
            engine.every_rank_left();
        }
    }
}

impl Job {
    /// The hooks with which layers see communicators being made and freed.
    pub fn comm_hooks(&self) -> &Hooks {
        &Registry::of(self).hooks
    }
}

impl Registry {
    /// The registry of a job.
    pub(crate) fn of(job: &Job) -> &Arc<Registry> {
        &job.slot::<Comms>().0
    }

    /// The engine; `None` before the world is made.
    #[inline]
    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.engine.get().map(Arc::as_ref)
    }

    fn lock_world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The world. The first call makes the world, and other calls wait meanwhile. No lock is held
    /// while it is made, because its hooks may call here.
    pub(super) fn world(
        &self,
        job: &Arc<Job>,
        defaults: &Defaults,
        make: impl FnOnce() -> CommResult<Comm>,
    ) -> CommResult<Comm> {
        let caller = Caller::this();
        let _making = loop {
            let mut world = self.lock_world();
            match &*world {
                World::Made(world) => return Ok(world.clone()),
                World::Making(by) if *by == caller => {
                    return Err(CommError::BadArgument {
                        call: "world",
                        reason: "called by a create hook of the world, which is not made yet; the \
                                 hook is given it"
                            .to_owned(),
                    });
                }
                World::Making(_) => {}
                World::Left => return Err(CommError::Freed { call: "world" }),
                World::None => {
                    *world = World::Making(caller);
                    self.making.store(true, Ordering::Relaxed);
                    break MakingEnds(self);
                }
            }
            drop(world);
            let ended = Until(|| !self.making.load(Ordering::Acquire));
            let waited = job.runtime().engine().wait(&ended);
            waited.map_err(|code| CommError::Job {
                call: "world creation",
                reason: format!("progress failed with status {code}"),
            })?;
        };
        if self.engine.get().is_none() {
            self.prepare(job, defaults)?;
        }
        let made = make()?;
        *self.lock_world() = World::Made(made.clone());
        Ok(made)
    }

    /// Makes the data that all communicators need. Collective.
    fn prepare(&self, job: &Arc<Job>, defaults: &Defaults) -> CommResult<()> {
        let register = (defaults.layers)(job);
        // The other ranks learn of settings that this rank refuses, so that they do not wait for
        // it.
        let engine = connect(job, register.as_ref().err());
        let register = register?;
        let engine = Arc::new(engine?);
        // The steps above may be tried again after a failure; the steps below run once.
        register(&self.hooks);
        job.runtime().engine().add_source(engine.clone());
        // Only the call that makes the world sets this field.
        let _ = self.engine.set(engine);
        Ok(())
    }

    /// Takes the world out of the registry, so that it can be freed.
    pub(crate) fn take_world(&self) -> Option<Comm> {
        let mut world = self.lock_world();
        match std::mem::replace(&mut *world, World::Left) {
            World::Made(made) => Some(made),
            other => {
                *world = other;
                None
            }
        }
    }
}

/// The state of the world.
#[derive(Default)]
enum World {
    #[default]
    None,
    Making(Caller),
    Made(Comm),
    /// The rank is leaving the job.
    Left,
}

/// The calling thread, and the calling task on it, if there is one.
#[derive(PartialEq, Eq)]
struct Caller(ThreadId, usize);

impl Caller {
    fn this() -> Caller {
        Caller(std::thread::current().id(), crt::running_task())
    }
}

/// Guards the creation of the world. If the guard is dropped before a world exists, the next call tries
/// again.
struct MakingEnds<'a>(&'a Registry);

impl Drop for MakingEnds<'_> {
    fn drop(&mut self) {
        let mut world = self.0.lock_world();
        if matches!(&*world, World::Making(_)) {
            *world = World::None;
        }
        drop(world);
        // Release pairs with the Acquire of waiting threads.
        self.0.making.store(false, Ordering::Release);
    }
}

/// Whether a parameter is true.
pub(crate) fn is_set(job: &Job, parameter: &'static Declaration) -> CommResult<bool> {
    let value = job.params().declare(parameter);
    let value = value.map_err(|error| CommError::Job {
        call: "world creation",
        reason: error.to_string(),
    })?;
    Ok(value.as_bool() == Some(true))
}

/// Makes the mailboxes of all ranks. Collective. If `refused` contains this rank's reason to make none,
/// every rank gets an error.
fn connect(job: &Arc<Job>, refused: Option<&CommError>) -> CommResult<Engine> {
    let call = "world creation";
    let (me, ranks) = (job.rank() as usize, job.size() as usize);
    let failed = |error: &dyn std::fmt::Display| CommError::Job {
        call,
        reason: error.to_string(),
    };
    let local = match refused {
        Some(error) => Err(error.to_string()),
        None => Mailbox::new(job.transport(), me, ranks).map_err(|error| error.to_string()),
    };
    let card = match &local {
        Ok(mailbox) => [&[0], mailbox.card().as_slice()].concat(),
        Err(error) => [&[1], error.as_bytes()].concat(),
    };
    let cards = agreed(job, &card)?;
    let connected = local
        .map_err(|error| failed(&error))
        .and_then(|mut mailbox| {
            let endpoints: Result<Vec<_>, _> =
                (0..job.size()).map(|rank| job.endpoint(rank)).collect();
            let endpoints = endpoints.map_err(|error| failed(&error))?;
            mailbox
                .connect(&endpoints, &cards)
                .map_err(|error| failed(&error))?;
            Ok(mailbox)
        });
    // If this rank fails here, the other ranks must not get a world that lacks it.
    let said = match &connected {
        Ok(_) => vec![0],
        Err(error) => [&[1], error.to_string().as_bytes()].concat(),
    };
    agreed(job, &said)?;
    Ok(Engine::new(
        job.transport(),
        connected?,
        ranks,
        job.runtime().engine().busy(),
    ))
}

/// Exchanges data among all ranks behind a first byte of 0. If a rank sends another first byte, its
/// reason for not continuing follows, and the result is an error.
fn agreed(job: &Job, mine: &[u8]) -> CommResult<Vec<Vec<u8>>> {
    let mut all = job.allgather(mine).map_err(|error| CommError::Job {
        call: "world creation",
        reason: error.to_string(),
    })?;
    for (rank, said) in all.iter_mut().enumerate() {
        if said.first() != Some(&0) {
            let reason = said.get(1..).unwrap_or_default();
            return Err(CommError::Creation {
                rank,
                reason: String::from_utf8_lossy(reason).into_owned(),
            });
        }
        said.remove(0);
    }
    Ok(all)
}

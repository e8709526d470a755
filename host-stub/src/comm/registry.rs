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
use crate::crt::{self, Blocking};
use crate::job::{Job, Kept, LeaveError};
use crate::mailbox::Mailbox;
use crate::schedule::Engine;

/// Puts layers into a process's hooks.
pub(crate) type Register = fn(&Hooks);

/// The defaults that the layer above gives to the first communicator.
pub(crate) struct Defaults {
    /// The host's own collectives.
    pub(crate) functions: Collectives,
    /// Reads the parameters and registers those of the host's own layers that they ask for.
    pub(crate) layers: fn(&Job) -> CommResult<Register>,
}

/// Belongs to the job.
#[derive(Default)]
pub(crate) struct Registry {
    engine: OnceLock<Arc<Engine>>,
    /// Kept until the job is left; it refers to the job, which would not end otherwise.
    world: Mutex<World>,
    /// Whether it is being made.
    making: AtomicBool,
    pub(super) contexts: Contexts,
    pub(crate) hooks: Hooks,
    pub(crate) tables: Tables,
}

/// What a job keeps for its communicators.
#[derive(Default)]
pub(crate) struct Comms(Arc<Registry>);

impl Kept for Comms {
    fn leave(&self) -> Result<(), LeaveError> {
        match self.0.take_world() {
            Some(world) => Ok(world.end()?),
            None => Ok(()),
        }
    }
}

impl Job {
    /// Where layers register to see communicators come and go.
    pub fn comm_hooks(&self) -> &Hooks {
        &Registry::of(self).hooks
    }
}

impl Registry {
    /// That of a job.
    pub(crate) fn of(job: &Job) -> &Arc<Registry> {
        &job.slot::<Comms>().0
    }

    /// The engine; none before the world was made.
    #[inline]
    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.engine.get().map(Arc::as_ref)
    }

    fn lock_world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The world, which the first call makes; others wait meanwhile. Nothing is locked while it is
    /// being made, because its hooks may call.
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
            let waited = job.runtime().engine().wait(&Making(self));
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

    /// What all communicators need; collective.
    fn prepare(&self, job: &Arc<Job>, defaults: &Defaults) -> CommResult<()> {
        let register = (defaults.layers)(job);
        // The others hear of settings that this rank cannot take, and do not wait for it.
        let engine = connect(job, register.as_ref().err());
        let register = register?;
        let engine = Arc::new(engine?);
        // What fails above may be tried again; this is done once.
        register(&self.hooks);
        job.runtime().engine().add_source(engine.clone());
        // Set by the one that makes the world only.
        let _ = self.engine.set(engine);
        Ok(())
    }

    /// Takes the world away, to be freed.
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

/// Whether there is a world.
#[derive(Default)]
enum World {
    #[default]
    None,
    Making(Caller),
    Made(Comm),
    /// The job is being left.
    Left,
}

/// A thread, and the task on it that calls, if it is one.
#[derive(PartialEq, Eq)]
struct Caller(ThreadId, usize);

impl Caller {
    fn this() -> Caller {
        Caller(std::thread::current().id(), crt::running_task())
    }
}

/// A wait until the world is made, or was not.
struct Making<'a>(&'a Registry);

impl Blocking for Making<'_> {
    type Error = i32;

    fn is_done(&self) -> bool {
        !self.0.making.load(Ordering::Acquire)
    }

    fn look(&self) -> Result<(), i32> {
        Ok(())
    }

    fn progress_failed(&self, code: i32) -> i32 {
        code
    }
}

/// Guards the creation of the world. If it is dropped before a world exists, the next call tries again.
struct MakingEnds<'a>(&'a Registry);

impl Drop for MakingEnds<'_> {
    fn drop(&mut self) {
        let mut world = self.0.lock_world();
        if matches!(&*world, World::Making(_)) {
            *world = World::None;
        }
        drop(world);
        // Release: pairs with who waits.
        self.0.making.store(false, Ordering::Release);
    }
}

/// Whether a parameter is on.
pub(crate) fn is_set(job: &Job, parameter: &'static Declaration) -> CommResult<bool> {
    let value = job.params().declare(parameter);
    let value = value.map_err(|error| CommError::Job {
        call: "world creation",
        reason: error.to_string(),
    })?;
    Ok(value.as_bool() == Some(true))
}

/// Makes the mailboxes of all ranks; collective. An error at each if `refused` says why this one makes none.
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
    // A rank that fails here must not leave the others with a world that lacks it.
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

/// What all ranks say behind a first byte of 0; an error if one says something else, which is why it
/// cannot go on.
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

//! What a process keeps for all its communicators.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::communicator::Comm;
use super::context::Contexts;
use super::error::{CommError, CommResult};
use super::hooks::Hooks;
use crate::coll::node::{self, NODE_COLLECTIVES};
use crate::coll::{CHECK, Tables};
use crate::job::Job;
use crate::mailbox::Mailbox;
use crate::schedule::Engine;

/// Belongs to the job.
#[derive(Default)]
pub(crate) struct Registry {
    engine: OnceLock<Arc<Engine>>,
    /// Kept until the job is left; it refers to the job, which would not end otherwise.
    world: Mutex<Option<Comm>>,
    pub(super) contexts: Contexts,
    pub(crate) hooks: Hooks,
    pub(crate) tables: Tables,
    checked: AtomicBool,
}

impl Registry {
    /// The engine; none before the world was made.
    #[inline]
    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.engine.get().map(Arc::as_ref)
    }

    /// Whether ranks compare the arguments of their collectives.
    #[inline]
    pub(crate) fn checked(&self) -> bool {
        self.checked.load(Ordering::Relaxed)
    }

    /// The world, which the first call makes.
    pub(super) fn world(
        &self,
        job: &Arc<Job>,
        make: impl FnOnce() -> CommResult<Comm>,
    ) -> CommResult<Comm> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(world) = &*world {
            return Ok(world.clone());
        }
        if self.engine.get().is_none() {
            let is_set = |parameter| {
                let value = job.params().declare(parameter);
                let value = value.map_err(|error| CommError::Job {
                    call: "world creation",
                    reason: error.to_string(),
                })?;
                Ok(value.as_bool() == Some(true))
            };
            self.checked.store(is_set(&CHECK)?, Ordering::Relaxed);
            if is_set(&NODE_COLLECTIVES)? {
                node::register(&self.hooks);
            }
            let engine = Arc::new(connect(job)?);
            job.runtime().engine().add_source(engine.clone());
            // Set here only, behind the world's lock.
            let _ = self.engine.set(engine);
        }
        let made = make()?;
        *world = Some(made.clone());
        Ok(made)
    }

    /// Takes the world away, to be freed.
    pub(crate) fn take_world(&self) -> Option<Comm> {
        self.world
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

/// Makes the mailboxes of all ranks; collective.
fn connect(job: &Arc<Job>) -> CommResult<Engine> {
    let call = "world creation";
    let (me, ranks) = (job.rank() as usize, job.size() as usize);
    let failed = |error: &dyn std::fmt::Display| CommError::Job {
        call,
        reason: error.to_string(),
    };
    let local = Mailbox::new(job.transport(), me, ranks);
    let card = match &local {
        Ok(mailbox) => [&[0], mailbox.card().as_slice()].concat(),
        Err(error) => [&[1], error.to_string().as_bytes()].concat(),
    };
    let mut cards = job.allgather(&card).map_err(|error| failed(&error))?;
    for (rank, card) in cards.iter_mut().enumerate() {
        if card.first() != Some(&0) {
            let reason = card.get(1..).unwrap_or_default();
            return Err(CommError::Creation {
                rank,
                reason: String::from_utf8_lossy(reason).into_owned(),
            });
        }
        card.remove(0);
    }
    let mut mailbox = local.map_err(|error| failed(&error))?;
    let endpoints: Result<Vec<_>, _> = (0..job.size()).map(|rank| job.endpoint(rank)).collect();
    let endpoints = endpoints.map_err(|error| failed(&error))?;
    mailbox
        .connect(&endpoints, &cards)
        .map_err(|error| failed(&error))?;
    Ok(Engine::new(
        job.transport(),
        mailbox,
        ranks,
        job.runtime().engine().busy(),
    ))
}

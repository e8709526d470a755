//! The hooks of layers. The hooks are called for every communicator that is made, and for every
//! communicator that is freed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::communicator::Comm;
use super::error::{CommError, CommResult, HookError};
use super::layer::Layer;
use super::table::CollTable;

type Hook = Arc<dyn Fn(&Comm) -> Result<(), HookError> + Send + Sync>;

/// Hooks that were registered together: a create hook and the destroy hook that undoes it, or one of
/// them alone.
#[derive(Clone)]
struct Registration {
    create: Option<Hook>,
    destroy: Option<Hook>,
    /// Whether the other hook may still be added, when it is registered alone.
    open: bool,
}

/// The hooks of a process. Every rank registers the same layers, before the communicators that the
/// hooks must see are made. Any thread may call.
#[derive(Default)]
pub struct Hooks {
    layers: Mutex<BTreeMap<Layer, Vec<Registration>>>,
}

impl Hooks {
    /// Registers a function that is called with every new communicator and `param`, on every rank
    /// of the communicator. The function may communicate over the communicator with [`Comm::exchange`], in
    /// the same way on every rank, and override collectives with [`Comm::override_collectives`]. If a hook
    /// fails on one rank, the creation fails on all. The hooks that succeeded before are then
    /// undone by their destroy hooks, the last one first. The hook that failed cleans up itself.
    /// The communicator gets back the table that it had before this hook.
    ///
    /// Several hooks of one layer run in the order of their registration. The first create hook
    /// that was registered alone belongs to the layer's first destroy hook that was registered
    /// alone, and so on.
    pub fn register_create<P: Send + Sync + 'static>(
        &self,
        layer: Layer,
        hook: fn(&Comm, &P) -> Result<(), HookError>,
        param: P,
    ) {
        let hook: Hook = Arc::new(move |comm| hook(comm, &param));
        let mut layers = self.lock();
        let registered = layers.entry(layer).or_default();
        match registered.iter_mut().find(|r| r.open && r.create.is_none()) {
            Some(registration) => registration.create = Some(hook),
            None => registered.push(Registration {
                create: Some(hook),
                destroy: None,
                open: true,
            }),
        }
    }

    /// Registers a function that is called with every freed communicator and `param`. A failure of the function
    /// is reported, and the communicator is freed nevertheless.
    pub fn register_destroy<P: Send + Sync + 'static>(
        &self,
        layer: Layer,
        hook: fn(&Comm, &P) -> Result<(), HookError>,
        param: P,
    ) {
        let hook: Hook = Arc::new(move |comm| hook(comm, &param));
        let mut layers = self.lock();
        let registered = layers.entry(layer).or_default();
        match registered
            .iter_mut()
            .find(|r| r.open && r.destroy.is_none())
        {
            Some(registration) => registration.destroy = Some(hook),
            None => registered.push(Registration {
                create: None,
                destroy: Some(hook),
                open: true,
            }),
        }
    }

    /// Registers both hooks at once, with one parameter. The destroy hook is called exactly for the
    /// communicators for which the create hook succeeded.
    pub fn register<P: Send + Sync + 'static>(
        &self,
        layer: Layer,
        create: fn(&Comm, &P) -> Result<(), HookError>,
        destroy: fn(&Comm, &P) -> Result<(), HookError>,
        param: P,
    ) {
        let param = Arc::new(param);
        let its = Arc::clone(&param);
        self.lock().entry(layer).or_default().push(Registration {
            create: Some(Arc::new(move |comm| create(comm, &its))),
            destroy: Some(Arc::new(move |comm| destroy(comm, &param))),
            open: false,
        });
    }

    /// Removes a layer. All communicators that its hooks have seen must have been freed.
    pub fn unregister(&self, layer: Layer) {
        self.lock().remove(&layer);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Layer, Vec<Registration>>> {
        self.layers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hooks that are registered now. The hooks are taken once for each communicator, so that
    /// the hooks that saw its creation also see its end.
    pub(super) fn snapshot(&self) -> Seen {
        let layers = self.lock();
        let down = layers.iter().rev();
        Seen(
            down.flat_map(|(layer, all)| all.iter().map(|one| (*layer, one.clone())))
                .collect(),
        )
    }
}

/// The hooks that see one communicator, in the order in which they see its creation.
#[derive(Clone, Default)]
pub(super) struct Seen(Vec<(Layer, Registration)>);

/// A creation that failed.
pub(super) struct Failed {
    pub(super) error: CommError,
    /// Number of registrations that have seen the communicator. These registrations are the first in the list.
    pub(super) ran: usize,
    /// The table that the communicator had before the hook that failed on this rank.
    pub(super) table: Option<Arc<CollTable>>,
}

impl Seen {
    /// The data that must be equal on all ranks: the layers of all create hooks, in order.
    pub(super) fn shape(&self) -> Vec<u8> {
        let hooks = self.0.iter().filter(|(_, one)| one.create.is_some());
        hooks.flat_map(|(layer, _)| layer.0.to_le_bytes()).collect()
    }

    /// Runs the create hooks from the highest layer to the lowest. After each hook, the ranks
    /// exchange the results, so that no rank runs a later hook alone.
    pub(super) fn create(&self, comm: &Comm) -> Result<(), Failed> {
        for (index, (layer, registration)) in self.0.iter().enumerate() {
            let Some(hook) = &registration.create else {
                continue;
            };
            let table = comm.tables().shared();
            let outcome = hook(comm);
            let mine = match &outcome {
                Ok(()) => String::new(),
                Err(error) => format!("the create hook of layer {} failed: {error}", layer.0),
            };
            let agreed = comm.exchange(mine.as_bytes()).and_then(|all| {
                match all.iter().position(|said| !said.is_empty()) {
                    None => Ok(()),
                    Some(rank) => Err(CommError::Creation {
                        rank,
                        reason: String::from_utf8_lossy(&all[rank]).into_owned(),
                    }),
                }
            });
            if let Err(error) = agreed {
                return Err(Failed {
                    error,
                    // If this hook succeeded on this rank, it is undone as well.
                    ran: index + usize::from(outcome.is_ok()),
                    table: outcome.is_err().then_some(table),
                });
            }
        }
        Ok(())
    }

    /// Runs all destroy hooks, from the lowest layer to the highest.
    pub(super) fn destroy(&self, comm: &Comm) -> CommResult<()> {
        self.undo(self.0.len(), comm)
    }

    /// Runs the destroy hooks of the registrations that have seen the communicator, the last one
    /// first. The first failure is returned after all have run.
    pub(super) fn undo(&self, ran: usize, comm: &Comm) -> CommResult<()> {
        let mut outcome = Ok(());
        for (layer, registration) in self.0[..ran].iter().rev() {
            let Some(hook) = &registration.destroy else {
                continue;
            };
            if let Err(error) = hook(comm) {
                tracing::warn!("the destroy hook of layer {} failed: {error}", layer.0);
                outcome = outcome.and(Err(CommError::DestroyHook {
                    layer: layer.0,
                    reason: error.to_string(),
                }));
            }
        }
        outcome
    }
}

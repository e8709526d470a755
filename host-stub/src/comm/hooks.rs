//! What layers want to be called for: every communicator that is made, and every one that goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::communicator::Comm;
use super::error::{CommError, CommResult, HookError};

/// A layer: the higher the number, the nearer to the program. All hooks registered with one number
/// belong to one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layer(pub u32);

impl Layer {
    /// The host's node-local collectives.
    pub const NODE: Layer = Layer(100);
    /// Where a program puts its own layer, unless it knows better: above the host's.
    pub const PROGRAM: Layer = Layer(1000);
}

type Hook = Arc<dyn Fn(&Comm) -> Result<(), HookError> + Send + Sync>;

#[derive(Clone, Default)]
struct Entries {
    create: Vec<Hook>,
    destroy: Vec<Hook>,
}

/// The hooks of a process. Every rank registers the same layers, before the communicators that they
/// shall see. Any thread may call.
#[derive(Default)]
pub struct Hooks {
    layers: Mutex<BTreeMap<Layer, Entries>>,
}

impl Hooks {
    /// Registers a function that is called with every new communicator and `param`, on every rank
    /// of it. It may communicate over the communicator with [`Comm::exchange`], on every rank
    /// alike, and override its collectives with [`Comm::override_collectives`]. Its failure at one
    /// rank makes the creation fail at all; the layers above are then undone by their destroy
    /// hooks, and the failing layer cleans up for itself.
    pub fn register_create<P: Send + Sync + 'static>(
        &self,
        layer: Layer,
        hook: fn(&Comm, &P) -> Result<(), HookError>,
        param: P,
    ) {
        let hook: Hook = Arc::new(move |comm| hook(comm, &param));
        self.lock().entry(layer).or_default().create.push(hook);
    }

    /// Registers a function that is called with every communicator that is freed and `param`. Its
    /// failure is reported and ends nothing.
    pub fn register_destroy<P: Send + Sync + 'static>(
        &self,
        layer: Layer,
        hook: fn(&Comm, &P) -> Result<(), HookError>,
        param: P,
    ) {
        let hook: Hook = Arc::new(move |comm| hook(comm, &param));
        self.lock().entry(layer).or_default().destroy.push(hook);
    }

    /// Forgets a layer. Communicators that it has seen must be gone.
    pub fn unregister(&self, layer: Layer) {
        self.lock().remove(&layer);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Layer, Entries>> {
        self.layers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The layers as they are now, from the lowest to the highest. Taken once for a communicator,
    /// so that who saw it come also sees it go.
    pub(super) fn snapshot(&self) -> Seen {
        Seen(self.lock().iter().map(|(l, e)| (*l, e.clone())).collect())
    }
}

/// The layers that see one communicator.
#[derive(Clone, Default)]
pub(super) struct Seen(Vec<(Layer, Entries)>);

impl Seen {
    /// What the ranks have to have in common.
    pub(super) fn shape(&self) -> Vec<u8> {
        let layers = self.0.iter().filter(|(_, e)| !e.create.is_empty());
        layers
            .flat_map(|(layer, _)| layer.0.to_le_bytes())
            .collect()
    }

    /// Runs the create hooks from the highest layer to the lowest. After each layer the ranks tell
    /// each other how it went. Once one failed, gives the lowest layer that is to be undone here.
    pub(super) fn create(&self, comm: &Comm) -> Result<(), (usize, CommError)> {
        for (index, (layer, entries)) in self.0.iter().enumerate().rev() {
            if entries.create.is_empty() {
                continue;
            }
            let outcome = entries.create.iter().try_for_each(|hook| hook(comm));
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
                // Where this layer's hook went well, its work is undone as well.
                let from = if outcome.is_ok() { index } else { index + 1 };
                return Err((from, error));
            }
        }
        Ok(())
    }

    /// Runs the destroy hooks from a layer to the highest; 0 is the lowest. The first failure is
    /// returned after all have run.
    pub(super) fn destroy(&self, index: usize, comm: &Comm) -> CommResult<()> {
        let mut outcome = Ok(());
        for (layer, entries) in &self.0[index..] {
            for hook in entries.destroy.iter().rev() {
                if let Err(error) = hook(comm) {
                    tracing::warn!("the destroy hook of layer {} failed: {error}", layer.0);
                    outcome = outcome.and(Err(CommError::DestroyHook {
                        layer: layer.0,
                        reason: error.to_string(),
                    }));
                }
            }
        }
        outcome
    }
}

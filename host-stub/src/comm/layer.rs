//! Layers: their order, and the data that each attaches to a communicator.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};

/// A layer. The higher its number, the nearer it is to the program. All hooks registered with one
/// number belong to one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layer(pub u32);

impl Layer {
    /// The host's node-local collectives.
    pub const NODE: Layer = Layer(100);
    /// The default for a program's own layer: above the host's layers.
    pub const PROGRAM: Layer = Layer(1000);
}

type Kept = Arc<dyn Any + Send + Sync>;

/// The data of a communicator, by layer. There are only few.
#[derive(Default)]
pub(super) struct Attributes(RwLock<Vec<(Layer, Kept)>>);

impl Attributes {
    /// Attaches a layer's data. Returns the replaced data.
    pub(super) fn set(&self, layer: Layer, value: Kept) -> Option<Kept> {
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match kept.iter_mut().find(|(owner, _)| *owner == layer) {
            Some((_, old)) => Some(std::mem::replace(old, value)),
            None => {
                kept.push((layer, value));
                None
            }
        }
    }

    /// The data of a layer.
    pub(super) fn get(&self, layer: Layer) -> Option<Kept> {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (_, value) = kept.iter().find(|(owner, _)| *owner == layer)?;
        Some(Arc::clone(value))
    }

    /// Removes and returns the data of a layer.
    pub(super) fn take(&self, layer: Layer) -> Option<Kept> {
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let index = kept.iter().position(|(owner, _)| *owner == layer)?;
        Some(kept.swap_remove(index).1)
    }
}

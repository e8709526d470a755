//! Data that layers attach to a communicator.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};

use super::communicator::Comm;
use super::hooks::Layer;

type Kept = Arc<dyn Any + Send + Sync>;

/// Attributes by layer. There are only few.
#[derive(Default)]
pub(super) struct Attributes(RwLock<Vec<(Layer, Kept)>>);

impl Comm {
    /// Attaches a layer's data to this communicator. Returns the data that it replaces.
    pub fn set_attribute(&self, layer: Layer, value: Kept) -> Option<Kept> {
        let old = self.take_attribute(layer);
        let kept = &self.attributes().0;
        kept.write()
            .unwrap_or_else(PoisonError::into_inner)
            .push((layer, value));
        old
    }

    /// The data that a layer attached to this communicator, if it is a `T`.
    pub fn attribute<T: Send + Sync + 'static>(&self, layer: Layer) -> Option<Arc<T>> {
        let kept = self
            .attributes()
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let (_, value) = kept.iter().find(|(owner, _)| *owner == layer)?;
        Arc::clone(value).downcast().ok()
    }

    /// Removes and returns the data that a layer attached to this communicator.
    pub fn take_attribute(&self, layer: Layer) -> Option<Kept> {
        let mut kept = self
            .attributes()
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let index = kept.iter().position(|(owner, _)| *owner == layer)?;
        Some(kept.swap_remove(index).1)
    }
}

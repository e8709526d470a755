//! Operations by libfabric's provider.

mod atomics;
pub(crate) mod confirmation;
mod endpoints;
pub(crate) mod post;
mod rma;
mod unattributed;

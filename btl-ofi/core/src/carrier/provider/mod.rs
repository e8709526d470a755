//! Operations by libfabric's provider.

mod atomics;
pub(crate) mod confirmation;
pub(crate) mod post;
mod rma;
mod shut;
mod unattributed;

//! Operations by libfabric's provider.

mod atomics;
pub(crate) mod confirmation;
mod errors;
pub(crate) mod post;
mod queue;
mod rma;
mod shut;
mod unattributed;

//! The transport itself: contexts, posting, progress, flush and failures.

pub(crate) mod amo;
pub(crate) mod atomics;
pub(crate) mod context;
pub(crate) mod doubt;
mod error_completions;
pub(crate) mod failure;
pub(crate) mod flush;
pub(crate) mod liveness;
pub(crate) mod messages;
mod open;
pub(crate) mod peers;
pub(crate) mod post;
pub(crate) mod progress;
mod refusal;
pub(crate) mod ring_atomics;
mod ring_progress;
pub(crate) mod ring_transfers;
pub(crate) mod rma;
pub(crate) mod sends;
mod silence;
pub(crate) mod staging;
mod submit;
mod transfers;
pub(crate) mod transport;
mod trials;
pub(crate) mod typed_amo;

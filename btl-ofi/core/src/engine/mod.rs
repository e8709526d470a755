//! The transport itself: opening, peers, slow and fast paths by route, compound operations, progress, flush, failures and
//! closing.

pub(crate) mod amo;
mod apply;
pub(crate) mod atomics;
mod close;
mod cma_refused;
mod commands;
pub(crate) mod compound;
mod describe;
pub(crate) mod failure;
pub(crate) mod flush;
pub(crate) mod notify;
mod open;
pub(crate) mod peers;
pub(crate) mod progress;
mod rail_peers;
pub(crate) mod rails;
mod refusal;
mod registration;
pub(crate) mod rma;
pub(crate) mod sends;
mod silence;
pub(crate) mod staging;
mod stats;
mod submit;
pub(crate) mod transfers;
pub(crate) mod transport;
pub(crate) mod typed_amo;

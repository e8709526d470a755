//! Communicators: groups of a job's ranks with a context of their own.
//!
//! A [`Comm`] is made collectively from another communicator (dup, split, split by node, create); the
//! first is the [`world`](Comm::world). Layers are notified of every new and every freed
//! communicator: their [`Hooks`] run from the upper layer to the lower when a communicator is made,
//! and in the reverse order when it is freed.
//!
//! The collectives of a communicator are in [`crate::coll`]; windows are made over a communicator.

mod communicator;
mod context;
mod creation;
mod error;
mod exchange;
mod hooks;
mod layer;
mod members;
mod registry;
pub(crate) mod table;

pub use communicator::Comm;
pub use creation::UNDEFINED;
pub use error::{CommError, CommResult, HookError};
pub use hooks::Hooks;
pub use layer::Layer;
pub(crate) use registry::{Defaults, Register, is_set};

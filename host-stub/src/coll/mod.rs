//! Collectives: barrier, broadcast, reductions, gathers, scans, and their nonblocking forms.
//!
//! - Public calls (`calls`) check their arguments and go through the table that the communicator
//!   points to ([`CollTable`]).
//! - Layers override entries of that table when a communicator is made, and restore it when it is
//!   freed; a table knows the one that it overrides.
//! - The first table is the host's default (`defaults`): published `algorithms` as schedules over
//!   one-sided operations.
//! - [`node`] is a layer over it: ranks of one node through shared memory.

pub(crate) mod algorithms;
mod args;
mod calls;
mod checking;
mod defaults;
mod layered;
mod located;
pub mod node;
mod request;
mod table;
mod tables;

pub use args::{CollArgs, Collective};
pub(crate) use layered::Layered;
pub use layered::Pending;
pub use request::CollRequest;
pub use table::{Blocking, CollTable, Collectives, LayerData, Nonblocking};
pub(crate) use tables::{Stack, Tables};

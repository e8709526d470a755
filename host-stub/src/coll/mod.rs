//! Collectives: barrier, broadcast, reductions, gathers, scans, and their nonblocking forms.
//!
//! - Public calls (`calls`) check their arguments and go through the table that the communicator
//!   points to ([`CollTable`]).
//! - Layers override entries of that table when a communicator is made, and restore them when it is
//!   freed; a table refers to the table that it overrides.
//! - The first table is the host's default (`defaults`): published `algorithms` as schedules over
//!   one-sided operations.
//! - [`node`] is a layer above the default table: ranks of one node use shared memory.

pub(crate) mod algorithms;
mod calls;
mod defaults;
mod located;
pub mod node;
mod world;

pub use crate::comm::table::{
    BlockList, Blocking, CollArgs, CollRequest, CollTable, Collective, Collectives, LayerData,
    Nonblocking, Pending,
};

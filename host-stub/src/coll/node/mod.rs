//! A layer over the default collectives, for communicators whose ranks share a node. Barriers, and short broadcasts, reduces
//! and allreduces, use memory that all ranks have mapped. The layer uses only features of every layer: hooks, an override,
//! an attribute.
//!
//! Every rank has a line of counters, and two slots for each size class that only this rank writes. A collective is a
//! sequence of steps, numbered alike at every rank. In a step some ranks fill their slot and signal this (`ready`), and each
//! rank signals when it has finished its reads (`done`). A slot is filled again two steps later, when every rank is done
//! with it, so the filling of one slot overlaps with the reading of the other.
//!
//! For longer transfers, other collectives and all nonblocking entries, the overridden table is used.

mod exchange;
mod layer;
mod lines;
mod reduce;
mod state;

pub(crate) use layer::register;
pub use layer::{MOST, NODE_COLLECTIVES};

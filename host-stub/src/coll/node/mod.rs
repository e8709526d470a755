//! A layer over the default collectives: barrier, and short broadcasts, reduces and allreduces, of communicators whose ranks
//! share a node go through memory that all of them have mapped. It uses what any layer has: hooks, an override, an
//! attribute.
//!
//! Every rank has a line of counters and two slots for each size class, which it alone writes. A
//! collective is a row of steps, numbered alike at every rank; in a step some ranks fill their
//! slot and say so (`ready`), and each says when it has read all that it
//! wanted (`done`). A slot is filled again two steps later, when everybody is done with it, so the
//! filling of one overlaps with the reading of the other.
//!
//! Longer ones, the other collectives and all nonblocking entries stay those of the table below.

mod exchange;
mod layer;
mod lines;
mod reduce;
mod state;

pub(crate) use layer::register;
pub use layer::{MOST, NODE_COLLECTIVES};

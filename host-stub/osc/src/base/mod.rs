//! The base of the engine: operations on elements, memory, and the identity of a process.
//!
//! - [`process`]: the identity of a process, for other processes of its machine.
//! - `named`: enumerations with names. `op`: operations on elements; `kernels`: their results; `arithmetic`: the same for a transport.
//! - `pages`: page-aligned memory; `segment`: memory that the ranks of a node share; `room`: a check that
//!   the node has enough of it.
//! - `turn`: a value with one user at a time.

mod arithmetic;
mod kernels;
mod named;
mod op;
mod pages;
pub mod process;
mod room;
mod segment;
mod turn;

pub use arithmetic::{CombineFn, apply_code, combine_elements};
pub(crate) use arithmetic::{OF_DOOR, combine_by_door};
pub use kernels::{combine, combine_into};
pub use op::{Op, type_name};
pub use pages::Pages;
pub use segment::{Card, HEADER as SEGMENT_HEADER, NoSegment, Segment};
pub use turn::{Turn, Turns};

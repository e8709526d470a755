//! What every layer stands on: settings, messages, operations, memory.
//!
//! - [`params`] and [`log`]: the plugin's and the host's settings and messages.
//! - [`process`]: the identity of a process, for others on its machine.
//! - [`trace`]: the file of a trace.
//! - `op`: operations on elements, and what they compute.
//! - `pages`: page-aligned memory; `segment`: memory that the ranks of a node share; `room`: whether there
//!   is as much.
//! - `turn`: a value with one user at a time.
//!
//! Nothing here knows a plugin, a rank's peers or a job.

pub mod log;
mod op;
mod pages;
pub mod params;
pub mod process;
mod room;
mod segment;
pub mod trace;
mod turn;

pub use op::{Op, combine, type_name};
pub(crate) use pages::Pages;
pub(crate) use segment::{Card, HEADER as SEGMENT_HEADER, NoSegment, Segment};
pub(crate) use turn::{Turn, Turns};

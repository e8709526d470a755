//! The foundation of every layer: settings and messages, and with them the base of the window
//! engine.
//!
//! - [`params`] and [`log`]: the plugin's and the host's settings and messages.
//! - [`trace`]: the file of a trace.
//!
//! Nothing here knows a plugin, a rank's peers or a job.

pub mod log;
pub mod params;
pub mod trace;

pub use osc_engine::base::process;
pub(crate) use osc_engine::base::{Card, Pages, Segment, Turn, Turns};
pub(crate) use osc_engine::base::{Op, combine_into, type_name};

//! Windows: memory of all ranks of a job, open to one-sided access, with MPI's semantics.
//!
//! They are the engine's ([`osc_engine::win`]). Of the host's own is [`Proxy`], by which devices use them.

mod proxy;

pub use crate::job::{HUGE_PAGES, TABLE};
pub use osc_engine::door::{Group, Members};
pub use osc_engine::win::*;
pub use proxy::Proxy;

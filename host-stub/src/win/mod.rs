//! Windows: memory of all ranks of a job, open to one-sided access, with MPI's semantics.
//!
//! The engine ([`osc_engine::win`]) implements the windows. The host adds [`Proxy`], through which devices
//! use windows.

mod proxy;

pub use crate::job::{HUGE_PAGES, TABLE};
pub use osc_engine::door::{Group, Members};
pub use osc_engine::win::*;
pub use proxy::Proxy;

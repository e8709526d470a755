//! A one-sided transport over libfabric: puts, gets and atomics between processes, and nothing else.
//!
//! The crate knows no host. A door (the plugin, the Open MPI component) resolves [`Options`], opens a
//! [`Transport`], publishes its [`address`](Transport::address), connects peers from theirs, registers
//! memory, and then moves bytes. `select` decides which provider, `policy` what makes a completion
//! visible at the target, `context` holds a lane to the provider with its lock, `post` is the common path
//! of what `rma` and `atomics` (`words`, `vectors`) post, `channel` that of atomics that do without the
//! provider and `ring_transfers` that of transfers which the target makes, `guard` has both survive windows that are not
//! mapped, `progress` completes them, `flush` waits for them. `reach` is whether the kernel lets this process reach a
//! peer's memory, `watch` finds peers that are gone or silent, `failure` reports what was lost with them.

#![allow(
    clippy::useless_conversion,
    reason = "libfabric's flags have other integer types in other releases of its headers"
)]

mod base;
mod engine;
mod fabric;
mod hmem;
mod mem;
mod op;
mod peer;
mod sm;

pub use base::capabilities::{Capabilities, ErrorReport};
pub use base::error::{CallError, Error};
pub use base::log;
pub use base::params::{DEFAULT_EXCLUDE, Options};
pub use engine::post::branch;
pub use engine::transport::Transport;
pub use fabric::registration::Region;
pub use fabric::select::{Candidate, survey};
pub use mem::handle::{HANDLE_SIZE, Handle};
pub use op::record::Completion;
pub use peer::endpoint::Endpoint;

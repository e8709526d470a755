//! A one-sided transport over libfabric: puts, gets and atomics between processes, and nothing else.
//!
//! The crate knows no host. A door (the plugin, the Open MPI component) resolves [`Options`], opens a
//! [`Transport`], publishes its [`address`](Transport::address), connects peers from theirs, registers
//! memory, and then moves bytes. `select` decides which provider, `policy` what makes a completion
//! visible at the target, `context` holds a lane to the provider with its lock, `post` is the common path
//! of what `rma` and `atomics` (`words`, `vectors`) post, `channel` that of atomics that do without the
//! provider and `small` that of transfers which the target makes, `guard` has both survive windows that are not
//! mapped, `progress` completes them, `flush` waits for them. `reach` is whether the kernel lets this process reach a
//! peer's memory, `watch` finds peers that are gone or silent, `failure` reports what was lost with them.

#![allow(
    clippy::useless_conversion,
    reason = "libfabric's flags have other integer types in other releases of its headers"
)]

mod address;
mod atomic_table;
mod atomics;
mod capabilities;
mod channel;
mod context;
mod device;
mod direct;
mod element;
mod endpoint;
mod endpoints;
mod environment;
mod error;
mod fabric;
mod failure;
mod flush;
mod guard;
mod hmem;
mod inbound;
mod liveness;
mod lock;
#[cfg(test)]
mod lock_tests;
pub mod log;
mod modex;
#[cfg(test)]
mod modex_hostile;
mod outbound;
mod params;
mod peers;
mod policy;
mod pool;
mod post;
mod progress;
mod reach;
mod record;
mod registration;
mod remains;
mod rights;
mod ring;
mod rma;
mod room;
mod segment;
mod select;
mod small;
mod sync;
mod tally;
mod transport;
mod vectors;
mod watch;
mod words;

pub use address::{HANDLE_SIZE, Handle};
pub use capabilities::{Capabilities, ErrorReport};
pub use endpoint::Endpoint;
pub use error::{CallError, Error};
pub use params::{DEFAULT_EXCLUDE, Options};
pub use post::branch;
pub use record::Completion;
pub use registration::Region;
pub use select::{Candidate, survey};
pub use transport::Transport;

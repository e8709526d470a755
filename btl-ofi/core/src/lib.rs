//! A one-sided transport over libfabric: puts, gets and atomics between processes, and nothing else.
//!
//! The crate knows no host. A door (the plugin, the Open MPI component) resolves [`Options`], opens a
//! [`Transport`], publishes its [`address`](Transport::address), connects peers from theirs, registers
//! memory, and then moves bytes.
//!
//! The folders are layers; each knows those above it in this table and no others. `fabric` and `sm` do not know each
//! other.
//!
//! | folder | holds |
//! | --- | --- |
//! | `base` | errors, lines, parameters, locks; what asks the kernel (`cma`, `environment`); accesses that survive a fault (`guard`) |
//! | `mem` | handles and rights, regions, copy functions of device memory |
//! | `peer` | endpoints and their table, addresses, outstanding counts, liveness, reach of a peer's memory |
//! | `op` | the record of an operation until it completes, arithmetic of atomics |
//! | `fabric` | provider selection, completion policy, libfabric's objects, registration |
//! | `sm` | segment, ring, payload pool, requester and responder of one node |
//! | `hmem` | what owner and initiator of a staged device window share |
//! | `engine` | contexts, posting, progress, flush, failures, and [`Transport`] |

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
pub use base::hints::branch;
pub use base::log;
pub use base::params::{DEFAULT_EXCLUDE, Options};
pub use engine::transport::Transport;
pub use fabric::registration::Region;
pub use fabric::select::{Candidate, survey};
pub use mem::handle::{HANDLE_SIZE, Handle};
pub use op::record::Completion;
pub use peer::endpoint::Endpoint;

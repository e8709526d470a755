//! Carriers: what brings an operation to its target and tells its end. Each offers posts, polls, and the end of what it has for a
//! peer; a carrier is given the [`Core`](crate::core::state::Core) and knows no route and nothing above it.
//!
//! | carrier | moves |
//! | --- | --- |
//! | `provider` | what libfabric's provider executes |
//! | `message` | commands that the target's processor executes, in batches |
//! | `ring` | commands and fragments through memory that local peers share |
//! | `mapped` | what this process does by instructions on memory that it maps |
//! | `cma` | copies by the kernel (`base::cma`); here is what follows when it refuses one |
//!
//! `command` hands atomics to the carrier of the peer's atomics. `poll` asks all of them what they brought; `refusal` is the answer to
//! a post for which a carrier has no room.

pub(crate) mod cma;
mod command;
pub(crate) mod mapped;
pub(crate) mod message;
mod poll;
pub(crate) mod provider;
mod refusal;
pub(crate) mod ring;

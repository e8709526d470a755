//! Carriers bring an operation to its target and report its end. Each offers posts, polls, and the end of what it has for a
//! peer; a carrier is given the [`Core`](crate::core::state::Core) and knows no route and nothing above it.
//!
//! | carrier | moves |
//! | --- | --- |
//! | `provider` | what libfabric's provider executes |
//! | `message` | commands that the target's processor executes, in batches |
//! | `ring` | commands and fragments through memory that local peers share |
//! | `mapped` | what this process does by instructions on memory that it maps |
//! | `own` | atomics of this transport to itself |
//!
//! Carriers do not use each other; `scripts/file_cycles.py` checks it. Carriers share `poll`, which asks all of them
//! what they brought, `queue`, in which the ends of the provider's operations and of messages arrive, `refusal`, the
//! answer to a post for which a carrier has no room, and `direct`, the end of what the calling thread makes itself.
//! Copies by the kernel need no carrier (`base::cma`); `engine::cma_refused` is what follows when it refuses one.

mod direct;
pub(crate) mod mapped;
pub(crate) mod message;
mod own;
mod poll;
pub(crate) mod provider;
mod queue;
mod refusal;
pub(crate) mod ring;

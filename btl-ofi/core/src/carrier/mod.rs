//! Carriers bring an operation to its target and report its end. Each carrier offers posts, polls, and the end of its
//! objects for a peer. A carrier gets the [`Core`](crate::core::state::Core), and depends on no route and on no layer
//! above.
//!
//! | carrier | moves |
//! | --- | --- |
//! | `provider` | operations that libfabric's provider executes |
//! | `message` | commands that the target's processor executes, in batches |
//! | `ring` | commands and fragments through memory that local peers share |
//! | `mapped` | instructions of this process on memory that it maps |
//! | `own` | atomics of this transport to itself |
//!
//! Carriers do not use each other; `scripts/file_cycles.py` checks it. Carriers share `poll`, which polls all of
//! them; `abandon`, which ends their operations to a failed peer; `queue`, in which the ends of the provider's
//! operations and of messages arrive; `refusal`, the answer to a post for which a carrier has no room; and `direct`,
//! the end of operations that the calling thread executes itself. Copies by the kernel need no carrier (`base::cma`);
//! `engine::cma_refused` handles the kernel's refusals.

mod abandon;
mod direct;
pub(crate) mod mapped;
pub(crate) mod message;
mod own;
mod poll;
pub(crate) mod provider;
mod queue;
mod refusal;
pub(crate) mod ring;

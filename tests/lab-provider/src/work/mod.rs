//! Operations, from their post to their completion: what an operation does (`operation`), what it notices of its
//! user meanwhile (`traps`), when it happens (`pending`), receives and their messages (`receiver`), and what counts
//! them (`tally`).

pub(crate) mod operation;
pub(crate) mod pending;
pub(crate) mod receiver;
pub(crate) mod traps;

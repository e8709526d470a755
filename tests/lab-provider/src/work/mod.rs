//! Operations, from their post to their completion: the effect of an operation (`operation`), the checks of its
//! user meanwhile (`traps`), its time (`pending`), receives and their messages (`receiver`), and the counts
//! (`tally`).

pub(crate) mod operation;
pub(crate) mod pending;
pub(crate) mod receiver;
pub(crate) mod traps;

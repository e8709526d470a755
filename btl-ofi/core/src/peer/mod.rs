//! Peers: endpoints and their table, address blobs, outstanding counts, liveness of local peers, and reach of their
//! memory.

pub(crate) mod address;
#[cfg(test)]
mod address_hostile;
pub(crate) mod endpoint;
pub(crate) mod liveness;
pub(crate) mod outstanding;
pub(crate) mod reach;
pub(crate) mod table;

//! Peers: endpoints and their table, address blobs, outstanding counts, liveness of local peers, access to their
//! memory, the networks that two of them share, trial connections, and the route of requests.

pub(crate) mod address;
#[cfg(test)]
mod address_hostile;
pub(crate) mod counters;
pub(crate) mod endpoint;
pub(crate) mod liveness;
pub(crate) mod networks;
pub(crate) mod outstanding;
pub(crate) mod rails;
pub(crate) mod reach;
pub(crate) mod route;
pub(crate) mod share;
pub(crate) mod table;
pub(crate) mod trial;

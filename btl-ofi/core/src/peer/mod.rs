//! Peers: their addresses, what is outstanding at them, and whether they live.

pub(crate) mod address;
#[cfg(test)]
mod address_hostile;
pub(crate) mod endpoint;
pub(crate) mod liveness;
pub(crate) mod outstanding;
pub(crate) mod reach;
pub(crate) mod table;

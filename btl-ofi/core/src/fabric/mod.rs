//! libfabric: selection of a provider, owners of its objects, memory registration, and the quirks of each provider.
//! Posting and progress are in `engine`.

pub(crate) mod addresses;
pub(crate) mod atomic_table;
pub(crate) mod confirmation;
pub(crate) mod device;
mod entries;
pub(crate) mod fids;
mod keys;
pub(crate) mod memory;
pub(crate) mod msg;
pub(crate) mod offer;
mod others;
pub(crate) mod own;
pub(crate) mod policy;
pub(crate) mod query;
pub(crate) mod quirks;
pub(crate) mod ranking;
pub(crate) mod region;
mod registered;
pub(crate) mod registration;
mod richer;
pub(crate) mod select;
pub(crate) mod shm_files;

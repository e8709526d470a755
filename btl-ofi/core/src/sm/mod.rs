//! Transport within one node: the shared-memory segment, its rings and payload pool, and both ends of a ring
//! (`requester`, `responder`). Calls to libfabric do not belong here.

pub(crate) mod channel;
mod mapping;
pub(crate) mod pool;
pub(crate) mod requester;
pub(crate) mod responder;
pub(crate) mod ring;
pub(crate) mod segment;

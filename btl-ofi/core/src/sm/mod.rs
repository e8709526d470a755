//! Transport within one node: the shared-memory segment, its rings and payload pool, and both ends of a ring
//! (`requester`, `server`). Calls to libfabric do not belong here.

pub(crate) mod channel;
pub(crate) mod mapped;
pub(crate) mod pool;
pub(crate) mod requester;
pub(crate) mod ring;
pub(crate) mod segment;
pub(crate) mod server;

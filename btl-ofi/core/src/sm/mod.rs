//! Memory of one node: rings in shared memory, both ends.

pub(crate) mod pool;
pub(crate) mod requester;
pub(crate) mod responder;
pub(crate) mod ring;
pub(crate) mod segment;

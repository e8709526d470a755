//! Operations: the request of one, its record until it completes, the arithmetic of atomics, and the
//! responder that executes the commands of peers.

pub(crate) mod apply;
pub(crate) mod completion;
pub(crate) mod element;
pub(crate) mod marked;
pub(crate) mod record;
pub(crate) mod request;
pub(crate) mod responder;
pub(crate) mod tag;

//! Compound operations. Each consists of other operations, its parts.
//!
//! | operation | parts |
//! | --- | --- |
//! | a put with notification, if one operation cannot carry both | the put, then the atomic (`notices`) |
//! | a large transfer over several rails | fragments (`stripes`) |
//!
//! A compound operation has its own record with the caller's completion, and counts as outstanding from the call on.
//! The parts of a compound operation count as operations of their own. So a flush that begins between two parts also
//! waits for the later part, and the failure of a peer is reported from the record as for any operation.
//!
//! The callback of a part only records an event, and progress acts on the event. Meanwhile other threads are locked out of
//! the operation, so this thread must not poll: a poll runs callbacks (`core::quiet`). The next progress retries parts for
//! which the provider had no room.

pub(super) mod advance;
pub(super) mod notices;
pub(super) mod state;
mod stripe;
mod stripes;

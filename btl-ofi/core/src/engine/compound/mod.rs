//! Compound operations: each is made of others, its parts.
//!
//! | operation | parts |
//! | --- | --- |
//! | a put with notification, where one cannot carry both | the put, then the atomic (`notices`) |
//! | a large transfer over several rails | pieces (`stripes`) |
//! | a large transfer over TCP | pieces (`streams`) |
//!
//! A compound operation has a record of its own, with the caller's completion, and counts as outstanding from the call on.
//! Its parts are operations that count beside it. So a flush that begins between two parts waits for the later one too, and
//! the failure of a peer is reported from the record like that of any operation.
//!
//! The callbacks of parts only note what happened, and progress acts on it. While it acts, the operation is locked against other
//! threads, so nothing is polled: a poll runs callbacks (`core::quiet`). The next progress retries parts that found no room.

pub(super) mod advance;
pub(super) mod flights;
pub(super) mod notices;
pub(super) mod state;
pub(super) mod stream;
pub(super) mod streams;
mod stripe;
mod stripes;

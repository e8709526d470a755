//! Requests: operations for which a program can wait one by one.

pub(super) mod handle;
pub(super) mod notice;
pub(super) mod request_state;

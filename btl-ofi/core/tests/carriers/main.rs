//! The carriers of operations between two transports: messages, the provider; and their counters.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

mod apply;
mod checked;
mod counters;
mod fenced;
mod loopback;
mod messages;
mod messages_gets;
mod notify;
mod notify_failures;
mod sends;

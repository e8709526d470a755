//! Peers of one node: rings, copies by the kernel, mapped memory, and the rights of regions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../lab/mod.rs"]
mod lab;

mod channel;
mod channel_gone;
mod mapped;
mod pool;
mod rights;
mod small;
mod unusable;

//! Device memory; a simulated device makes the copies.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

mod device_async;
mod device_gone;
mod device_lanes;
mod device_stream;
mod device_turns;

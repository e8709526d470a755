//! Programs over the lab provider (`tests/lab-provider`); each test runs in separate processes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]
#![allow(
    clippy::redundant_closure,
    reason = "closures name the tests that processes run"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../lab/mod.rs"]
mod lab;

mod lab_atomics;
mod lab_device;
mod lab_limits;
mod lab_lost;
mod lab_messages;
mod lab_messages_both;
mod lab_messages_peers;
mod lab_modes;
mod lab_notify;
mod lab_opening;
mod lab_order;
mod lab_order_failures;
mod lab_rails;
mod lab_regions;
mod lab_reports;
mod lab_sends;
mod lab_slow;

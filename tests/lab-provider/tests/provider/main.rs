//! Tests of the provider itself.

#![allow(
    clippy::useless_conversion,
    reason = "libfabric's flags have other integer types in other releases of its headers"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod bench;
mod device;
mod late_writes;
mod message_endpoints;
mod messages;
mod regions;
mod violations;

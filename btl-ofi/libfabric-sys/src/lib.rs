//! Raw bindings to the installed libfabric, generated from its headers at build time, and the
//! `static inline` calls of those headers that the transport needs, written out in Rust.
//!
//! Nothing here judges or converts: values, errors and ownership are libfabric's own (see its man
//! pages). libfabric's ABI is versioned, so a build against an older release runs on a newer one;
//! what a newer release added must be guarded with [`fi_version`].

mod calls;
#[allow(
    missing_docs,
    reason = "generated from C headers that carry their own documentation"
)]
#[allow(unreachable_pub, reason = "generated")]
#[allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "C names"
)]
#[allow(unnecessary_transmutes, reason = "generated")]
#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;
pub use calls::*;

/// An address that stands for no address (`fi_domain.h`).
pub const FI_ADDR_NOTAVAIL: fi_addr_t = u64::MAX;
/// An address that lets the provider choose (`fabric.h`).
pub const FI_ADDR_UNSPEC: fi_addr_t = u64::MAX;
/// What `fi_mr_key` returns while the provider has no key yet (`fi_domain.h`).
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;

/// Packs a version as libfabric does (`FI_VERSION`).
pub const fn version(major: u32, minor: u32) -> u32 {
    (major << 16) | (minor & 0xffff)
}

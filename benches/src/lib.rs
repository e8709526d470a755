//! Code that the measuring programs share: becoming ranks of a job, statistics, and the files that the report is
//! made of.

#![warn(missing_docs)]

pub mod part;
pub mod ranks;
pub mod shared;
pub mod statistics;
pub mod target;

/// The value of `btl_ofi_same_node` for measurements of a provider. Such measurements use the provider's own
/// operations, but measurements over shm use the paths within a node.
pub fn same_node(provider: &str) -> &'static str {
    if provider == "shm" { "auto" } else { "off" }
}

//! The host for C programs: `libhost_stub.so`. One file per group of functions; `host_stub.h` is made
//! from them.
//!
//! Every function is one guarded call: arguments are checked for NULL, a panic becomes
//! [`HOST_ERR_PANIC`](error::HOST_ERR_PANIC), and an error leaves its text for
//! [`host_error_text`](error::host_error_text). Handles are addresses of boxes, and belong to their caller until the call that ends them.
#![allow(
    non_camel_case_types,
    reason = "the names of types are those that C programs see"
)]

pub mod codes;
pub mod coll;
pub mod coll_layers;
pub mod coll_reduce;
pub mod coll_request;
pub mod coll_table;
pub mod comm;
pub mod comm_hooks;
pub mod crt;
pub mod device;
pub mod device_own;
pub mod epochs;
pub mod error;
pub mod finalize;
mod handles;
pub mod job;
pub mod memory;
pub mod omp;
pub mod request;
pub mod rma;
mod slots;
pub mod sync;
mod tables;
pub mod update;
pub mod win;
mod win_entries;
pub mod win_hooks;
pub mod win_layers;
pub mod win_over;
pub mod win_query;
pub mod win_table;

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

pub mod crt;
pub mod error;
pub mod job;
pub mod omp;
pub mod request;
pub mod rma;
pub mod sync;
pub mod win;

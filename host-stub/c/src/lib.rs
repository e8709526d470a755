//! The host for C programs: `libhost_stub.so`. cbindgen makes
//! `host_stub.h` from these functions.
//!
//! Folders are layers, the lowest first: `base` < `job`, `crt` < `device`, `comm` < `coll` | `win` < `finalize`.
//!
//! Every function is one guarded call: arguments are checked for NULL, a panic becomes
//! [`HOST_ERR_PANIC`](base::error::HOST_ERR_PANIC), and an error leaves its text for
//! [`host_error_text`](base::error::host_error_text). Handles of communicators, hints and
//! collective requests are numbers that are never reused; windows are addresses. A handle belongs to its caller until the call that ends it.
#![allow(
    non_camel_case_types,
    reason = "the names of types are those that C programs see"
)]

pub mod base;
pub mod coll;
pub mod comm;
pub mod crt;
pub mod device;
pub mod finalize;
pub mod job;
pub mod win;

//! The gate of system calls: the one module of this crate through which they pass.
//!
//! Each function is one call, with Rust types, and fails with a [`CallError`]: the C name of the call and its `errno`.
//! The caller decides how a failure is handled. A function is safe if the kernel checks its arguments.
//!
//! In unit tests a [`script`] may answer a call in place of the kernel, to test errors that this machine does not
//! produce. Other builds contain no code of the script: the functions of the data path are inlined and cost only the
//! call.
//!
//! Outside of the gate remain:
//! - the standard library's own files, threads and environment, except for files of `/proc` on which decisions depend;
//! - `malloc`, `free` and `strdup` of `fabric/fids.rs`, which are no system calls. libfabric frees such memory;
//! - the calls of libfabric and of device drivers.
//!
//! Error numbers and flags are `libc`'s constants everywhere.

use std::io;

use super::error::CallError;

/// In unit tests, returns the script's answer to a call, if there is one, from the enclosing function. The
/// second argument distinguishes calls of one name in the script.
#[cfg(test)]
macro_rules! scripted {
    ($call:literal) => {
        scripted!($call, $call)
    };
    ($call:literal, $key:expr) => {
        if let Some(answer) = super::script::answer($call, $key) {
            return answer;
        }
    };
}
#[cfg(not(test))]
macro_rules! scripted {
    ($($argument:expr),*) => {};
}

mod files;
mod memory;
mod network;
mod process;
#[cfg(test)]
pub(crate) mod script;
#[cfg(test)]
pub(crate) mod tests;
mod time;

pub(crate) use files::{
    add_seals, allocate, memory_file, names, read, read_link, seals, set_blocking,
};
pub(crate) use memory::{
    is_readable, is_writable, map_shared, map_zeros, process_vm_readv, process_vm_writev,
    replace_by_zeros, unmap,
};
pub(crate) use network::{
    InterfaceAddress, connect, connection_waits, find_route, interface_addresses, interface_index,
    peek, stream_socket,
};
pub(crate) use process::{
    at_fork, descriptor_limits, effective_user, file_size_limit, find_process, is_descriptor_left,
    page_size, permit_tracing, random, set_descriptor_limits, threads,
};
pub(crate) use time::{block_signals, monotonic, with_signals_blocked};

/// The error of the call that just failed on this thread.
#[cold]
#[inline(never)]
fn failed(call: &'static str) -> CallError {
    from_io(call, &io::Error::last_os_error())
}

/// The error of a call that the standard library made.
#[cold]
fn from_io(call: &'static str, error: &io::Error) -> CallError {
    let code = error.raw_os_error().unwrap_or(libc::EIO);
    CallError { call, code }
}

/// The result of a call that returns -1 on failure.
fn checked(call: &'static str, rc: libc::c_int) -> Result<libc::c_int, CallError> {
    if rc < 0 { Err(failed(call)) } else { Ok(rc) }
}

//! What an OpenMP runtime looks for that has a tool interface (OMPT).

use std::ffi::{c_char, c_uint, c_void};
use std::panic::catch_unwind;
use std::ptr::null_mut;

use host::crt::start_tool;

/// The function by which OpenMP runtimes find a tool. It offers one only where `host_wait_report` is set, and no other tool is
/// found.
///
/// cbindgen:ignore
///
/// # Safety
/// An OpenMP runtime calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompt_start_tool(version: c_uint, runtime: *const c_char) -> *mut c_void {
    // SAFETY: the runtime's own arguments.
    catch_unwind(|| unsafe { start_tool(version, runtime) }).unwrap_or(null_mut())
}

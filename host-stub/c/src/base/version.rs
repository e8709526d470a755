//! The version of the library and of its header.

use std::ffi::{CStr, c_char, c_int};

/// Major version of this header. The string is HOST_VERSION.
pub const HOST_VERSION_MAJOR: c_int = 0;
/// Minor version of this header.
pub const HOST_VERSION_MINOR: c_int = 2;
/// Patch version of this header.
pub const HOST_VERSION_PATCH: c_int = 0;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

/// The version of the library that the program runs with, such as "0.2.0". A program can compare this
/// version with HOST_VERSION, the version of the header that the program was compiled with. The text is
/// static; any thread may call, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn host_library_version() -> *const c_char {
    VERSION.as_ptr()
}

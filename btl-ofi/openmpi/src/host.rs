//! Checks that the Open MPI that loaded this library is the one that the library was built for.

use std::ffi::CStr;

use crate::bindings as ffi;
use crate::series;

/// The version of the Open MPI that loaded this library.
fn host_version() -> String {
    // SAFETY: libopen-pal of every series exports this NUL-terminated constant.
    unsafe { CStr::from_ptr((&raw const ffi::opal_version_string).cast()) }
        .to_string_lossy()
        .into_owned()
}

/// Checks that the host is of the series, and of the configuration, whose structures this library was compiled with.
pub(crate) fn fits_host() -> Result<(), String> {
    let version = host_version();
    let refused = |built_for: &str, why: &str| {
        Err(format!(
            "this component was built for {built_for} and steps aside: it was loaded by {version}{why}. Build it against \
             that installation, or take its folder out of mca_base_component_path"
        ))
    };
    if !version
        .trim_start_matches(['v', ' '])
        .starts_with(series::VERSION_PREFIX)
    {
        return refused(&format!("Open MPI {}x", series::VERSION_PREFIX), "");
    }
    // SAFETY: the function reads constants of libopen-pal, and returns NULL or a constant.
    let other = unsafe { ffi::mca_btl_ofi_host_other_structure() };
    if other.is_null() {
        return Ok(());
    }
    // SAFETY: not NULL, so a NUL-terminated constant.
    let other = unsafe { CStr::from_ptr(other) }.to_string_lossy();
    let why = format!(", in which {other} has another size (debug and CUDA builds differ)");
    refused("another configuration of Open MPI", &why)
}

//! The component's name and description.

use std::ffi::CStr;

/// The component's name. `ofi` replaces the C component of this name if Open MPI loads that one from a file. If Open
/// MPI's core library contains the C component (the default of 5.0), the C component always takes precedence, and this
/// one is named `ofi_rs`.
pub(crate) const NAME: &CStr = if cfg!(name_taken) { c"ofi_rs" } else { c"ofi" };

/// One line for `ompi_info` and logs.
pub(crate) fn description() -> String {
    format!(
        "{} {} in Rust, built for Open MPI {}",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION"),
        env!("MCA_BTL_OFI_HEADERS")
    )
}

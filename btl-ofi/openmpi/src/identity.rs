//! The component's name and description.

use std::ffi::CStr;

/// The component's name. `ofi` replaces the C component of this name if Open MPI loads that one from a file. `ofi_rs`
/// stands beside it: the packages have that name, and so has a component for an Open MPI whose core library contains the C
/// component (the default of 5.0), which always takes precedence.
pub(crate) const NAME: &CStr = if cfg!(beside) { c"ofi_rs" } else { c"ofi" };

/// Whether the C component `ofi` may be loaded as well.
pub(crate) const BESIDE_C: bool = cfg!(beside);

/// One line for `ompi_info` and logs.
pub(crate) fn description() -> String {
    format!(
        "{} {} in Rust, built for Open MPI {}",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION"),
        env!("MCA_BTL_OFI_HEADERS")
    )
}

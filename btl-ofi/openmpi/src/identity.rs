//! What the component is called, and what it says of itself.

use std::ffi::CStr;

/// The component's name: `ofi`, so that it takes the place of the system's component that is loaded from a file.
/// Where Open MPI's core library holds that one (5.0 as it is built by default), it comes first in any case, and
/// ours goes by a name of its own.
pub(crate) const NAME: &CStr = if cfg!(name_taken) { c"ofi_rs" } else { c"ofi" };

/// What this is, for people.
pub(crate) fn description() -> String {
    format!(
        "{} {} in Rust, built for Open MPI {}",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION"),
        env!("MCA_BTL_OFI_HEADERS")
    )
}

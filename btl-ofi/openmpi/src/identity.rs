//! The name and the description of the component `btl`, and the encoding of names in the structures of both components.

use std::ffi::{CStr, c_char, c_int};

/// The name of both components. Open MPI's own `btl/ofi` may be loaded as well: 5.0 and later have it in their core library.
pub(crate) const NAME: &CStr = c"ofi_rs";

/// One line for `ompi_info` and logs.
pub(crate) fn description() -> String {
    format!(
        "{} {} in Rust, built for Open MPI {}",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION"),
        env!("MCA_BTL_OFI_HEADERS")
    )
}

/// A name as one of the structure's arrays, padded with zeros. A name that is too long does not compile.
pub(crate) const fn name<const N: usize>(text: &CStr) -> [c_char; N] {
    let bytes = text.to_bytes_with_nul();
    let mut out = [0; N];
    let mut i = 0;
    while i < bytes.len() {
        out[i] = bytes[i] as c_char;
        i += 1;
    }
    out
}

/// Parses a decimal number of the manifest.
pub(crate) const fn number(text: &str) -> c_int {
    let bytes = text.as_bytes();
    let mut value = 0;
    let mut i = 0;
    while i < bytes.len() {
        value = value * 10 + (bytes[i] - b'0') as c_int;
        i += 1;
    }
    value
}

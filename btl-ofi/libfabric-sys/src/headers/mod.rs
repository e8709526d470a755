//! The declarations of libfabric's headers, in two files that refer to each other as the headers do: `generated` by
//! bindgen, and `grown` by hand.

mod generated;
mod grown;

pub use generated::*;
pub use grown::*;
pub use opaque::*;

/// An entry of a table that nobody calls here, so that its arguments do not matter.
pub type Unused = unsafe extern "C" fn() -> isize;

/// Structures that this crate uses only by address.
#[allow(non_camel_case_types, reason = "C names")]
mod opaque {
    macro_rules! opaque {
        ($($name:ident)*) => {
            $(
                /// Used only by address.
                #[repr(C)]
                pub struct $name {
                    _unknown: [u8; 0],
                }
            )*
        };
    }

    opaque! {
        fid_wait fi_device_attr fi_bus_attr fi_ops_tagged fi_ops_collective
    }
}

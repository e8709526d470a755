//! The declarations of libfabric's headers, in two files that refer to each other as the headers do: `generated` by
//! bindgen, and `grown` by hand.

mod generated;
mod grown;

pub use generated::*;
pub use grown::*;
pub use opaque::*;

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
        fid_eq fid_pep fid_poll fid_stx fid_wait fid_av_set fid_mc
        fi_device_attr fi_bus_attr fi_eq_attr fi_wait_attr fi_poll_attr fi_av_set_attr fi_collective_attr
        fi_ops_tagged fi_ops_collective
    }
}

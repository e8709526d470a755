//! Raw bindings of libfabric 1.14 and newer, and Rust versions of the `static inline` functions of its headers that the
//! transport uses.
//!
//! The repository contains the bindings; the build does not generate them. `examples/regenerate.rs` generates
//! `bindings`; `grown` is written by hand. `tests/layout.rs` compares both with the installed headers.
//!
//! This crate does not check or convert anything: values, errors and ownership are libfabric's (see its man pages).
//! libfabric's ABI is versioned, so a build against an older release runs on a newer one. Check [`fi_version`] before
//! the use of a feature that a later release added.

#[allow(
    missing_docs,
    non_camel_case_types,
    reason = "C names, documented in libfabric's man pages"
)]
#[allow(
    clippy::no_effect,
    clippy::type_complexity,
    clippy::identity_op,
    clippy::unnecessary_operation,
    reason = "C function tables, and compile-time assertions in bindgen's form"
)]
mod bindings;
mod calls;
#[allow(
    missing_docs,
    non_camel_case_types,
    reason = "C names, documented in libfabric's man pages"
)]
#[allow(
    clippy::no_effect,
    clippy::type_complexity,
    clippy::identity_op,
    clippy::unnecessary_operation,
    reason = "C function tables, and compile-time assertions in bindgen's form"
)]
mod grown;

pub use bindings::*;
pub use calls::*;
pub use grown::*;
pub use opaque::*;

/// Packs a version as libfabric does (`FI_VERSION`).
pub const fn version(major: u32, minor: u32) -> u32 {
    (major << 16) | (minor & 0xffff)
}

/// The last kind of device memory that a release supports, by its version. Providers use a kind as an index into a
/// table, so a larger value is unsafe.
pub const fn newest_hmem_iface(installed: u32) -> fi_hmem_iface {
    if installed >= version(1, 16) {
        FI_HMEM_SYNAPSEAI
    } else if installed >= version(1, 15) {
        FI_HMEM_NEURON
    } else {
        FI_HMEM_ZE
    }
}

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

/// Implements `Default` as all zero, the default of libfabric's man pages.
macro_rules! default_is_zero {
    ($($name:ident)*) => {
        $(
            impl Default for $name {
                fn default() -> Self {
                    // SAFETY: the structure holds integers, pointers and optional functions; zero is a valid value of
                    // each.
                    unsafe { std::mem::zeroed() }
                }
            }
        )*
    };
}

default_is_zero! {
    fi_atomic_attr fi_av_attr fi_cntr_attr fi_context fi_context2 fi_cq_attr fi_cq_entry fi_cq_err_entry fi_mr_attr
    fi_provider
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_releases_know_fewer_kinds_of_memory() {
        assert_eq!(newest_hmem_iface(version(1, 14)), FI_HMEM_ZE);
        assert_eq!(newest_hmem_iface(version(1, 15)), FI_HMEM_NEURON);
        assert_eq!(newest_hmem_iface(version(1, 17)), FI_HMEM_SYNAPSEAI);
        assert_eq!(newest_hmem_iface(version(2, 1)), FI_HMEM_SYNAPSEAI);
    }
}

//! Raw bindings of libfabric 1.14 and newer, and Rust versions of the `static inline` functions of its headers that the
//! transport uses.
//!
//! The repository contains the bindings (`headers`); the build does not generate them. `examples/regenerate.rs`
//! generates `headers/generated.rs`; `headers/grown.rs` is written by hand. `tests/layout.rs` compares both with the
//! installed headers.
//!
//! This crate does not check or convert anything: values, errors and ownership are libfabric's (see its man pages).
//! Nothing is linked: [`load`] opens the library, so that a program without it can say what to do. The functions of
//! libfabric are taken by their versions of release 1.14, which newer releases have too. Check [`fi_version`] before the use
//! of a feature that a later release added.

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
mod headers;
mod library;

pub use calls::*;
pub use headers::*;
pub use library::{fi_dupinfo, fi_fabric, fi_freeinfo, fi_getinfo, fi_strerror, fi_version, load};

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
    fi_atomic_attr fi_av_attr fi_context fi_context2 fi_cq_attr fi_cq_entry fi_cq_err_entry
    fi_cq_msg_entry fi_mr_attr fi_provider
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

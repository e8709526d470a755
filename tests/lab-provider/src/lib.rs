//! `lab`, a libfabric provider for tests. The provider presents any combination of registration modes, context
//! modes and limits, fails on demand, and reports violations by its user.
//!
//! libfabric loads the provider from a directory in `FI_PROVIDER_PATH` under the name `liblab-fi.so`. The
//! provider moves bytes between processes of one node with `process_vm_readv` and `process_vm_writev`, so
//! targets need no progress of their own; everything happens when the initiator reads its completion queue.
//! Memory of devices (`LAB_HMEM`) is the exception: its owner copies it, when it reads a queue. A message
//! waits in its receiver's mailbox until the receiver reads its queue.
//! `config` lists the environment that shapes the provider. The provider serves only functions that a
//! one-sided transport calls.
//!
//! Layers, lowest first, one folder each: `base` (settings, reports, arithmetic); `reach` (memory and messages that
//! peers reach); `work` (operations between post and completion); `objects` (libfabric's fids and their calls).
//! `info` lists the offered providers. Within `objects`, files use each other like libfabric's tables: for example,
//! a domain opens endpoints and queues.

#![allow(
    clippy::useless_conversion,
    reason = "libfabric's flags have other integer types in other releases of its headers"
)]

mod base;
mod info;
mod objects;
mod reach;
mod work;

use std::ffi::CString;
use std::sync::OnceLock;

use libfabric_sys as ffi;

/// The provider's name, unless the environment gives another.
pub const NAME: &str = "lab";

struct Provider(ffi::fi_provider);

// SAFETY: libfabric owns the structure once it has loaded the library, and serialises its use.
unsafe impl Send for Provider {}
// SAFETY: libfabric owns the structure once it has loaded the library, and serialises its use.
unsafe impl Sync for Provider {}

/// The entry point that libfabric requires of a library.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut ffi::fi_provider {
    static PROVIDER: OnceLock<Provider> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| {
        let name = std::env::var("LAB_NAME").unwrap_or_else(|_| String::from(NAME));
        // The name is never freed, because it belongs to the static provider.
        let name = CString::new(name).unwrap_or_default().into_raw();
        Provider(ffi::fi_provider {
            version: ffi::version(1, 0),
            // SAFETY: fi_version takes no arguments and returns a number. The interface used here
            // is the same in every version that the bindings can be made from.
            fi_version: unsafe { ffi::fi_version() },
            name,
            getinfo: Some(info::getinfo),
            fabric: Some(objects::fabric::open),
            cleanup: Some(base::report::cleanup),
            ..Default::default()
        })
    });
    (&raw const provider.0).cast_mut()
}

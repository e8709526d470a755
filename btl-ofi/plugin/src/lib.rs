//! `libbtl_ofi.so`: the transport behind the plugin ABI.
//!
//! Every function of the tables is one guarded call: pointers are checked for NULL, codes are
//! converted, and a panic becomes a status and a log line. What the functions mean is written in
//! `plugin-api`; what they do, in the transport.

mod component;
mod guard;
mod handles;
mod modex;
mod module;
mod params;

use plugin_api::{ComponentVtable, HostVtable, Status};

use crate::guard::guarded;

/// The entry that hosts look up ([`plugin_api::ENTRY_SYMBOL`]).
///
/// # Safety
/// As [`plugin_api::EntryFn`]: `host` is NULL or a host's table, `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn btl_plugin_entry_v1(
    host: *const HostVtable,
    out: *mut *const ComponentVtable,
) -> Status {
    guarded("entry", || {
        if out.is_null() {
            return Status::BAD_PARAM;
        }
        // SAFETY: the caller vouches for a table or NULL.
        if unsafe { HostVtable::check(host) }.is_err() {
            return Status::TYPE_MISMATCH;
        }
        // SAFETY: not NULL, and writable by contract.
        unsafe { *out = &component::TABLE };
        Status::SUCCESS
    })
}

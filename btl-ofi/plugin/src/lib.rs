//! `libbtl_ofi.so`: the transport behind the plugin ABI.
//!
//! What lives here: the tables of the ABI. Each function is one guarded call: it checks pointers for NULL, converts
//! codes and turns a panic into a status and a log line. `plugin-api` documents the functions; the crate `btl-ofi`
//! (imported as `transport`) does the work.

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
/// The contract of [`plugin_api::EntryFn`]: `host` is NULL or a host's table, `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn btl_plugin_entry_v1(
    host: *const HostVtable,
    out: *mut *const ComponentVtable,
) -> Status {
    guarded("entry", || {
        if out.is_null() {
            return Status::BAD_PARAM;
        }
        // SAFETY: the host passes NULL or a table that starts with its header.
        if unsafe { HostVtable::check(host) }.is_err() {
            return Status::TYPE_MISMATCH;
        }
        // SAFETY: `out` is not NULL; the host passes a writable pointer.
        unsafe { *out = &component::TABLE };
        Status::SUCCESS
    })
}

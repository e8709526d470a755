//! The transport behind the plugin ABI, as a library: `libbtl_ofi.so` is made of it (`so/`), and programs in Rust may link it.
//!
//! This crate holds the tables of the ABI. Each function is one guarded call: it checks pointers for NULL, converts
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

/// Checks the host's table and returns the component's table.
///
/// # Safety
/// The contract of [`plugin_api::EntryFn`]: `host` is NULL or a host's table, `out` is NULL or writable.
pub unsafe extern "C" fn entry(
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

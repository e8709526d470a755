//! `libbtl_ofi.so`: the symbol that hosts look up. Everything behind it is in the crate `btl-ofi-vtable`.

use plugin_api::{ComponentVtable, HostVtable, Status};

/// The entry that hosts look up ([`plugin_api::ENTRY_SYMBOL`]).
///
/// # Safety
/// The contract of [`plugin_api::EntryFn`]: `host` is NULL or a host's table, `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn btl_plugin_entry_v1(
    host: *const HostVtable,
    out: *mut *const ComponentVtable,
) -> Status {
    // SAFETY: passed on to the caller.
    unsafe { btl_ofi_vtable::entry(host, out) }
}

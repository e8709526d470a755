//! `libbtl_ofi.so`: the symbol that hosts look up. The crate `btl-ofi-vtable` has all other code.

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
    // SAFETY: the caller guarantees both pointers.
    unsafe { btl_ofi_vtable::entry(host, out) }
}

//! Open MPI's own library `common/ofi`, which registers the parameters that all components over libfabric share.
//!
//! Where it is there, it registers them for this component as for the others. Were they registered here first, that
//! library would register them again for the next component, over storage of its own, and what was given by one of
//! this component's names would be forgotten.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::{transmute, zeroed};

use crate::bindings as ffi;
use crate::series;

type Register = unsafe extern "C" fn(*const ffi::mca_base_component_t) -> c_int;

const FUNCTION: &CStr = c"opal_common_ofi_mca_register";

/// Has the shared parameters registered, with synonyms for `component`. False where the library is not there.
pub(crate) fn register(component: *const ffi::mca_base_component_t) -> bool {
    let Some(function) = find() else {
        return false;
    };
    // SAFETY: the function of this name takes a component, from which it copies names, and returns an OPAL_* code.
    let function = unsafe { transmute::<*mut c_void, Register>(function) };
    // SAFETY: as above, with a component that is never freed.
    unsafe { function(component) == 0 }
}

/// The library's function: in the host's core library (5.0), else in a library beside it (4.1).
fn find() -> Option<*mut c_void> {
    let look = |library: *mut c_void| {
        // SAFETY: a live handle and a NUL-terminated name.
        let symbol = unsafe { libc::dlsym(library, FUNCTION.as_ptr()) };
        (!symbol.is_null()).then_some(symbol)
    };
    look(libc::RTLD_DEFAULT).or_else(|| {
        let path = beside_core(series::COMMON_OFI?)?;
        // SAFETY: a library of the running Open MPI, whose components load it the same way. All its symbols are
        // resolved now, so that one which is missing is found out here. It is never closed: it remembers what it
        // registered.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!library.is_null()).then_some(library).and_then(look)
    })
}

/// The path of a library that lies beside the core library of the running Open MPI.
fn beside_core(name: &CStr) -> Option<CString> {
    // SAFETY: numbers and pointers, for which zero is a value.
    let mut found = unsafe { zeroed::<libc::Dl_info>() };
    let here: *const c_char = (&raw const ffi::opal_version_string).cast();
    // SAFETY: the address of one of the core library's symbols, and a structure to fill in.
    if unsafe { libc::dladdr(here.cast(), &raw mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gives a NUL-terminated path that lives as long as the library.
    let core = unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes();
    let folder = &core[..=core.iter().rposition(|&byte| byte == b'/')?];
    CString::new([folder, name.to_bytes()].concat()).ok()
}

//! Open MPI's own library `common/ofi`, which registers the parameters that all components over libfabric share.
//!
//! If other components use the library, it registers the parameters for this component too. If this component registered them
//! first, the library would register them again for the next component, with its own storage, and Open MPI would forget values
//! that were set by this component's synonyms. Where none uses it, the library is not loaded: it loads libfabric, which takes
//! 0.2 s where libfabric has libraries of psm.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::{transmute, zeroed};

use mca_params::{Kind, Value};

use crate::bindings as ffi;
use crate::params::admits;
use crate::series;
use crate::storage::Variable;

type Register = unsafe extern "C" fn(*const ffi::mca_base_component_t) -> c_int;

/// The names of a [`Register`], the first that the library has. Early releases of 4.1 have both, and there the second function
/// takes and returns nothing and registers nothing.
const FUNCTIONS: [&CStr; 2] = [
    c"opal_common_ofi_register_mca_variables",
    c"opal_common_ofi_mca_register",
];

/// Lets the library register the shared parameters, with synonyms for `component`. False without the library.
pub(crate) fn register(component: *const ffi::mca_base_component_t) -> bool {
    let Some(function) = find() else {
        return false;
    };
    // SAFETY: in 4.1 and 5.0 the first of these names that exists is a function that takes a component and returns an OPAL_*
    // code.
    let function = unsafe { transmute::<*mut c_void, Register>(function) };
    // SAFETY: the function copies names from the component, which is never freed.
    unsafe { function(component) == 0 }
}

/// The library's function: in the host's core library (5.0), else in a library beside it (4.1).
fn find() -> Option<*mut c_void> {
    let lookup = |library: *mut c_void| {
        // SAFETY: `library` is a live handle, and the name is NUL-terminated.
        let symbol = |name: &CStr| unsafe { libc::dlsym(library, name.as_ptr()) };
        FUNCTIONS
            .into_iter()
            .map(symbol)
            .find(|symbol| !symbol.is_null())
    };
    lookup(libc::RTLD_DEFAULT).or_else(|| {
        let path = beside_core(series::COMMON_OFI.filter(|_| others_may_use_it())?)?;
        // RTLD_NOW: a missing symbol makes this call fail, not a later one. The library is never closed, because it
        // keeps the variables that it registered.
        // SAFETY: the path is NUL-terminated and names a library of the running Open MPI, whose components load it the
        // same way.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!library.is_null()).then_some(library).and_then(lookup)
    })
}

/// Whether Open MPI may load a component of its own over libfabric: btl/ofi, or mtl/ofi for messages by pml/cm. If the list of pmls
/// is not in the environment, which has those of mpirun's options, it may admit cm.
fn others_may_use_it() -> bool {
    let btls = Variable::of_framework(c"btl").and_then(|list| list.value(Kind::String));
    let btls = btls.as_ref().and_then(Value::as_str).unwrap_or_default();
    let pmls = std::env::var("OMPI_MCA_pml").unwrap_or_default();
    admits(btls, "ofi") || admits(&pmls, "cm")
}

/// The path of a library in the folder of the running Open MPI's core library.
fn beside_core(name: &CStr) -> Option<CString> {
    // SAFETY: the structure holds numbers and pointers; zero is a valid value of each.
    let mut found = unsafe { zeroed::<libc::Dl_info>() };
    let here: *const c_char = (&raw const ffi::opal_version_string).cast();
    // SAFETY: `here` is the address of a symbol of the core library, and `found` is writable.
    if unsafe { libc::dladdr(here.cast(), &raw mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: `dladdr` wrote a NUL-terminated path that lives as long as the library.
    let core = unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes();
    let folder = &core[..=core.iter().rposition(|&byte| byte == b'/')?];
    CString::new([folder, name.to_bytes()].concat()).ok()
}

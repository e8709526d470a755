//! The library itself: opened when it is first used, and its functions.
//!
//! Each function has the arguments and results of libfabric's, and fails as libfabric's does if the library is missing.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::OnceLock;

use crate::headers::{FI_ENOSYS, fi_fabric_attr, fi_info, fid_fabric};

/// The file, by its ABI version, which 1.x and 2.x share.
const FILE: &CStr = c"libfabric.so.1";

const NOT_LOADED: &CStr = c"libfabric.so.1 is not loaded";

/// Generates the table of functions: each with its version and type.
macro_rules! functions {
    ($($name:ident: $version:literal, $type:ty;)*) => {
        struct Functions {
            $($name: $type,)*
        }

        impl Functions {
            fn find(library: *mut c_void) -> Result<Functions, String> {
                Ok(Functions {
                    // SAFETY: the function of this name and version has this type in every release.
                    $($name: unsafe { transmute::<*mut c_void, $type>(symbol(library, stringify!($name), $version)?) },)*
                })
            }
        }
    };
}

functions! {
    fi_getinfo: "FABRIC_1.3", unsafe extern "C" fn(
        u32, *const c_char, *const c_char, u64, *const fi_info, *mut *mut fi_info,
    ) -> c_int;
    fi_freeinfo: "FABRIC_1.3", unsafe extern "C" fn(*mut fi_info);
    fi_dupinfo: "FABRIC_1.3", unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
    fi_fabric: "FABRIC_1.1", unsafe extern "C" fn(
        *mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void,
    ) -> c_int;
    fi_strerror: "FABRIC_1.0", unsafe extern "C" fn(c_int) -> *const c_char;
    fi_version: "FABRIC_1.0", unsafe extern "C" fn() -> u32;
}

/// The text of the dynamic loader's last error.
fn loader_error() -> String {
    // SAFETY: dlerror has no precondition.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::from("no reason is given");
    }
    // SAFETY: dlerror returned a NUL-terminated string, which lives until the thread's next call of the loader.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

fn symbol(library: *mut c_void, name: &str, version: &str) -> Result<*mut c_void, String> {
    let (name_c, version_c) = (format!("{name}\0"), format!("{version}\0"));
    // SAFETY: the library is open, and both strings end with NUL.
    let found = unsafe { libc::dlvsym(library, name_c.as_ptr().cast(), version_c.as_ptr().cast()) };
    if found.is_null() {
        return Err(format!("{name} of {version}: {}", loader_error()));
    }
    Ok(found)
}

/// Opens the library once. The library is never closed, because its providers may have threads.
fn functions() -> Result<&'static Functions, &'static str> {
    static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
    FUNCTIONS
        .get_or_init(|| {
            // SAFETY: the name is NUL-terminated. Loading runs the initialisers of the library, which its users ask for.
            let library = unsafe { libc::dlopen(FILE.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            if library.is_null() {
                return Err(loader_error());
            }
            Functions::find(library)
        })
        .as_ref()
        .map_err(String::as_str)
}

/// Opens the library, if it is not open yet. The error comes from the dynamic loader.
pub fn load() -> Result<(), &'static str> {
    functions().map(drop)
}

/// `-FI_ENOSYS`, the result of a function that is missing.
const MISSING: c_int = -(FI_ENOSYS as c_int);

/// The packed version of the library; 0 without one.
///
/// # Safety
/// As for libfabric's function.
pub unsafe fn fi_version() -> u32 {
    // SAFETY: the function has no precondition.
    functions().map_or(0, |f| unsafe { (f.fi_version)() })
}

/// libfabric's text for an error number; never NULL.
///
/// # Safety
/// As for libfabric's function.
pub unsafe fn fi_strerror(errnum: c_int) -> *const c_char {
    // SAFETY: the function accepts any number.
    functions().map_or(NOT_LOADED.as_ptr(), |f| unsafe { (f.fi_strerror)(errnum) })
}

/// Queries providers (fi_getinfo(3)).
///
/// # Safety
/// As for libfabric's function.
pub unsafe fn fi_getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    functions().map_or(MISSING, |f| {
        // SAFETY: the caller keeps libfabric's contract.
        unsafe { (f.fi_getinfo)(version, node, service, flags, hints, info) }
    })
}

/// Frees a list of `fi_getinfo` or `fi_dupinfo`.
///
/// # Safety
/// As for libfabric's function.
pub unsafe fn fi_freeinfo(info: *mut fi_info) {
    if let Ok(f) = functions() {
        // SAFETY: the caller keeps libfabric's contract.
        unsafe { (f.fi_freeinfo)(info) };
    }
}

/// Copies an entry, or makes an empty one for NULL; NULL without memory.
///
/// # Safety
/// As for libfabric's function.
pub unsafe fn fi_dupinfo(info: *const fi_info) -> *mut fi_info {
    // SAFETY: the caller keeps libfabric's contract.
    functions().map_or(null_mut(), |f| unsafe { (f.fi_dupinfo)(info) })
}

/// Opens a fabric (fi_fabric(3)).
///
/// # Safety
/// As for libfabric's function.
pub unsafe fn fi_fabric(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller keeps libfabric's contract.
    functions().map_or(MISSING, |f| unsafe { (f.fi_fabric)(attr, fabric, context) })
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::version;

    #[test]
    fn the_installed_library_has_every_function() {
        load().expect("libfabric is installed where this is tested");
        // SAFETY: the function has no precondition.
        assert!(unsafe { fi_version() } >= version(1, 14));
        // SAFETY: the function accepts any number and returns a NUL-terminated string.
        let text = unsafe { CStr::from_ptr(fi_strerror(FI_ENOSYS as c_int)) };
        assert_ne!(text, NOT_LOADED);
    }

    #[test]
    fn a_version_that_a_library_lacks_is_named() {
        // SAFETY: the name is NUL-terminated, and the library is open already or installed.
        let library = unsafe { libc::dlopen(FILE.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null());
        let error = symbol(library, "fi_getinfo", "FABRIC_0.9").expect_err("no such version");
        assert!(error.starts_with("fi_getinfo of FABRIC_0.9: "), "{error}");
    }
}

//! The component structure that Open MPI looks up by name, and its functions: register, open, init, progress, close.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int};
use std::mem::size_of;
use std::ptr::null_mut;
use std::sync::Mutex;

use btl_ofi::Options;
use plugin_api::{Status, ThreadLevel};

use crate::bindings as ffi;
use crate::entries;
use crate::guard::guarded;
use crate::identity::NAME;
use crate::log;
use crate::module::Module;
use crate::params;
use crate::series;

/// The parameters' values between register and close, or what is wrong with them.
static OPTIONS: Mutex<Option<Result<Options, String>>> = Mutex::new(None);

/// The structure that Open MPI finds by its symbol. In a cell because the host owns it from then on.
#[repr(transparent)]
pub(crate) struct Exported(UnsafeCell<ffi::mca_btl_base_component_3_0_0_t>);

// SAFETY: this library only takes the structure's address; the host, which may write to it, does so while it loads
// components, on one thread.
unsafe impl Sync for Exported {}

/// Open MPI looks for exactly this symbol in `mca_btl_<name>.so`.
#[cfg_attr(name_taken, unsafe(export_name = "mca_btl_ofi_rs_component"))]
#[cfg_attr(not(name_taken), unsafe(export_name = "mca_btl_ofi_component"))]
static COMPONENT: Exported = Exported(UnsafeCell::new(ffi::mca_btl_base_component_3_0_0_t {
    btl_version: ffi::mca_base_component_2_1_0_t {
        mca_major_version: ffi::MCA_BASE_VERSION_MAJOR as c_int,
        mca_minor_version: ffi::MCA_BASE_VERSION_MINOR as c_int,
        mca_release_version: ffi::MCA_BASE_VERSION_RELEASE as c_int,
        mca_project_name: name(c"opal"),
        mca_project_major_version: ffi::OPAL_MAJOR_VERSION as c_int,
        mca_project_minor_version: ffi::OPAL_MINOR_VERSION as c_int,
        mca_project_release_version: ffi::OPAL_RELEASE_VERSION as c_int,
        mca_type_name: name(c"btl"),
        mca_type_major_version: series::BTL_INTERFACE.0,
        mca_type_minor_version: series::BTL_INTERFACE.1,
        mca_type_release_version: series::BTL_INTERFACE.2,
        mca_component_name: name(NAME),
        // Open MPI's own components bear its version here; ours is how `ompi_info` tells them apart.
        mca_component_major_version: number(env!("CARGO_PKG_VERSION_MAJOR")),
        mca_component_minor_version: number(env!("CARGO_PKG_VERSION_MINOR")),
        mca_component_release_version: number(env!("CARGO_PKG_VERSION_PATCH")),
        mca_open_component: Some(open),
        mca_close_component: Some(close),
        mca_query_component: None,
        mca_register_component_params: Some(register),
        mca_component_flags: 0,
        reserved: [0; 28],
    },
    btl_data: ffi::mca_base_component_data_2_0_0_t {
        // MCA_BASE_METADATA_PARAM_NONE: no checkpoints.
        param_field: 0,
        reserved: [0; 32],
    },
    btl_init: Some(init),
    btl_progress: Some(progress),
}));

/// A name in one of the structure's arrays, padded with zeros. A name that is too long does not compile.
const fn name<const N: usize>(text: &CStr) -> [c_char; N] {
    let bytes = text.to_bytes_with_nul();
    let mut out = [0; N];
    let mut i = 0;
    while i < bytes.len() {
        out[i] = bytes[i] as c_char;
        i += 1;
    }
    out
}

/// The number that a decimal text of the manifest stands for.
const fn number(text: &str) -> c_int {
    let bytes = text.as_bytes();
    let mut value = 0;
    let mut i = 0;
    while i < bytes.len() {
        value = value * 10 + (bytes[i] - b'0') as c_int;
        i += 1;
    }
    value
}

/// The structure's address.
fn exported() -> *mut ffi::mca_btl_base_component_3_0_0_t {
    COMPONENT.0.get()
}

/// The version of the Open MPI that loaded this library.
fn host_version() -> String {
    // SAFETY: libopen-pal of every series exports this constant NUL-terminated string.
    unsafe { CStr::from_ptr((&raw const ffi::opal_version_string).cast()) }
        .to_string_lossy()
        .into_owned()
}

/// Whether the structures that this library was compiled with are those of the host.
fn fits_host() -> Result<(), String> {
    let version = host_version();
    if version
        .trim_start_matches(['v', ' '])
        .starts_with(series::VERSION_PREFIX)
    {
        return Ok(());
    }
    Err(format!(
        "this component was built for Open MPI {}x and steps aside: it was loaded by {version}. Build it against \
         that release, or take its folder out of mca_base_component_path",
        series::VERSION_PREFIX
    ))
}

/// Registers the parameters and reads them at once: another component may register the shared ones again later, and
/// Open MPI then forgets what was given by a synonym.
///
/// A value that cannot be used makes the component step aside at `init`, with a line that names it. Failing here
/// would end the whole program where a user asked for `ofi` among other transports. The same where the host is of
/// another series.
extern "C" fn register() -> c_int {
    guarded("register", Status::ERROR.0, || {
        if let Err(reason) = fits_host() {
            // Said here, where `ompi_info` comes by too. Without options `init` offers nothing.
            log::line(&reason);
            return Status::SUCCESS.0;
        }
        if let Err(reason) = params::register(entries::functions(exported())) {
            log::line(&reason);
            return Status::ERROR.0;
        }
        let options = params::resolve();
        if let Ok(mut kept) = OPTIONS.lock() {
            *kept = Some(options.map_err(|e| e.to_string()));
        }
        Status::SUCCESS.0
    })
}

extern "C" fn open() -> c_int {
    Status::SUCCESS.0
}

/// Nothing is left to wait for: finalising the module closed what it held.
extern "C" fn close() -> c_int {
    guarded("close", Status::ERROR.0, || {
        if let Ok(mut kept) = OPTIONS.lock() {
            *kept = None;
        }
        Status::SUCCESS.0
    })
}

/// Makes the one module. NULL when no provider can be used; Open MPI goes on with other transports.
unsafe extern "C" fn init(
    count: *mut c_int,
    _progress_threads: bool,
    mpi_threads: bool,
) -> *mut *mut ffi::mca_btl_base_module_t {
    guarded("init", null_mut(), || {
        if count.is_null() {
            return null_mut();
        }
        // SAFETY: Open MPI passes the address of an int.
        unsafe { *count = 0 };
        let options = match OPTIONS.lock().ok().and_then(|kept| kept.clone()) {
            Some(Ok(options)) => options,
            Some(Err(reason)) => {
                log::line(&format!("{reason}; the component steps aside"));
                return null_mut();
            }
            None => return null_mut(),
        };
        log::install(options.verbosity());
        // Without MPI_THREAD_MULTIPLE calls still come from several threads, one at a time.
        let level = if mpi_threads {
            ThreadLevel::Multiple
        } else {
            ThreadLevel::Serialized
        };
        let module = match Module::open(entries::functions(exported()), options, level) {
            Ok(module) => module,
            Err(reason) => {
                let said = if params::names_providers() { 0 } else { 1 };
                log::verbose(said, || {
                    let reason = reason
                        .lines()
                        .map(str::trim)
                        .collect::<Vec<_>>()
                        .join("; ")
                        .replace(":; ", ": ");
                    format!(
                        "the component steps aside, and Open MPI goes on with its other transports: {reason}"
                    )
                });
                return null_mut();
            }
        };
        // Open MPI frees the array, so that it must come from malloc.
        // SAFETY: a plain allocation.
        let modules = unsafe { libc::malloc(size_of::<*mut ffi::mca_btl_base_module_t>()) }
            .cast::<*mut ffi::mca_btl_base_module_t>();
        if modules.is_null() {
            Module::end(module);
            return null_mut();
        }
        // SAFETY: `modules` has room for one pointer; `count` was checked above.
        unsafe {
            *modules = module.as_ptr().cast();
            *count = 1;
        }
        modules
    })
}

/// Reads completions and runs callbacks. May be called from a callback: no lock is held while one runs.
unsafe extern "C" fn progress() -> c_int {
    guarded("progress", 0, || match Module::current() {
        Some(module) => c_int::try_from(module.transport().progress()).unwrap_or(c_int::MAX),
        None => 0,
    })
}

//! The component structure that Open MPI looks up by name, and its functions: register, open, init, progress, close.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::size_of;
use std::ptr::null_mut;
use std::sync::Mutex;

use btl_ofi::Options;
use plugin_api::{Status, ThreadLevel};

use crate::bindings as ffi;
use crate::btl::entries;
use crate::btl::live;
use crate::btl::live::Live;
use crate::btl::module::Module;
use crate::btl::params;
use crate::guard::guarded;
use crate::host::fits_host;
use crate::identity::{NAME, name, number};
use crate::log;
use crate::pvars;
use crate::series;

/// The parameters' values between `register` and `close`, or the reason why they cannot be used.
static OPTIONS: Mutex<Option<Result<Options, String>>> = Mutex::new(None);

/// The structure that Open MPI finds by its symbol. The structure is in a cell because the host may
/// write to it.
#[repr(transparent)]
pub(crate) struct Exported(UnsafeCell<ffi::mca_btl_base_component_3_0_0_t>);

// SAFETY: this library only takes the structure's address. The host writes to the structure only while it loads
// components, on one thread.
unsafe impl Sync for Exported {}

/// The symbol that Open MPI looks up in `mca_btl_ofi_rs.so`.
#[unsafe(export_name = "mca_btl_ofi_rs_component")]
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
        // Open MPI's own components have Open MPI's version here. This crate's version lets `ompi_info` tell the two
        // components apart.
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
        // MCA_BASE_METADATA_PARAM_NONE: no support for checkpoints.
        param_field: 0,
        reserved: [0; 32],
    },
    btl_init: Some(init),
    btl_progress: Some(progress),
}));

fn exported() -> *mut ffi::mca_btl_base_component_3_0_0_t {
    COMPONENT.0.get()
}

/// Registers the parameters and reads them at once: another component may register the shared ones again later, and
/// Open MPI then forgets values that were set by a synonym.
///
/// If a value cannot be used, or the host is of another series, the component logs the reason and offers no module at
/// `init`. A failure here would end the program even if the user listed other transports beside this one.
extern "C" fn register() -> c_int {
    guarded("register", Status::ERROR.0, || {
        if let Err(reason) = fits_host() {
            // Logged here and not in `init`, because `ompi_info` calls only this function. Without options `init`
            // offers no module.
            log::line(&reason);
            return Status::SUCCESS.0;
        }
        let registered = params::register(entries::functions(exported()));
        pvars::register(exported().cast(), pvars::counters::<Live>());
        let options = registered.and_then(|()| params::resolve().map_err(|e| e.to_string()));
        if let Ok(mut kept) = OPTIONS.lock() {
            *kept = Some(options);
        }
        Status::SUCCESS.0
    })
}

extern "C" fn open() -> c_int {
    Status::SUCCESS.0
}

/// Drops the parameters. There is nothing to wait for: `finalize` closed everything that the module held.
extern "C" fn close() -> c_int {
    guarded("close", Status::ERROR.0, || {
        if let Ok(mut kept) = OPTIONS.lock() {
            *kept = None;
        }
        Status::SUCCESS.0
    })
}

/// Makes the module. Returns NULL when the user's list of BTLs does not name the component, because to open libfabric takes every
/// program time, or when no provider can be used; Open MPI then uses other transports.
unsafe extern "C" fn init(
    count: *mut c_int,
    _progress_threads: bool,
    mpi_threads: bool,
) -> *mut *mut ffi::mca_btl_base_module_t {
    guarded("init", null_mut(), || {
        if count.is_null() {
            return null_mut();
        }
        // SAFETY: Open MPI passes the address of a writable int.
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
        if !params::names_component() {
            log::verbose(1, || {
                String::from("the list of BTLs does not name the component, which is not opened")
            });
            return null_mut();
        }
        // Without MPI_THREAD_MULTIPLE several threads may still call, one at a time.
        let level = if mpi_threads || series::THREADS_MAY_FOLLOW || params::tcp_has_thread() {
            ThreadLevel::Multiple
        } else {
            ThreadLevel::Serialized
        };
        // SAFETY: Open MPI's calls overlap under MPI_THREAD_MULTIPLE and where it has threads of its own only; `level` is
        // MULTIPLE then.
        let opened = unsafe { Module::open(entries::of_module(exported()), options, level) };
        let module = match opened {
            Ok(module) => module,
            Err(reason) => {
                let reason = reason
                    .lines()
                    .map(str::trim)
                    .collect::<Vec<_>>()
                    .join("; ")
                    .replace(":; ", ": ");
                log::line(&format!(
                    "the component steps aside, and Open MPI goes on with its other transports: {reason}"
                ));
                return null_mut();
            }
        };
        // SAFETY: `Module::open` has just made the module, and nobody ended it.
        if let Err(reason) = live::publish(unsafe { module.as_ref() }) {
            log::line(&format!("{reason}; the component steps aside"));
            Module::end(module);
            return null_mut();
        }
        // Open MPI frees the array with `free`, so it must come from `malloc`.
        // SAFETY: `malloc` has no precondition; NULL is checked below.
        let array = unsafe { libc::malloc(size_of::<*mut ffi::mca_btl_base_module_t>()) };
        let array = array.cast::<*mut ffi::mca_btl_base_module_t>();
        if array.is_null() {
            Module::end(module);
            return null_mut();
        }
        live::start(module);
        // SAFETY: `array` has room for one pointer, and `count` was checked above.
        unsafe {
            array.write(module.as_ptr().cast());
            *count = 1;
        }
        array
    })
}

/// Reads completions and runs callbacks. A callback may call this function, because the transport holds no lock
/// while a callback runs.
unsafe extern "C" fn progress() -> c_int {
    guarded("progress", 0, || match live::module() {
        Some(module) => {
            let done = progress_of(module);
            if done > 0 {
                module.transport().send_gathered();
            }
            c_int::try_from(done).unwrap_or(c_int::MAX)
        }
        None => 0,
    })
}

/// Callbacks may send and post what peers wait for, while this process may make no further progress: so gathered operations are
/// sent after the callbacks.
#[inline(always)]
fn progress_of(module: &Module) -> usize {
    let mut done = module.transport().progress();
    if module.fragments().has_kept() {
        done += module.fragments().resume(module.door());
    }
    if module.transfers().any() {
        done += entries::resume(module);
    }
    done
}

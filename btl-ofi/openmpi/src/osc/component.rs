//! The component structure that Open MPI looks up by name, and its functions: register, open, init, query, select, finalize.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::bindings as ffi;
use crate::guard::guarded;
use crate::host::fits_host;
use crate::identity::{name, number};
use crate::osc::transport::Windows;
use crate::osc::{
    calls, devices, log, params, program, progress, progress_thread, published, select, transport,
};
use crate::pvars;
use crate::series;

/// The structure that Open MPI finds by its symbol. The structure is in a cell because the host may
/// write to it.
#[repr(transparent)]
struct Exported(UnsafeCell<ffi::ompi_osc_base_component_t>);

// SAFETY: this library only takes the structure's address. The host writes to the structure only while it loads
// components, on one thread.
unsafe impl Sync for Exported {}

/// The symbol that Open MPI looks up in `mca_osc_ofi_rs.so`, a second name of this library's file.
#[unsafe(export_name = "mca_osc_ofi_rs_component")]
static COMPONENT: Exported = Exported(UnsafeCell::new(ffi::ompi_osc_base_component_t {
    osc_version: ffi::mca_base_component_2_1_0_t {
        mca_major_version: ffi::MCA_BASE_VERSION_MAJOR as c_int,
        mca_minor_version: ffi::MCA_BASE_VERSION_MINOR as c_int,
        mca_release_version: ffi::MCA_BASE_VERSION_RELEASE as c_int,
        mca_project_name: name(c"ompi"),
        mca_project_major_version: ffi::OMPI_MAJOR_VERSION as c_int,
        mca_project_minor_version: ffi::OMPI_MINOR_VERSION as c_int,
        mca_project_release_version: ffi::OMPI_RELEASE_VERSION as c_int,
        mca_type_name: name(c"osc"),
        mca_type_major_version: series::OSC_INTERFACE.0,
        mca_type_minor_version: series::OSC_INTERFACE.1,
        mca_type_release_version: series::OSC_INTERFACE.2,
        mca_component_name: name(c"ofi_rs"),
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
    osc_data: ffi::mca_base_component_data_2_0_0_t {
        // MCA_BASE_METADATA_PARAM_NONE: no support for checkpoints.
        param_field: 0,
        reserved: [0; 32],
    },
    osc_init: Some(init),
    osc_query: Some(query),
    osc_select: Some(select),
    osc_finalize: Some(finalize),
}));

/// The component for functions of Open MPI's component system: the structure's first field.
pub(crate) fn exported() -> *const ffi::mca_base_component_t {
    COMPONENT.0.get().cast_const().cast()
}

/// The component for functions of the framework osc.
pub(crate) fn of_framework() -> *const ffi::ompi_osc_base_component_t {
    COMPONENT.0.get().cast_const()
}

/// `osc_ofi_rs_priority`; below 0 if this process cannot serve windows. Relaxed accesses suffice, because no other data
/// depends on the priority.
static PRIORITY: AtomicI32 = AtomicI32::new(-1);

/// Whether threads of the program may call at the same time.
static THREADS: AtomicBool = AtomicBool::new(true);

/// `osc_ofi_rs_progress_thread`.
static PROGRESS_THREAD: AtomicBool = AtomicBool::new(false);

/// Registers the parameters. With a host that does not fit, or an invalid value, the component serves no window.
extern "C" fn register() -> c_int {
    guarded("osc register", ffi::OMPI_ERROR, || {
        PRIORITY.store(-1, Ordering::Relaxed);
        match fits_host().and_then(|()| params::register()) {
            Ok(own) => {
                let variables = pvars::counters::<Windows>().chain(calls::variables());
                let variables = variables.chain(program::variables());
                pvars::register(exported(), variables);
                log::set_verbosity(own.verbose);
                PRIORITY.store(own.priority, Ordering::Relaxed);
                PROGRESS_THREAD.store(own.progress_thread, Ordering::Relaxed);
                devices::set(own.cuda, own.device_level);
            }
            Err(reason) => log::line(&reason),
        }
        ffi::OMPI_SUCCESS
    })
}

/// Tells the other processes of the job that this one has the component. `init` would be too late, because Open MPI calls it
/// after the exchange of published values.
extern "C" fn open() -> c_int {
    guarded("osc open", ffi::OMPI_ERROR, || {
        published::publish(PRIORITY.load(Ordering::Relaxed));
        ffi::OMPI_SUCCESS
    })
}

extern "C" fn close() -> c_int {
    ffi::OMPI_SUCCESS
}

unsafe extern "C" fn init(_progress_threads: bool, mpi_threads: bool) -> c_int {
    THREADS.store(mpi_threads || series::THREADS_MAY_FOLLOW, Ordering::Relaxed);
    ffi::OMPI_SUCCESS
}

/// Whether threads may call the transport at the same time: threads of the program, or the progress
/// thread.
pub(crate) fn has_threads() -> bool {
    THREADS.load(Ordering::Relaxed) || wants_progress_thread()
}

/// Whether this process can serve windows.
pub(crate) fn serves() -> bool {
    PRIORITY.load(Ordering::Relaxed) >= 0
}

/// Whether the user wants the progress thread.
pub(crate) fn wants_progress_thread() -> bool {
    PROGRESS_THREAD.load(Ordering::Relaxed)
}

/// The priority for a window, or -1. Every rank comes to the same answer: Open MPI's ranks would choose different components
/// otherwise, and wait for one another for ever.
unsafe extern "C" fn query(
    _win: *mut ffi::ompi_win_t,
    _base: *mut *mut c_void,
    _size: usize,
    _unit: series::Unit,
    comm: *mut ffi::ompi_communicator_t,
    _info: *mut ffi::opal_info_t,
    flavor: c_int,
) -> c_int {
    guarded("osc query", -1, || {
        let served = [
            ffi::MPI_WIN_FLAVOR_CREATE,
            ffi::MPI_WIN_FLAVOR_ALLOCATE,
            ffi::MPI_WIN_FLAVOR_DYNAMIC,
        ];
        if !served.iter().any(|served| *served as c_int == flavor) {
            return -1;
        }
        published::priority(comm, PRIORITY.load(Ordering::Relaxed))
    })
}

unsafe extern "C" fn select(
    win: *mut ffi::ompi_win_t,
    base: *mut *mut c_void,
    size: usize,
    unit: series::Unit,
    comm: *mut ffi::ompi_communicator_t,
    info: *mut ffi::opal_info_t,
    flavor: c_int,
    model: *mut c_int,
) -> c_int {
    #[allow(clippy::unnecessary_cast, reason = "an int in 4.1 and 5.0")]
    let unit = unit as isize;
    let asked = select::Asked {
        win,
        base,
        size,
        unit,
        comm,
        info,
        flavor,
        model,
    };
    guarded("osc select", ffi::OMPI_ERROR, || {
        // SAFETY: Open MPI passes these for the duration of the call.
        unsafe { select::select(&asked) }
    })
}

/// Open MPI has freed every window.
unsafe extern "C" fn finalize() -> c_int {
    guarded("osc finalize", ffi::OMPI_ERROR, || {
        progress_thread::stop();
        progress::stop();
        transport::close();
        published::forget();
        program::forget();
        ffi::OMPI_SUCCESS
    })
}

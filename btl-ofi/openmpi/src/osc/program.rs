//! Requests of a program to the component itself, by the inline functions of `openmpi_ofi_rs.h`: the level of device support,
//! and copy functions of the program. The level is also a variable of MPI_T.
//!
//! A program may make these requests before MPI_Init, when no part of Open MPI is initialised.

use std::ffi::{c_int, c_ulonglong, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plugin_api::OverrideOps;

use crate::bindings as ffi;
use crate::guard::guarded;
use crate::osc::devices::Overrides;
use crate::osc::{component, devices, transport};
use crate::pvars::{Class, Variable};

const SUCCESS: c_int = ffi::MPI_SUCCESS as c_int;

/// The attribute. Relaxed accesses suffice, because no other data depends on the attribute.
static LEVEL: AtomicI32 = AtomicI32::new(1);

/// The attribute's key, made by the first call.
fn key() -> MutexGuard<'static, Option<c_int>> {
    static KEY: Mutex<Option<c_int>> = Mutex::new(None);
    KEY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Open MPI has freed the attributes.
pub(crate) fn forget() {
    *key() = None;
}

/// Devices that windows may lie on.
fn supported() -> usize {
    match component::serves() {
        true => devices::supported().unwrap_or(0),
        false => 0,
    }
}

/// The level of device support: 1 memory of the host, 2 also memory of devices.
fn level() -> i32 {
    if supported() > 0 { 2 } else { 1 }
}

/// Makes a key whose attribute of MPI_COMM_WORLD is the first argument. Returns an MPI error code.
type MakeAttribute = unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int;

/// Updates the attribute and returns its key. The first call makes both by `make`, a function of the program: a component must
/// not name MPI's own functions, because ompi_info of Open MPI 6.0 does not load their library.
///
/// # Safety
/// `keyval` is NULL or writable. `make` is NULL or such a function.
#[unsafe(no_mangle)]
unsafe extern "C" fn openmpi_ofi_rs_query_device_level(
    keyval: *mut c_int,
    make: Option<MakeAttribute>,
) -> c_int {
    guarded("query_device_level", ffi::MPI_ERR_INTERN as c_int, || {
        // SAFETY: the caller guarantees both pointers.
        let (Some(keyval), Some(make)) = (unsafe { keyval.as_mut() }, make) else {
            return ffi::MPI_ERR_ARG as c_int;
        };
        let mut key = key();
        let known = match *key {
            Some(known) => known,
            None => {
                let mut made = 0;
                // SAFETY: the attribute is a static; `made` is writable.
                let rc = unsafe { make(LEVEL.as_ptr().cast(), &mut made) };
                if rc != SUCCESS {
                    return rc;
                }
                *key.insert(made)
            }
        };
        LEVEL.store(level(), Ordering::Relaxed);
        *keyval = known;
        SUCCESS
    })
}

/// Sets the functions that copy memory of devices; NULL sets the transport's own functions again.
///
/// # Safety
/// `overrides` is NULL, or a table whose functions keep the header's contract until MPI has ended.
#[unsafe(no_mangle)]
unsafe extern "C" fn openmpi_ofi_rs_set_overrides(overrides: *const OverrideOps) -> c_int {
    guarded("set_overrides", ffi::MPI_ERR_INTERN as c_int, || {
        let given = match overrides.is_null() {
            true => None,
            // SAFETY: the caller guarantees the table.
            false => match unsafe { OverrideOps::check(overrides) } {
                Ok(given) => Some(Overrides(given)),
                Err(_) => return ffi::MPI_ERR_ARG as c_int,
            },
        };
        match transport::set_overrides(given).is_ok() {
            true => SUCCESS,
            false => ffi::MPI_ERR_OTHER as c_int,
        }
    })
}

/// The variables.
pub(crate) fn variables() -> [Variable; 2] {
    let variable = |name: &str, description: &str, get| Variable {
        name: name.into(),
        description: description.into(),
        class: Class::Level,
        get,
    };
    [
        variable(
            "device_support",
            "Level of device support: 1 windows and buffers in memory of the host, 2 also in memory of devices",
            get_level,
        ),
        variable(
            "cuda_devices",
            "CUDA devices whose memory windows and buffers may lie in",
            get_devices,
        ),
    ]
}

unsafe extern "C" fn get_level(
    _: *const ffi::mca_base_pvar_t,
    value: *mut c_void,
    _: *mut c_void,
) -> c_int {
    // SAFETY: as for `tell`.
    unsafe { tell(value, || level() as c_ulonglong) }
}

unsafe extern "C" fn get_devices(
    _: *const ffi::mca_base_pvar_t,
    value: *mut c_void,
    _: *mut c_void,
) -> c_int {
    // SAFETY: as for `tell`.
    unsafe { tell(value, || supported() as c_ulonglong) }
}

/// # Safety
/// `value` has room for a variable of 64 bits, as Open MPI passes it.
unsafe fn tell(value: *mut c_void, read: impl FnOnce() -> c_ulonglong) -> c_int {
    guarded("get_value", ffi::OMPI_ERROR, || {
        // SAFETY: the caller guarantees room for the value.
        unsafe { value.cast::<c_ulonglong>().write(read()) };
        ffi::OMPI_SUCCESS
    })
}

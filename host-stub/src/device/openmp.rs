//! OpenMP's own knowledge of where memory is, if this process has an OpenMP runtime with devices: the
//! seed's two functions, on top of `omp_target_is_present` and `omp_get_mapped_ptr` (OpenMP 5.1). The
//! runtime is asked for by name when it is needed, so nothing of it is wanted to build or to run.
//! `c/omp_target.c` has the same for C programs.

use std::ffi::{CStr, c_int, c_void};

use super::location::{HOST, Location};

type NumDevices = unsafe extern "C" fn() -> c_int;
type IsPresent = unsafe extern "C" fn(*const c_void, c_int) -> c_int;
type MappedPointer = unsafe extern "C" fn(*const c_void, c_int) -> *mut c_void;

struct Runtime {
    devices: NumDevices,
    is_present: IsPresent,
    mapped: MappedPointer,
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: asks the dynamic loader for a name.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

fn runtime() -> Option<Runtime> {
    // SAFETY: OpenMP gives these functions these shapes (OpenMP 5.1, 3.8).
    unsafe {
        Some(Runtime {
            devices: std::mem::transmute::<*mut c_void, NumDevices>(symbol(
                c"omp_get_num_devices",
            )?),
            is_present: std::mem::transmute::<*mut c_void, IsPresent>(symbol(
                c"omp_target_is_present",
            )?),
            mapped: std::mem::transmute::<*mut c_void, MappedPointer>(symbol(
                c"omp_get_mapped_ptr",
            )?),
        })
    }
}

/// The first OpenMP device that has storage for a host pointer, and where; [`HOST`] and the pointer if
/// none has, or there is no runtime.
pub fn omp_target_location(pointer: *const u8) -> Location {
    let host = Location {
        device: HOST,
        address: pointer as u64,
    };
    let Some(runtime) = runtime() else {
        return host;
    };
    // SAFETY: the runtime's functions take any pointer.
    let count = unsafe { (runtime.devices)() };
    (0..count)
        .find_map(|device| {
            let address = omp_target_pointer(pointer, device)?;
            Some(Location { device, address })
        })
        .unwrap_or(host)
}

/// Where an OpenMP device has storage for a host pointer; `None` if it has none.
pub fn omp_target_pointer(pointer: *const u8, device: i32) -> Option<u64> {
    let runtime = runtime()?;
    // SAFETY: as above.
    let mapped = unsafe {
        if (runtime.is_present)(pointer.cast(), device) == 0 {
            return None;
        }
        (runtime.mapped)(pointer.cast(), device)
    };
    (!mapped.is_null()).then_some(mapped as u64)
}

//! Memory that OpenMP has mapped, if this process has an OpenMP runtime with devices. The host asks the
//! runtime's `omp_target_is_present` and `omp_get_mapped_ptr` (OpenMP 5.1). The host finds these functions by name at the
//! first question, so neither the build nor the run needs them. `c/omp_target.c` has the functions of
//! source document 004 for programs.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use osc_devices::Lookup;
use osc_engine::door::Location;

type NumDevices = unsafe extern "C" fn() -> c_int;
type IsPresent = unsafe extern "C" fn(*const c_void, c_int) -> c_int;
type MappedPointer = unsafe extern "C" fn(*const c_void, c_int) -> *mut c_void;

struct Runtime {
    devices: NumDevices,
    /// `None` if the runtime cannot report its mappings.
    mapping: Option<(IsPresent, MappedPointer)>,
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the call asks the dynamic loader for a symbol.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

impl Runtime {
    /// `None` without an OpenMP runtime.
    fn find() -> Option<Runtime> {
        let devices = symbol(c"omp_get_num_devices")?;
        let mapping = symbol(c"omp_target_is_present").zip(symbol(c"omp_get_mapped_ptr"));
        // SAFETY: OpenMP defines these functions with these signatures (OpenMP 5.1, 3.7 and 3.8).
        unsafe {
            Some(Runtime {
                devices: std::mem::transmute::<*mut c_void, NumDevices>(devices),
                mapping: mapping.map(|(is_present, mapped)| {
                    (
                        std::mem::transmute::<*mut c_void, IsPresent>(is_present),
                        std::mem::transmute::<*mut c_void, MappedPointer>(mapped),
                    )
                }),
            })
        }
    }

    fn devices(&self) -> c_int {
        // SAFETY: the runtime's function takes no arguments.
        unsafe { (self.devices)() }
    }

    /// The address on `device` that corresponds to a host pointer.
    fn mapped(&self, device: i32, pointer: u64) -> Option<u64> {
        let (is_present, mapped) = self.mapping?;
        let pointer = std::ptr::with_exposed_provenance::<c_void>(pointer as usize);
        if device >= self.devices() {
            return None;
        }
        // SAFETY: the runtime's functions take any pointer, and the numbers of its devices.
        let mapped = unsafe {
            if is_present(pointer, device) == 0 {
                return None;
            }
            mapped(pointer, device)
        };
        (!mapped.is_null()).then_some(mapped as u64)
    }
}

/// A lookup in the program's own OpenMP runtime.
#[derive(Default)]
pub(crate) struct OpenMp(OnceLock<Option<Runtime>>);

impl OpenMp {
    fn runtime(&self) -> Option<&Runtime> {
        self.0.get_or_init(Runtime::find).as_ref()
    }
}

impl Lookup for OpenMp {
    fn location(&self, _: u64) -> Option<Location> {
        // OpenMP knows the host pointers that it mapped. OpenMP cannot tell whether a pointer is a
        // device pointer.
        None
    }

    fn devices(&self) -> Option<usize> {
        usize::try_from(self.runtime()?.devices()).ok()
    }

    fn mapped(&self, device: i32, pointer: u64) -> Option<u64> {
        self.runtime()?.mapped(device, pointer)
    }
}

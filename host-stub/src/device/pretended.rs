//! A simulated device for machines without one. No load or store may access the pages of its memory at
//! their address, so every access other than by a copy function faults. The copy functions use a second
//! mapping. The copy functions use the interface number of CUDA, which providers know.

mod copies;

use std::ffi::{CStr, c_void};
use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mca_params::{Allowed, Declaration, Kind, Level as ParamLevel, Value};
use osc_devices::{Device, DeviceError, Devices, Ways};
use osc_engine::door::DeviceBuffer;
use plugin_api::{OverrideOps, hmem_iface};

use self::copies::{LIE, Place, places};
use crate::base::params::Params;

/// The number of simulated devices of a job.
pub static PRETENDED: Declaration = Declaration::new(
    "host_pretended_devices",
    Kind::Int,
    Value::Int(0),
)
.help(
    "Pretends this many devices, whose memory faults when it is touched other than by a copy \
             function; for trying device memory on a machine without a device",
)
.level(ParamLevel::DEV_ALL)
.allowed(Allowed::Range { min: 0, max: 16 });

/// The memory size of each simulated device.
pub static PRETENDED_BYTES: Declaration = Declaration::new(
    "host_pretended_bytes",
    Kind::Int,
    Value::Int(0),
)
.help("Memory of each pretended device in bytes, whole pages; 0 for as much as this machine gives")
.level(ParamLevel::DEV_ALL)
.allowed(Allowed::Range {
    min: 0,
    max: i64::MAX,
});

/// The value of [`PRETENDED_BYTES`].
pub fn pretended_bytes(params: &Params) -> Result<usize, mca_params::Error> {
    let bytes = params.declare(&PRETENDED_BYTES)?.as_int().unwrap_or(0);
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Memory of a simulated device; the drop frees it.
pub struct PretendedMemory {
    device: u64,
    shadow: u64,
    len: usize,
}

impl PretendedMemory {
    /// The copy functions for all simulated device memory of this process.
    pub fn overrides() -> OverrideOps {
        copies::overrides()
    }

    /// Makes the copy functions return wrong values from now on: 1 for one byte too many, -1 for one
    /// byte too few, or a lower number as an error. 0 ends the wrong values. For tests.
    pub fn misbehave(lie: i64) {
        LIE.store(lie, Ordering::Relaxed);
    }

    /// Allocates `len` zeroed bytes.
    pub fn new(len: usize) -> std::io::Result<PretendedMemory> {
        const NAME: &CStr = c"pretended-device";
        // SAFETY: the name is NUL-terminated; memfd_create has these flags.
        let fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let len = len.max(1).next_multiple_of(4096);
        // SAFETY: this process owns the descriptor.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), len as libc::off_t) } != 0 {
            return Err(Error::last_os_error());
        }
        let map = |protection| {
            let none = std::ptr::null_mut();
            // SAFETY: the kernel chooses the address of the new mapping, and the file has that
            // length.
            let at =
                unsafe { libc::mmap(none, len, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
            if at == libc::MAP_FAILED {
                Err(Error::last_os_error())
            } else {
                Ok(at.expose_provenance() as u64)
            }
        };
        let device = map(libc::PROT_NONE)?;
        let shadow = match map(libc::PROT_READ | libc::PROT_WRITE) {
            Ok(shadow) => shadow,
            Err(error) => {
                unmap(device, len);
                return Err(error);
            }
        };
        places().push(Place {
            device,
            len,
            shadow,
        });
        Ok(PretendedMemory {
            device,
            shadow,
            len,
        })
    }
}

impl DeviceBuffer for PretendedMemory {
    fn base(&self) -> u64 {
        self.device
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// The bytes that a simulated device has allocated, and its limit; 0 for no limit.
struct Room {
    used: AtomicUsize,
    limit: usize,
}

impl Room {
    fn give(self: &Arc<Self>, len: usize) -> Result<Box<dyn DeviceBuffer>, String> {
        let memory = PretendedMemory::new(len).map_err(|error| error.to_string())?;
        let room = Arc::clone(self);
        let used = self.used.fetch_add(memory.len, Ordering::Relaxed);
        let part = Part { memory, room };
        if self.limit > 0 && used.saturating_add(part.memory.len) > self.limit {
            return Err(format!(
                "no room for {len} B: {used} of {} B are in use (host_pretended_bytes)",
                self.limit
            ));
        }
        Ok(Box::new(part))
    }
}

/// Memory that counts as used by its device until it is dropped.
struct Part {
    memory: PretendedMemory,
    room: Arc<Room>,
}

impl DeviceBuffer for Part {
    fn base(&self) -> u64 {
        self.memory.base()
    }

    fn len(&self) -> usize {
        self.memory.len()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.memory.len, Ordering::Relaxed);
    }
}

fn unmap(at: u64, len: usize) {
    let at: *mut c_void = std::ptr::with_exposed_provenance_mut(at as usize);
    // SAFETY: this process made the mapping with that length.
    unsafe { libc::munmap(at, len) };
}

impl Drop for PretendedMemory {
    fn drop(&mut self) {
        places().retain(|place| place.device != self.device);
        unmap(self.device, self.len);
        unmap(self.shadow, self.len);
    }
}

/// Adds a simulated device of `limit` bytes (0 for no limit), and gives the transport its copy
/// functions. Returns its number.
pub fn pretend(devices: &Devices, limit: usize) -> Result<i32, DeviceError> {
    // SAFETY: these functions of this program fulfil the contract of copy functions.
    let status = unsafe { devices.set_overrides(Some(&PretendedMemory::overrides())) };
    let name = String::from("pretended device");
    if !status.is_ok() {
        let why = format!("the transport takes no copy functions: {status}");
        return Err(DeviceError::NoMemory(0, name, why));
    }
    let number = devices.all().len() as u64;
    let room = Arc::new(Room {
        used: AtomicUsize::new(0),
        limit,
    });
    devices.add_with(
        Device {
            name,
            iface: hmem_iface::CUDA,
            number,
            starts: true,
            why: String::new(),
        },
        Ways {
            allocate: Some(Arc::new(move |len| room.give(len))),
            ..Ways::default()
        },
    )
}

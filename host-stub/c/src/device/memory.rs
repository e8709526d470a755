//! Device memory: queries of its place, encoded addresses for calls, and copies. The info key "device_num" puts a window on a
//! device.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use host::device::{DeviceBuffer, DeviceError, Devices, HOST, Location};
use plugin_api::{IoVec, hmem_iface};

use crate::base::error::{Error, HOST_ERR_TRANSPORT, Result, guarded};
use crate::job::job;

/// Memory of host_device_alloc, by its first byte.
type Given = BTreeMap<u64, Box<dyn DeviceBuffer>>;

fn given() -> MutexGuard<'static, Given> {
    static GIVEN: Mutex<Given> = Mutex::new(BTreeMap::new());
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Error {
        Error::argument("device", &error.to_string())
    }
}

fn pointer<T>(call: &str, pointer: *mut T) -> Result<*mut T> {
    if pointer.is_null() {
        return Err(Error::argument(call, "a pointer is NULL"));
    }
    Ok(pointer)
}

fn address(value: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(value as usize)
}

/// Returns the number of devices that the host knows, which are numbered from 0, or a negative
/// HOST_ERR_* code.
#[unsafe(no_mangle)]
pub extern "C" fn host_device_count() -> c_int {
    let mut count = 0;
    let code = guarded(|| {
        count = job("host_device_count")?.devices().all().len() as c_int;
        Ok(())
    });
    if code < 0 { code } else { count }
}

/// Returns the level of device support, or a negative HOST_ERR_* code. 1: the program starts operations on host
/// memory; 2: also on device memory; 3: devices also start operations on device memory
/// (host_device_ring_create); 4: devices also start operations on host memory.
#[unsafe(no_mangle)]
pub extern "C" fn host_device_level() -> c_int {
    let mut level = 0;
    let code = guarded(|| {
        let support = job("host_device_level")?.device_support();
        level = c_int::from(support.level.number());
        Ok(())
    });
    if code < 0 { code } else { level }
}

/// Allocates memory on a device. Buffers of calls may lie in this memory until host_device_free.
/// The pointer is a device address: loads and stores of the program's host code must not use it.
///
/// # Safety
/// `memory` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_device_alloc(
    device: c_int,
    size: usize,
    memory: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        let call = "host_device_alloc";
        let out = pointer(call, memory)?;
        let buffer = job(call)?.devices().allocate(device, size)?;
        // SAFETY: the caller guarantees the pointer.
        unsafe { *out = address(buffer.base()) };
        given().insert(buffer.base(), buffer);
        Ok(())
    })
}

/// Frees memory of host_device_alloc, and sets the pointer to NULL. No call may use the memory any
/// longer.
///
/// # Safety
/// `memory` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_device_free(memory: *mut *mut c_void) -> c_int {
    guarded(|| {
        let call = "host_device_free";
        let memory = pointer(call, memory)?;
        // SAFETY: the caller guarantees the pointer.
        let base = unsafe { *memory } as u64;
        let taken = given().remove(&base);
        drop(taken.ok_or_else(|| Error::argument(call, "this is no memory of host_device_alloc"))?);
        // SAFETY: the caller guarantees that the pointer is writable.
        unsafe { *memory = std::ptr::null_mut() };
        Ok(())
    })
}

/// Copies one range of a device by `run`.
fn copy(
    call: &str,
    at: *mut c_void,
    size: usize,
    run: impl FnOnce(&Devices, &[IoVec], &[u32]) -> std::result::Result<(), i64>,
) -> Result {
    let job = job(call)?;
    let devices = job.devices();
    let location = devices.locate(at as u64, size)?;
    let iface = match location.device {
        HOST => hmem_iface::SYSTEM,
        device => devices.device(device)?.iface,
    };
    let iov = [IoVec {
        base: address(location.address),
        len: size,
    }];
    run(devices, &iov, &[iface])
        .map_err(|n| Error::new(HOST_ERR_TRANSPORT, format!("{call}: the copy answered {n}")))
}

/// Copies `size` bytes of device memory to host memory, and returns when the copy is complete.
///
/// # Safety
/// `into` is writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_device_read(
    into: *mut c_void,
    from: *mut c_void,
    size: usize,
) -> c_int {
    guarded(|| {
        let call = "host_device_read";
        let into: *mut u8 = pointer(call, into)?.cast();
        // SAFETY: the caller guarantees `into`; the lookup found that a device owns the runs.
        copy(call, from, size, |devices, iov, iface| unsafe {
            devices.read(iov, iface, std::slice::from_raw_parts_mut(into, size))
        })
    })
}

/// Copies `size` bytes of host memory to device memory, and returns when the copy is complete.
///
/// # Safety
/// `from` is readable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_device_write(
    to: *mut c_void,
    from: *const c_void,
    size: usize,
) -> c_int {
    guarded(|| {
        let call = "host_device_write";
        let from: *const u8 = pointer(call, from.cast_mut())?.cast_const().cast();
        // SAFETY: the caller guarantees `from`; the lookup found that a device owns the runs.
        copy(call, to, size, |devices, iov, iface| unsafe {
            devices.write(iov, iface, std::slice::from_raw_parts(from, size))
        })
    })
}

/// Tells the host that `size` bytes at `host` are mapped at `memory` on a device, until
/// host_device_disassociate. omp_target_associate_ptr is the equivalent for OpenMP. A variable may be
/// mapped on several devices; its pointer alone then means the device with the lowest number.
///
/// # Safety
/// The range at `memory` is memory of this device until host_device_disassociate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_device_associate(
    host: *const c_void,
    size: usize,
    device: c_int,
    memory: *const c_void,
) -> c_int {
    guarded(|| {
        let job = job("host_device_associate")?;
        let devices = job.devices();
        // SAFETY: the caller guarantees the range.
        Ok(unsafe { devices.associate(host as u64, size, device, memory as u64) }?)
    })
}

/// Removes the association of `host` with memory of a device (see host_device_associate).
#[unsafe(no_mangle)]
pub extern "C" fn host_device_disassociate(host: *const c_void, device: c_int) -> c_int {
    guarded(|| {
        job("host_device_disassociate")?
            .devices()
            .disassociate(host as u64, device);
        Ok(())
    })
}

/// Finds a pointer's device and the pointer's address on the device. Host memory has the device -1
/// and its own address.
///
/// # Safety
/// `device` and `memory` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_target_location(
    pointer_: *const c_void,
    device: *mut c_int,
    memory: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        let call = "host_target_location";
        let (device_out, out) = (pointer(call, device)?, pointer(call, memory)?);
        let job = job(call)?;
        let Location {
            device,
            address: at,
        } = job.devices().target_location(pointer_.cast());
        // SAFETY: the caller guarantees both pointers.
        unsafe {
            *device_out = device;
            *out = address(at);
        }
        Ok(())
    })
}

/// Finds the device address for a pointer: a host pointer that is mapped there, or memory of the
/// device itself. An error if there is no such address.
///
/// # Safety
/// `memory` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_target_pointer(
    pointer_: *const c_void,
    device: c_int,
    memory: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        let call = "host_target_pointer";
        let out = pointer(call, memory)?;
        let at = job(call)?
            .devices()
            .target_pointer(pointer_.cast(), device)?;
        // SAFETY: the caller guarantees the pointer.
        unsafe { *out = address(at) };
        Ok(())
    })
}

/// Packs a device and a pointer's address there into one pointer. Every call that takes a buffer or a
/// window's memory accepts the packed pointer, collectives too. Device -1 means the host memory of a
/// pointer that is also mapped on a device. (The alternatives: the pointer itself, and HOST_ON_DEVICE
/// added to the type if a call takes a type.)
///
/// # Safety
/// `encoded` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_encode_location(
    pointer_: *const c_void,
    device: c_int,
    encoded: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        let call = "host_encode_location";
        let out = pointer(call, encoded)?;
        let value = job(call)?
            .devices()
            .encode_location(pointer_.cast(), device)?;
        // SAFETY: the caller guarantees the pointer.
        unsafe { *out = address(value) };
        Ok(())
    })
}

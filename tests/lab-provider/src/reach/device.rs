//! Memory of devices: its registrations, and the accesses of this process to it. A device is
//! accessed through its user's override functions (`FI_SET_OPS_HMEM_OVERRIDE`), or, in place of a
//! driver, at a fixed distance from its address (`LAB_HMEM_SHIFT`); never at the address itself.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use libfabric_sys as ffi;

use crate::base::config::Config;
use crate::reach::memory;

pub(crate) type CopyFrom = unsafe extern "C" fn(
    *mut c_void,
    usize,
    ffi::fi_hmem_iface,
    u64,
    *const ffi::iovec,
    usize,
    u64,
) -> isize;
pub(crate) type CopyTo = unsafe extern "C" fn(
    ffi::fi_hmem_iface,
    u64,
    *const ffi::iovec,
    usize,
    u64,
    *const c_void,
    usize,
) -> isize;

/// The user's functions.
#[derive(Clone, Copy)]
pub(crate) struct Overrides {
    pub(crate) from: CopyFrom,
    pub(crate) to: CopyTo,
}

/// The overrides of each domain that has overrides.
static OVERRIDES: Mutex<Vec<(u64, Overrides)>> = Mutex::new(Vec::new());

/// Sets the overrides of a domain; all its memory uses them from now on. `None` restores the
/// domain's own accesses.
pub(crate) fn set_overrides(domain: u64, overrides: Option<Overrides>) {
    let mut all = OVERRIDES.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(of, _)| *of != domain);
    all.extend(overrides.map(|overrides| (domain, overrides)));
}

fn overrides(domain: u64) -> Option<Overrides> {
    let all = OVERRIDES.lock().unwrap_or_else(PoisonError::into_inner);
    let found = all.iter().find(|(of, _)| *of == domain);
    found.map(|(_, overrides)| *overrides)
}

/// Registered memory of a device.
#[derive(Clone, Copy)]
pub(crate) struct DeviceMemory {
    domain: u64,
    key: u64,
    base: u64,
    length: u64,
    pub(crate) iface: u32,
    device: u64,
    /// The distance from the device's address to the address in this process, for a domain without
    /// overrides.
    shift: Option<i64>,
}

/// All device memory of this process.
static KNOWN: Mutex<Vec<DeviceMemory>> = Mutex::new(Vec::new());

fn known() -> std::sync::MutexGuard<'static, Vec<DeviceMemory>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prepares a registration of device memory; a negative error if the memory cannot be registered.
pub(crate) fn register(
    config: &Config,
    domain: u64,
    attr: &ffi::fi_mr_attr,
    iov: &ffi::iovec,
    flags: u64,
) -> Result<DeviceMemory, c_int> {
    if !config.hmem || !config.hmem_ifaces.contains(&attr.iface) {
        return Err(-(ffi::FI_ENOSYS as c_int));
    }
    if flags & u64::from(ffi::FI_HMEM_DEVICE_ONLY) != 0 && !config.hmem_device_only {
        return Err(-(ffi::FI_EINVAL as c_int));
    }
    if overrides(domain).is_none() && config.hmem_shift.is_none() {
        return Err(-(ffi::FI_ENOSYS as c_int));
    }
    Ok(DeviceMemory {
        domain,
        key: attr.requested_key,
        base: iov.iov_base as u64,
        length: iov.iov_len as u64,
        iface: attr.iface,
        // SAFETY: every member of the union lies in these 64 bits.
        device: unsafe { attr.device.reserved },
        shift: config.hmem_shift,
    })
}

/// Lists the memory.
pub(crate) fn remember(memory: DeviceMemory) {
    known().push(memory);
}

/// Forgets the registration of a key.
pub(crate) fn forget(domain: u64, key: u64) {
    known().retain(|m| (m.domain, m.key) != (domain, key));
}

/// The device memory that contains an address, if the address is device memory.
pub(crate) fn at(address: u64) -> Option<DeviceMemory> {
    let holds = |m: &&DeviceMemory| address.wrapping_sub(m.base) < m.length;
    known().iter().find(holds).copied()
}

/// The device memory that a domain registered under a key.
pub(crate) fn of_key(domain: u64, key: u64) -> Option<DeviceMemory> {
    let is = |m: &&DeviceMemory| (m.domain, m.key) == (domain, key);
    known().iter().find(is).copied()
}

impl DeviceMemory {
    /// The same memory under the given key.
    pub(crate) fn with_key(self, key: u64) -> DeviceMemory {
        DeviceMemory { key, ..self }
    }

    /// Compares the result of an override function with the requested length.
    fn judge(copied: isize, wanted: usize) -> Result<(), i32> {
        match usize::try_from(copied) {
            Ok(n) if n == wanted => Ok(()),
            // A partial copy is an error.
            Ok(_) => Err(ffi::FI_EIO as i32),
            Err(_) => Err(i32::try_from(-copied).unwrap_or(ffi::FI_EIO as i32)),
        }
    }

    /// Copies from the device.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), i32> {
        match (overrides(self.domain), self.shift) {
            (None, None) => Err(ffi::FI_ENOSYS as i32),
            (None, Some(shift)) => {
                let from = address.wrapping_add_signed(shift);
                let own = u64::from(std::process::id());
                memory::get(own, from, bytes.as_mut_ptr() as u64, bytes.len())
            }
            (Some(Overrides { from, .. }), _) => {
                let (iov, offset) = self.piece(address);
                let to = bytes.as_mut_ptr().cast();
                // SAFETY: the user's function takes any device address; the vector has one element
                // and the buffer `len` bytes.
                let n = unsafe { from(to, bytes.len(), self.iface, self.device, &iov, 1, offset) };
                Self::judge(n, bytes.len())
            }
        }
    }

    /// Copies to the device.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), i32> {
        match (overrides(self.domain), self.shift) {
            (None, None) => Err(ffi::FI_ENOSYS as i32),
            (None, Some(shift)) => {
                let to = address.wrapping_add_signed(shift);
                let own = u64::from(std::process::id());
                memory::put(own, to, bytes.as_ptr() as u64, bytes.len())
            }
            (Some(Overrides { to, .. }), _) => {
                let (iov, offset) = self.piece(address);
                let from = bytes.as_ptr().cast();
                // SAFETY: the user's function takes any device address; the vector has one element
                // and the buffer `len` bytes.
                let n = unsafe { to(self.iface, self.device, &iov, 1, offset, from, bytes.len()) };
                Self::judge(n, bytes.len())
            }
        }
    }

    /// The registered memory, and the offset of an address in it.
    fn piece(&self, address: u64) -> (ffi::iovec, u64) {
        let iov = ffi::iovec {
            iov_base: self.base as *mut c_void,
            iov_len: self.length as usize,
        };
        (iov, address - self.base)
    }
}

/// Copies from a buffer of this process, on the host or on a device.
pub(crate) fn read_local(address: u64, length: usize) -> Result<Vec<u8>, i32> {
    let mut bytes = vec![0u8; length];
    match at(address) {
        Some(memory) => memory.read(address, &mut bytes)?,
        None => {
            let own = u64::from(std::process::id());
            memory::get(own, address, bytes.as_mut_ptr() as u64, length)?;
        }
    }
    Ok(bytes)
}

/// Copies to a buffer of this process, on the host or on a device.
pub(crate) fn write_local(address: u64, bytes: &[u8]) -> Result<(), i32> {
    match at(address) {
        Some(memory) => memory.write(address, bytes),
        None => {
            let own = u64::from(std::process::id());
            memory::put(own, address, bytes.as_ptr() as u64, bytes.len())
        }
    }
}

//! The devices of a process, and their memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use osc_engine::door::{
    HOST, Location, MAX_DEVICES, decode_location, encode_location, look_from_now_on,
};
use osc_engine::transport::Transport;
use plugin_api::{IoVec, OverrideOps, Status};

use crate::error::DeviceError;
use crate::table::{Entry, Known, Mapping, Table, Ways};

/// A device, described by its owner.
#[derive(Clone, Debug)]
pub struct Device {
    /// The common name of the device.
    pub name: String,
    /// The device's kind, one of [`plugin_api::hmem_iface`] or another that the overrides know.
    pub iface: u32,
    /// The device's number among the devices of its kind.
    pub number: u64,
    /// Whether the device can write commands into host memory, and so start operations itself.
    pub starts: bool,
    /// The reason why the device cannot start operations; empty if it can.
    pub why: String,
}

/// Finds the places of pointers that the host does not know.
pub trait Lookup: Send + Sync {
    /// The place of a pointer's memory; `None` for memory of no device that this knows.
    fn location(&self, pointer: u64) -> Option<Location>;

    /// The number of devices that the source numbers, if it has a list of its own.
    fn devices(&self) -> Option<usize> {
        None
    }

    /// The place to which a byte of host memory is mapped on one device, by its own number; `None` if it is not
    /// mapped, or if the mapping is not known.
    fn mapped(&self, device: i32, pointer: u64) -> Option<u64> {
        let _ = (device, pointer);
        None
    }

    /// The allocation that contains a device pointer; the host then registers it for its transfers.
    /// `None` if the allocation is not known; the host then copies itself.
    fn allocation(&self, pointer: u64) -> Option<Allocation> {
        let _ = pointer;
        None
    }
}

/// The memory of one allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Its first byte.
    pub base: u64,
    /// Bytes.
    pub len: usize,
    /// A number that differs between allocations, also at the same address.
    pub id: u64,
}

/// Host memory that a device reads and writes, as long as this lives.
pub struct MappedMemory {
    address: u64,
    _kept: Option<Box<dyn Send + Sync>>,
}

impl MappedMemory {
    /// The address of the memory on the device.
    pub fn address(&self) -> u64 {
        self.address
    }
}

/// The devices of one process, for one transport. Any thread may call.
#[derive(Default)]
pub struct Devices {
    /// Shared with the memory that the registry allocated, which removes its own entry.
    pub(crate) table: Arc<Mutex<Table>>,
    transport: OnceLock<Transport>,
    /// Whether the program's own functions copy memory of devices.
    overridden: AtomicBool,
    /// The parameter by which calls refuse device memory (level 1), if they do.
    refused: Option<&'static str>,
}

impl Devices {
    /// A registry without devices. If a parameter, `refused`, sets level 1, calls refuse device
    /// memory.
    pub fn new(transport: &Transport, refused: Option<&'static str>) -> Devices {
        Devices {
            table: Arc::default(),
            transport: OnceLock::from(transport.clone()),
            overridden: AtomicBool::new(false),
            refused,
        }
    }

    /// The same registry with a lookup. The lookup is used when calls look up the places of their
    /// buffers, but does not make them do so.
    pub fn with_lookup(self, lookup: Box<dyn Lookup>) -> Devices {
        self.table().lookups.push(lookup);
        self
    }

    /// An error for memory of a device at level 1.
    pub fn allow(&self, device: i32) -> Result<(), DeviceError> {
        match self.refused.filter(|_| device != HOST) {
            Some(parameter) => Err(DeviceError::Refused(device, parameter)),
            None => Ok(()),
        }
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    pub(crate) fn transport(&self) -> Result<&Transport, DeviceError> {
        self.transport.get().ok_or(DeviceError::TooMany)
    }

    /// Adds a device; returns its number.
    pub fn add(&self, device: Device) -> Result<i32, DeviceError> {
        self.add_with(device, Ways::default())
    }

    /// Like [`add`](Self::add), for a device on which memory can be allocated.
    pub fn add_with(&self, device: Device, ways: Ways) -> Result<i32, DeviceError> {
        let mut table = self.table();
        let number = i32::try_from(table.devices.len()).map_err(|_| DeviceError::TooMany)?;
        if number >= MAX_DEVICES {
            return Err(DeviceError::TooMany);
        }
        table.devices.push(Entry { device, ways });
        look_from_now_on();
        Ok(number)
    }

    /// Declares that a device can start operations, if this was not known.
    pub fn starts(&self, device: i32) -> Result<(), DeviceError> {
        self.device(device)?;
        let found = &mut self.table().devices[device as usize].device;
        found.starts = true;
        found.why.clear();
        Ok(())
    }

    /// Adds a lookup for pointers that the host does not know.
    pub fn add_lookup(&self, lookup: Box<dyn Lookup>) {
        self.table().lookups.push(lookup);
        look_from_now_on();
    }

    /// The devices, in the order of their numbers.
    pub fn all(&self) -> Vec<Device> {
        let table = self.table();
        table.devices.iter().map(|e| e.device.clone()).collect()
    }

    /// A device by its number.
    pub fn device(&self, number: i32) -> Result<Device, DeviceError> {
        self.table().device(number)
    }

    /// Sets the functions by which the transport accesses device memory; see
    /// [`Transport::set_overrides`].
    ///
    /// # Safety
    /// See [`Transport::set_overrides`].
    pub unsafe fn set_overrides(&self, ops: Option<&OverrideOps>) -> Status {
        let Some(transport) = self.transport.get() else {
            return Status::NOT_SUPPORTED;
        };
        // SAFETY: as the caller vouches.
        let status = unsafe { transport.set_overrides(ops) };
        if status.is_ok() {
            // Relaxed: a concurrent call may use the earlier functions.
            self.overridden.store(ops.is_some(), Ordering::Relaxed);
        }
        status
    }

    /// Whether the program's own functions copy memory of devices, in an order that only these
    /// functions know.
    pub(crate) fn is_overridden(&self) -> bool {
        self.overridden.load(Ordering::Relaxed)
    }

    /// Adds memory on a device, until [`forget_memory`](Self::forget_memory). The owner keeps the
    /// memory at least that long. Known memory may be added again.
    ///
    /// # Safety
    /// The range is memory of this device until it is forgotten: registrations and copies use it.
    pub unsafe fn add_memory(&self, device: i32, base: u64, len: usize) -> Result<(), DeviceError> {
        self.device(device)?;
        let mut table = self.table();
        let end = base.checked_add(len as u64);
        let overlap = DeviceError::Overlap { base, len };
        let Some(end) = end.filter(|_| len > 0) else {
            return Err(overlap);
        };
        if table
            .known
            .get(&base)
            .is_some_and(|known| known.len == len && known.device == device)
        {
            return Ok(());
        }
        let before = table.known.range(..end).next_back();
        if before.is_some_and(|(at, known)| at + known.len as u64 > base) {
            return Err(overlap);
        }
        let registration = OnceLock::new();
        let known = Known {
            len,
            device,
            registration,
        };
        table.known.insert(base, known);
        Ok(())
    }

    /// Removes memory, which must no longer be in use.
    pub fn forget_memory(&self, base: u64) {
        let gone = self.table().known.remove(&base);
        // Ends a registration, outside of the lock.
        drop(gone);
    }

    /// Declares that `len` bytes at `host` are mapped at `address` on a device
    /// (omp_target_associate_ptr), until [`disassociate`](Self::disassociate). A variable may be mapped
    /// on several devices; its pointer alone then means the device with the lowest number.
    ///
    /// # Safety
    /// The range at `address` is memory of this device until the mapping ends: an operation on the
    /// host's range may use it instead.
    pub unsafe fn associate(
        &self,
        host: u64,
        len: usize,
        device: i32,
        address: u64,
    ) -> Result<(), DeviceError> {
        self.device(device)?;
        let mut table = self.table();
        let overlap = DeviceError::Overlap { base: host, len };
        let end = |at: u64| at.checked_add(len as u64).filter(|_| len > 0);
        let (Some(end), Some(_)) = (end(host), end(address)) else {
            return Err(overlap);
        };
        let mut before = table.mapped.range((device, 0)..(device, end));
        let last = before.next_back();
        if last.is_some_and(|((_, at), m)| at + m.len as u64 > host) {
            return Err(overlap);
        }
        let mapping = Mapping { len, address };
        table.mapped.insert((device, host), mapping);
        Ok(())
    }

    /// Ends the mapping of a host range on one device (omp_target_disassociate_ptr).
    pub fn disassociate(&self, host: u64, device: i32) {
        self.table().mapped.remove(&(device, host));
    }

    /// The place of a pointer's memory: the device and the address there, or [`HOST`] and the
    /// pointer. A host pointer that is mapped on a device is on that device.
    pub fn target_location(&self, pointer: *const u8) -> Location {
        let value = pointer as u64;
        decode_location(value).unwrap_or_else(|| self.table().location(value))
    }

    /// The address on `device` of the memory at `pointer`: a host pointer that is mapped there, or
    /// memory of the device itself. For [`HOST`] the pointer.
    pub fn target_pointer(&self, pointer: *const u8, device: i32) -> Result<u64, DeviceError> {
        if device == HOST {
            return Ok(pointer as u64);
        }
        let found = self.table().place_on(device, pointer as u64, 0)?;
        Ok(found.address)
    }

    /// Device and address of the memory at `pointer` on `device`, encoded in 64 bits for every call
    /// that takes an address. Valid as long as a device pointer.
    pub fn encode_location(&self, pointer: *const u8, device: i32) -> Result<u64, DeviceError> {
        let address = self.target_pointer(pointer, device)?;
        if device == HOST && address == 0 {
            // A call would accept the location as memory, because it is not NULL.
            return Err(DeviceError::Null);
        }
        let count = self.table().devices.len();
        encode_location(Location { device, address })
            .ok_or(DeviceError::NoSuchDevice(device, count))
    }

    /// The place of `len` bytes that a pointer or an encoded location names.
    /// [`DeviceError::Straddles`]: the bytes lie in several places.
    pub fn locate(&self, value: u64, len: usize) -> Result<Location, DeviceError> {
        self.table().place(value, len)
    }

    /// Like [`locate`](Self::locate), except that a host pointer always means host memory, mapped
    /// or not.
    pub fn locate_itself(&self, value: u64, len: usize) -> Result<Location, DeviceError> {
        self.table().place_itself(value, len)
    }

    /// The place on `device` of `len` bytes that a pointer names, or a location encoded for it.
    pub fn locate_on(&self, device: i32, value: u64, len: usize) -> Result<Location, DeviceError> {
        self.table().place_on(device, value, len)
    }

    /// Maps host memory for a device; pins the memory if the driver requires pinned memory. [`DeviceError::StartsNothing`]:
    /// the device cannot start operations, or does not reach the memory.
    ///
    /// # Safety
    /// The memory has `len` bytes, and stays until the mapping is dropped.
    pub unsafe fn map_memory(
        &self,
        device: i32,
        (base, len): (*mut u8, usize),
    ) -> Result<MappedMemory, DeviceError> {
        let found = self.device(device)?;
        let refused = |why| DeviceError::StartsNothing(device, found.name.clone(), why);
        if !found.starts {
            return Err(refused(found.why.clone()));
        }
        let table = self.table();
        let map = &table.devices[device as usize].ways.map;
        let mapped = map.as_ref().map(|map| map((base, len))).transpose();
        let (address, kept) = match mapped.map_err(refused)? {
            Some((address, kept)) => (address, Some(kept)),
            // The device accesses host memory at the host's addresses.
            None => (base as u64, None),
        };
        Ok(MappedMemory {
            address,
            _kept: kept,
        })
    }

    /// Copies device memory to `into`, from runs that may lie on several devices and on the host.
    ///
    /// # Safety
    /// The runs are memory of their kinds.
    pub unsafe fn read(&self, iov: &[IoVec], iface: &[u32], into: &mut [u8]) -> Result<(), i64> {
        let transport = self.transport.get().ok_or(-38i64)?;
        // SAFETY: as the caller vouches.
        let n = unsafe { transport.copy_from_hmem(into, iov, iface, 0) };
        if n == into.len() as i64 {
            Ok(())
        } else {
            Err(n)
        }
    }

    /// Copies `from` to device memory, otherwise as [`read`](Self::read).
    ///
    /// # Safety
    /// As for [`read`](Self::read).
    pub unsafe fn write(&self, iov: &[IoVec], iface: &[u32], from: &[u8]) -> Result<(), i64> {
        let transport = self.transport.get().ok_or(-38i64)?;
        // SAFETY: as the caller vouches.
        let n = unsafe { transport.copy_to_hmem(iov, iface, 0, from) };
        if n == from.len() as i64 {
            Ok(())
        } else {
            Err(n)
        }
    }
}

impl Drop for Devices {
    /// Ends the registrations. Memory that the host allocated may live longer, with the table; a registration in it would keep
    /// the transport open.
    fn drop(&mut self) {
        let mut table = self.table();
        let gone = (
            std::mem::take(&mut table.known),
            std::mem::take(&mut table.seen),
        );
        drop(table);
        drop(gone);
    }
}

pub(crate) fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

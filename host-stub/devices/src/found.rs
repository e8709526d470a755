//! Memory of devices in calls: buffers that were looked up, with their registrations, and memory that the host
//! allocates.

use std::sync::{Arc, Mutex};

use osc_engine::door::{DeviceBuffer, Found, HOST, Location, OpenedMemory};
use osc_engine::transport::Registration;
use plugin_api::{Access, Handle};

use crate::error::DeviceError;
use crate::registry::{Allocation, Device, Devices, lock};
use crate::table::{Seen, Share, Table};

/// The most allocations, known by lookups only, whose registrations are kept.
const MOST_SEEN: usize = 1024;

impl Devices {
    /// The place of a buffer of a call, with the registration that the transport needs for it;
    /// `None` for host memory, whose address is the returned address.
    pub fn find(&self, value: u64, len: usize) -> Result<Result<Found, u64>, DeviceError> {
        let mut table = self.table();
        let Location {
            device: number,
            address,
        } = table.place(value, len)?;
        if number == HOST {
            return Ok(Err(address));
        }
        self.allow(number)?;
        let device = table.device(number)?;
        let handle = match table.known_at(address) {
            Some((base, known)) => match known.registration.get() {
                Some(registration) => registration.handle_ptr(),
                None => {
                    let made = self.register(base, known.len, &device)?;
                    known.registration.get_or_init(|| made).handle_ptr()
                }
            },
            None => match table.allocation(address) {
                None => std::ptr::null_mut(),
                Some(allocation) => self.seen(&mut table, allocation, &device)?,
            },
        };
        Ok(Ok(Found {
            iface: device.iface,
            address,
            handle,
            by_driver: table.devices[number as usize].ways.share.is_some() && !self.is_overridden(),
        }))
    }

    fn register(
        &self,
        base: u64,
        len: usize,
        device: &Device,
    ) -> Result<Registration, DeviceError> {
        let base = std::ptr::with_exposed_provenance_mut(base as usize);
        let (iface, number) = (device.iface, device.number);
        let transport = self.transport()?;
        let access = Access::LOCAL_WRITE;
        // SAFETY: known memory stays until `forget_memory`, which ends the registration. The owner
        // of other memory keeps it as long as calls use it, and a lookup finds when another
        // allocation has taken its place.
        Ok(unsafe { transport.register_hmem(base, len, access, iface, number) }?)
    }

    /// The handle of an allocation that a lookup found, registered at its first use.
    fn seen(
        &self,
        table: &mut Table,
        allocation: Allocation,
        device: &Device,
    ) -> Result<*mut Handle, DeviceError> {
        let Allocation { base, len, .. } = allocation;
        if let Some(seen) = table.seen.get(&base)
            && seen.allocation == allocation
        {
            return Ok(seen.registration.handle_ptr());
        }
        // Allocations that overlap the new one were freed, because live ones do not overlap.
        let gone: Vec<u64> = table
            .seen
            .iter()
            .filter(|(at, s)| **at < base + len as u64 && **at + s.allocation.len as u64 > base)
            .map(|(at, _)| *at)
            .collect();
        for at in gone {
            table.seen.remove(&at);
        }
        if table.seen.len() >= MOST_SEEN {
            table.forget_gone();
        }
        if table.seen.len() >= MOST_SEEN {
            // No registration may end here, because operations may be using it: the host copies
            // this buffer itself.
            return Ok(std::ptr::null_mut());
        }
        let registration = self.register(base, len, device)?;
        let handle = registration.handle_ptr();
        let seen = Seen {
            allocation,
            registration,
        };
        table.seen.insert(base, seen);
        Ok(handle)
    }

    /// Allocates memory of a device by the device's library; the host knows the memory as long as it
    /// lives.
    pub fn allocate(&self, device: i32, len: usize) -> Result<Box<dyn DeviceBuffer>, DeviceError> {
        let name = self.device(device)?.name;
        let refused = |why: &str| DeviceError::NoMemory(device, name.clone(), String::from(why));
        let allocate = self.table().devices[device as usize].ways.allocate.clone();
        let Some(allocate) = allocate else {
            return Err(refused("give its memory to the window"));
        };
        let buffer = allocate(len.max(1)).map_err(|why| refused(&why))?;
        // SAFETY: just allocated there, and forgotten before the buffer is freed.
        unsafe { self.add_memory(device, buffer.base(), buffer.len()) }?;
        Ok(Box::new(Allocated {
            buffer,
            table: Arc::clone(&self.table),
        }))
    }
}

/// Memory of other processes.
impl Devices {
    /// The bytes that another process of this node needs to open memory of a device.
    pub fn export(&self, device: i32, base: u64, len: usize) -> Result<Vec<u8>, DeviceError> {
        let name = self.device(device)?.name;
        let refused = |why: &str| DeviceError::NotShared(device, name.clone(), String::from(why));
        if self.is_overridden() {
            return Err(refused("the program's own functions copy it"));
        }
        let share = self.table().devices[device as usize].ways.share.clone();
        let share = share.ok_or_else(|| refused("no driver is known that shares it"))?;
        share.export(base, len).map_err(|why| refused(&why))
    }

    /// Opens memory that another process of this node exported: for its own device, or for another device that reaches it.
    /// `None`: this process uses no device yet.
    pub fn open(&self, exported: &[u8]) -> Result<Option<Box<dyn OpenedMemory>>, String> {
        // At level 1 this process uses no device.
        self.allow(0).map_err(|error| error.to_string())?;
        // The driver is called without the lock of the table, which progress takes.
        let mut all: Vec<Arc<dyn Share>> = {
            let table = self.table();
            let entries = table.devices.iter();
            entries.filter_map(|e| e.ways.share.clone()).collect()
        };
        all.sort_by_key(|share| !share.is_home_of(exported));
        let mut refused = None;
        for share in all {
            match share.open(exported) {
                Ok(Some(opened)) => return Ok(Some(opened)),
                Ok(None) => {}
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        refused.map_or(Ok(None), Err)
    }
}

/// Memory that the host allocated; known until it is dropped.
struct Allocated {
    buffer: Box<dyn DeviceBuffer>,
    table: Arc<Mutex<Table>>,
}

impl DeviceBuffer for Allocated {
    fn base(&self) -> u64 {
        self.buffer.base()
    }

    fn len(&self) -> usize {
        self.buffer.len()
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        let gone = lock(&self.table).known.remove(&self.buffer.base());
        // Ends a registration outside of the lock, and before the memory is freed.
        drop(gone);
    }
}

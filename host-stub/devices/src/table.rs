//! The known memory: added, mapped, or found by lookups.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use osc_engine::door::{DeviceBuffer, HOST, Location, OpenedMemory, decode_location};
use osc_engine::transport::Registration;

use crate::error::DeviceError;
use crate::numbering::Numbering;
use crate::registry::{Allocation, Device, Lookup};

/// Memory that was added to the host's table.
pub(crate) struct Known {
    pub(crate) len: usize,
    pub(crate) device: i32,
    /// The registration for local buffers, made at the first use.
    pub(crate) registration: OnceLock<Registration>,
}

/// An allocation that a lookup knows, registered for local buffers.
pub(crate) struct Seen {
    pub(crate) allocation: Allocation,
    pub(crate) registration: Registration,
}

/// A host range that is mapped on a device.
#[derive(Clone, Copy)]
pub(crate) struct Mapping {
    pub(crate) len: usize,
    /// The address there.
    pub(crate) address: u64,
}

/// A host pointer within a range that is mapped.
#[derive(Clone, Copy)]
pub(crate) struct Mapped {
    pub(crate) location: Location,
    /// Bytes from the pointer to the end of the range.
    pub(crate) left: usize,
}

/// Allocates a number of bytes of a device. The function is shared, so that it is called without the lock of the table,
/// which progress takes.
pub type Allocate = Arc<dyn Fn(usize) -> Result<Box<dyn DeviceBuffer>, String> + Send + Sync>;

/// Maps host memory for a device. Returns the memory's address on the device, and a value that keeps it mapped.
pub type Map =
    Box<dyn Fn((*mut u8, usize)) -> Result<(u64, Box<dyn Send + Sync>), String> + Send + Sync>;

/// Lets processes of one node use each other's memory of a device.
pub trait Share: Send + Sync {
    /// Returns the bytes that another process needs to open `len` bytes of this process's memory.
    fn export(&self, base: u64, len: usize) -> Result<Vec<u8>, String>;

    /// Whether memory that another process exported is of this device.
    fn is_home_of(&self, exported: &[u8]) -> bool;

    /// Opens, for this device, memory of any device that another process exported. `None`: this process does not use this
    /// device yet.
    fn open(&self, exported: &[u8]) -> Result<Option<Box<dyn OpenedMemory>>, String>;
}

/// The functions that copy and allocate memory of a device.
#[derive(Default)]
pub struct Ways {
    /// Allocates memory of the device.
    pub allocate: Option<Allocate>,
    /// Maps host memory for the device; `None` if the device uses the host's addresses.
    pub map: Option<Map>,
    /// Shares memory with other processes. The same driver copies shared memory.
    pub share: Option<Arc<dyn Share>>,
}

/// A device, and the functions for its memory.
pub(crate) struct Entry {
    pub(crate) device: Device,
    pub(crate) ways: Ways,
}

/// All devices, and all known memory.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) devices: Vec<Entry>,
    /// Known memory by its first byte; entries do not overlap.
    pub(crate) known: BTreeMap<u64, Known>,
    /// Mappings by device and first byte; mappings of one device do not overlap.
    pub(crate) mapped: BTreeMap<(i32, u64), Mapping>,
    /// Allocations by their first bytes.
    pub(crate) seen: BTreeMap<u64, Seen>,
    pub(crate) lookups: Vec<Box<dyn Lookup>>,
    /// The relation of the numbers of lookups to those of the host.
    pub(crate) numbering: Numbering,
}

impl Table {
    pub(crate) fn known_at(&self, address: u64) -> Option<(u64, &Known)> {
        let (base, known) = self.known.range(..=address).next_back()?;
        (address - base < known.len as u64).then_some((*base, known))
    }

    /// The mapping of `len` bytes at a host pointer on one device: a declared mapping, otherwise one
    /// that a lookup knows.
    fn mapped_on(&self, device: i32, pointer: u64, len: usize) -> Option<Mapped> {
        let told = self.told_on(device, pointer);
        told.or_else(|| self.looked_up_on(device, pointer, len))
    }

    fn told_on(&self, device: i32, pointer: u64) -> Option<Mapped> {
        let mut before = self.mapped.range((device, 0)..=(device, pointer));
        let (&(_, host), mapping) = before.next_back()?;
        let offset = pointer - host;
        let left = (mapping.len as u64)
            .checked_sub(offset)
            .filter(|n| *n > 0)?;
        Some(Mapped {
            location: Location {
                device,
                address: mapping.address + offset,
            },
            left: left as usize,
        })
    }

    /// A lookup knows bytes, not ranges. So the range is taken as mapped if its last byte is as far from
    /// its first one on the device as on the host.
    fn looked_up_on(&self, device: i32, pointer: u64, len: usize) -> Option<Mapped> {
        let address = self.looked_up(device, pointer)?;
        let last = len.saturating_sub(1) as u64;
        let is_whole = last == 0
            || pointer
                .checked_add(last)
                .and_then(|pointer| self.looked_up(device, pointer))
                .is_some_and(|there| there.checked_sub(address) == Some(last));
        Some(Mapped {
            location: Location { device, address },
            left: if is_whole { len.max(1) } else { 1 },
        })
    }

    fn looked_up(&self, device: i32, pointer: u64) -> Option<u64> {
        let theirs = || self.lookups.iter().find_map(|lookup| lookup.devices());
        self.numbering.compare(theirs, self.devices.len());
        let mut lookups = self.lookups.iter();
        lookups.find_map(|lookup| self.looked_up_by(lookup.as_ref(), device, pointer))
    }

    /// The place to which a lookup has mapped a byte on one device: the device has this number, unless the
    /// memory there is known to belong to another device.
    fn looked_up_by(&self, lookup: &dyn Lookup, device: i32, pointer: u64) -> Option<u64> {
        let on = |number: i32| {
            let address = lookup.mapped(number, pointer)?;
            let owner = match self.itself(address).device {
                HOST => number,
                owner => owner,
            };
            self.numbering.see(number, owner);
            (owner == device).then_some(address)
        };
        on(device).or_else(|| {
            let numbers = lookup.devices().filter(|_| self.numbering.differs())?;
            (0..numbers as i32).find_map(on)
        })
    }

    /// The mapping of `len` bytes at a host pointer, on the first device where its first byte is.
    fn mapped_at(&self, pointer: u64, len: usize) -> Option<Mapped> {
        if self.mapped.is_empty() && self.lookups.is_empty() {
            return None;
        }
        self.numbers()
            .find_map(|device| self.mapped_on(device, pointer, len))
    }

    fn numbers(&self) -> std::ops::Range<i32> {
        0..self.devices.len() as i32
    }

    /// The place of a pointer's memory, and a host pointer's mapping if it has one.
    pub(crate) fn location(&self, pointer: u64) -> Location {
        let mapped = match self.known_at(pointer) {
            Some(_) => None,
            None => self.mapped_at(pointer, 1),
        };
        mapped.map_or_else(|| self.itself(pointer), |mapped| mapped.location)
    }

    /// The place of a pointer's memory, mapped or not.
    fn itself(&self, pointer: u64) -> Location {
        if let Some((_, known)) = self.known_at(pointer) {
            return Location {
                device: known.device,
                address: pointer,
            };
        }
        let host = Location {
            device: HOST,
            address: pointer,
        };
        self.lookups
            .iter()
            .find_map(|lookup| lookup.location(pointer))
            .unwrap_or(host)
    }

    /// The allocation around a pointer that only a lookup knows.
    pub(crate) fn allocation(&self, pointer: u64) -> Option<Allocation> {
        self.lookups.iter().find_map(|l| l.allocation(pointer))
    }

    /// Ends the registrations of allocations that were freed, or replaced by another.
    pub(crate) fn forget_gone(&mut self) {
        let lookups = &self.lookups;
        self.seen.retain(|base, seen| {
            let now = lookups.iter().find_map(|l| l.allocation(*base));
            now == Some(seen.allocation)
        });
    }

    /// The place of `len` bytes that a call names by a pointer or an encoded location. Refuses bytes
    /// that do not all lie there.
    pub(crate) fn place(&self, value: u64, len: usize) -> Result<Location, DeviceError> {
        if let Some(location) = decode_location(value) {
            self.check_device(location.device)?;
            self.whole(location, len)?;
            return Ok(location);
        }
        let mapped = match self.known_at(value) {
            Some(_) => None,
            None => self.mapped_at(value, len),
        };
        if let Some(Mapped { location, left }) = mapped {
            if len > left {
                return Err(straddles(value, len, location.device));
            }
            self.whole(location, len)?;
            return Ok(location);
        }
        let location = self.location(value);
        self.whole(location, len)?;
        if location.device == HOST {
            self.unmapped(value, len)?;
        }
        Ok(location)
    }

    /// Like [`place`](Self::place), except that a pointer to host memory always means that memory,
    /// mapped or not.
    pub(crate) fn place_itself(&self, value: u64, len: usize) -> Result<Location, DeviceError> {
        let location = decode_location(value).unwrap_or_else(|| self.itself(value));
        self.check_device(location.device)?;
        self.whole(location, len)?;
        Ok(location)
    }

    /// The place on `device` of `len` bytes that a pointer names: mapped there, or of the device
    /// itself.
    pub(crate) fn place_on(
        &self,
        device: i32,
        pointer: u64,
        len: usize,
    ) -> Result<Location, DeviceError> {
        self.check_device(device)?;
        if let Some(Mapped { location, left }) = self.mapped_on(device, pointer, len) {
            if len > left {
                return Err(straddles(pointer, len, device));
            }
            self.whole(location, len)?;
            return Ok(location);
        }
        let location = decode_location(pointer).unwrap_or_else(|| self.location(pointer));
        if location.device != device {
            let found = match location.device {
                HOST => String::from("; it is host memory"),
                other => format!("; it is on device {other}"),
            };
            return Err(DeviceError::NotThere {
                pointer,
                device,
                found,
            });
        }
        self.whole(location, len)?;
        Ok(location)
    }

    /// A device by its number.
    pub(crate) fn device(&self, number: i32) -> Result<Device, DeviceError> {
        let entry = usize::try_from(number)
            .ok()
            .and_then(|n| self.devices.get(n));
        entry
            .map(|e| e.device.clone())
            .ok_or(DeviceError::NoSuchDevice(number, self.devices.len()))
    }

    fn check_device(&self, device: i32) -> Result<(), DeviceError> {
        let known = usize::try_from(device).is_ok_and(|n| n < self.devices.len());
        if known || device == HOST {
            return Ok(());
        }
        Err(DeviceError::NoSuchDevice(device, self.devices.len()))
    }

    /// Refuses host bytes that overlap a range mapped on a device: the pointer does not tell
    /// whether the host's or the device's bytes are meant.
    fn unmapped(&self, pointer: u64, len: usize) -> Result<(), DeviceError> {
        if self.mapped.is_empty() && self.lookups.is_empty() {
            return Ok(());
        }
        let end = pointer.saturating_add(len as u64);
        // The search goes through the devices, because a process has few devices but may have many
        // mappings.
        let begins_within = |device| {
            let mut told = self.mapped.range((device, pointer)..(device, end));
            told.next().is_some() || (len > 1 && self.looked_up(device, end - 1).is_some())
        };
        match self.numbers().find(|device| begins_within(*device)) {
            Some(device) => Err(straddles(pointer, len, device)),
            None => Ok(()),
        }
    }

    /// Refuses a range whose bytes do not all lie in one place, or that begins at the host's NULL.
    pub(crate) fn whole(&self, location: Location, len: usize) -> Result<(), DeviceError> {
        let Location { device, address } = location;
        let Some(last) = len.checked_sub(1) else {
            return Ok(());
        };
        let Some(end) = address.checked_add(last as u64) else {
            // An invalid length is an error for every place.
            return match device {
                HOST => Ok(()),
                _ => Err(straddles(address, len, device)),
            };
        };
        if device == HOST {
            if address == 0 {
                return Err(DeviceError::Null);
            }
            // Host addresses that belong to a device, or overlap its memory.
            let inside = self.known_at(address).map(|(_, known)| known);
            let next = self.known.range(address..=end).next().map(|(_, k)| k);
            return match inside.or(next) {
                Some(known) => Err(straddles(address, len, known.device)),
                None => Ok(()),
            };
        }
        let is_whole = if let Some((base, known)) = self.known_at(address) {
            known.device == device && end - base < known.len as u64
        } else if let Some(all) = self.allocation(address) {
            end - all.base < all.len as u64
        } else {
            // Memory that is known by a mapping only, or not at all.
            self.mapped_to(location)
                .is_none_or(|left| len as u64 <= left)
        };
        match is_whole {
            true => Ok(()),
            false => Err(straddles(address, len, device)),
        }
    }

    /// Bytes from a place on a device to the end of the mapping that it lies in.
    fn mapped_to(&self, location: Location) -> Option<u64> {
        let device = location.device;
        let on_device = self.mapped.range((device, 0)..=(device, u64::MAX));
        on_device
            .filter_map(|(_, m)| {
                let offset = location.address.checked_sub(m.address)?;
                (m.len as u64).checked_sub(offset).filter(|left| *left > 0)
            })
            .max()
    }
}

fn straddles(base: u64, len: usize, device: i32) -> DeviceError {
    DeviceError::Straddles { base, len, device }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;

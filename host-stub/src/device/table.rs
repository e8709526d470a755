//! What is known of memory: told, mapped, or found by lookups.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::error::DeviceError;
use super::location::{HOST, Location};
use super::registry::{Allocation, Device, DeviceBuffer, Lookup};
use crate::loader::Registration;

/// Memory that the host was told of.
pub(super) struct Known {
    pub(super) len: usize,
    pub(super) device: i32,
    /// For local buffers; made when first used.
    pub(super) registration: OnceLock<Registration>,
}

/// An allocation that a lookup knows, registered for local buffers.
pub(super) struct Seen {
    pub(super) allocation: Allocation,
    pub(super) registration: Registration,
}

/// A host range that is mapped on a device.
pub(super) struct Mapping {
    pub(super) len: usize,
    pub(super) device: i32,
    pub(super) address: u64,
}

pub(super) type Allocate =
    Box<dyn Fn(usize) -> Result<Box<dyn DeviceBuffer>, String> + Send + Sync>;

/// A device, and how memory is had of it.
pub(super) struct Entry {
    pub(super) device: Device,
    pub(super) allocate: Option<Allocate>,
}

/// All of it.
#[derive(Default)]
pub(super) struct Table {
    pub(super) devices: Vec<Entry>,
    /// By their first bytes; they do not overlap.
    pub(super) known: BTreeMap<u64, Known>,
    pub(super) mapped: BTreeMap<u64, Mapping>,
    /// By their first bytes.
    pub(super) seen: BTreeMap<u64, Seen>,
    pub(super) lookups: Vec<Box<dyn Lookup>>,
}

impl Table {
    pub(super) fn known_at(&self, address: u64) -> Option<(u64, &Known)> {
        let (base, known) = self.known.range(..=address).next_back()?;
        (address - base < known.len as u64).then_some((*base, known))
    }

    pub(super) fn location(&self, pointer: u64) -> Location {
        if let Some((_, known)) = self.known_at(pointer) {
            return Location {
                device: known.device,
                address: pointer,
            };
        }
        if let Some((host, m)) = self.mapped.range(..=pointer).next_back()
            && pointer - host < m.len as u64
        {
            return Location {
                device: m.device,
                address: m.address + (pointer - host),
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
    pub(super) fn allocation(&self, pointer: u64) -> Option<Allocation> {
        self.lookups.iter().find_map(|l| l.allocation(pointer))
    }

    /// Refuses a range of which the first byte is somewhere else than another.
    pub(super) fn whole(
        &self,
        pointer: u64,
        location: Location,
        len: usize,
    ) -> Result<(), DeviceError> {
        let Some(last) = len.checked_sub(1) else {
            return Ok(());
        };
        let straddles = DeviceError::Straddles {
            base: pointer,
            len,
            device: location.device,
        };
        let Some(end) = location.address.checked_add(last as u64) else {
            // A length that is none is no question of where.
            return match location.device {
                HOST => Ok(()),
                _ => Err(straddles),
            };
        };
        match self.known_at(location.address) {
            Some((base, known)) if location.device != HOST => {
                if known.device == location.device && end - base < known.len as u64 {
                    Ok(())
                } else {
                    Err(straddles)
                }
            }
            _ if location.device == HOST => {
                // Host memory that runs into a device's.
                let next = self.known.range(pointer..=pointer + last as u64).next();
                match next {
                    Some((_, known)) => Err(DeviceError::Straddles {
                        base: pointer,
                        len,
                        device: known.device,
                    }),
                    None => Ok(()),
                }
            }
            // Memory that only a lookup knows, or nobody.
            _ => match self.allocation(location.address) {
                Some(all) if end - all.base >= all.len as u64 => Err(straddles),
                _ => Ok(()),
            },
        }
    }
}

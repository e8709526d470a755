//! Commands on device memory: the same checks and arithmetic, with the copy functions that are set.

use std::{ptr, slice};

use plugin_api::{Access, Status};

use super::apply::change_all;
use super::{Command, Responder, Target, execute};
use crate::mem::copy::Copier;
use crate::mem::copy_error::CopyError;
use crate::mem::device_regions::{DeviceRegion, DeviceRegions};
use crate::mem::regions::Arithmetic;
use crate::op::apply::Plan;
use crate::op::element::{self, Elements};

/// A staged region of device memory.
struct Device<'a> {
    region: &'a DeviceRegion,
    copier: Copier,
    copies: &'a mut Vec<u64>,
}

impl Responder {
    /// Executes a command on staged device memory. All threads together execute one command at a time. `here`
    /// is the same as for [`execute`](Self::execute).
    ///
    /// # Safety
    /// The memory that `here` returns is valid for reads and writes, aligned for the elements, and overlaps no
    /// device memory.
    pub(crate) unsafe fn execute_on_device(
        &mut self,
        regions: &DeviceRegions,
        c: &Command,
        here: impl FnOnce(usize) -> Option<*mut u8>,
    ) -> Result<(), Status> {
        let _working = regions.work();
        let region = regions.find_staged(c.key, c.cookie).ok_or(Status::PERM)?;
        let mut device = Device {
            region: &region,
            copier: regions.copier(),
            copies: &mut self.copies,
        };
        // SAFETY: the caller guarantees the place; the region stays registered while `_working` is held.
        unsafe { execute(&mut device, c, here) }
    }
}

impl Responder {
    /// Executes an apply on device memory. All threads together execute one command at a time.
    ///
    /// # Safety
    /// `results` is writable for the results of the plan, and overlaps no device memory.
    #[cold]
    pub(super) unsafe fn apply_on_device(
        &mut self,
        regions: &DeviceRegions,
        c: &Command,
        plan: &Plan<'_>,
        results: *mut u8,
        arithmetic: Option<Arithmetic>,
    ) -> Result<(), Status> {
        let _working = regions.work();
        let region = regions.find_named(c.key, c.cookie).ok_or(Status::PERM)?;
        let device = Device {
            region: &region,
            copier: regions.copier(),
            copies: &mut self.copies,
        };
        // SAFETY: the caller guarantees the results; the region stays registered while `_working` is held.
        unsafe { change_all(&device, plan, results, arithmetic) }
    }
}

impl Target for Device<'_> {
    /// No atomic changes device memory; each element is changed under the lock.
    const HAS_ATOMICS: bool = false;

    fn covers(&self, address: u64, size: u64) -> Result<(), Status> {
        self.region.covers(address, size)
    }

    fn access(&self) -> Access {
        self.region.access
    }

    /// Commands change copies of the elements.
    fn is_by_commands(&self) -> bool {
        true
    }

    unsafe fn put(&self, from: *const u8, address: u64, size: usize) -> Result<(), Status> {
        // SAFETY: the caller guarantees that `from` is readable and that the range lies in the region, which is registered.
        unsafe { self.copier.write(self.region.iface, address, from, size) }.map_err(failed)
    }

    unsafe fn get(&self, address: u64, to: *mut u8, size: usize) -> Result<(), Status> {
        // SAFETY: the caller guarantees that `to` is writable and that the range lies in the region, which is registered.
        unsafe { self.copier.read(self.region.iface, address, to, size) }.map_err(failed)
    }

    /// Copies the elements, changes the copies, and copies changed elements back.
    unsafe fn apply(&mut self, e: &Elements) -> Result<(), Status> {
        let (size, address) = (e.count * e.datatype.size(), e.at as u64);
        let words = size.div_ceil(8);
        self.copies.clear();
        self.copies.resize(2 * words, 0);
        let (new, old) = self.copies.split_at_mut(words);
        let (new, old) = (new.as_mut_ptr().cast::<u8>(), old.as_mut_ptr().cast::<u8>());
        let copied = Elements {
            at: new,
            results: old,
            ..*e
        };
        // SAFETY: `new` and `old` have room for the elements, and are aligned for every type. The caller guarantees the
        // operands, the results and the region.
        unsafe {
            self.get(address, new, size)?;
            element::apply(&copied);
            let new_bytes = slice::from_raw_parts(new.cast_const(), size);
            let old_bytes = slice::from_raw_parts(old.cast_const(), size);
            if new_bytes != old_bytes {
                self.put(new, address, size)?;
            }
            if !e.results.is_null() {
                ptr::copy_nonoverlapping(old, e.results, size);
            }
        }
        Ok(())
    }
}

/// Logs a failed copy, and returns its status.
fn failed(error: CopyError) -> Status {
    tracing::warn!("a peer's request for device memory failed: {error}");
    error.status()
}

#[cfg(test)]
mod tests;

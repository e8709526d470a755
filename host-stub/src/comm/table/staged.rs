//! Device buffers of a collective, and the host memory that holds their bytes during the collective.

use plugin_api::IoVec;

use crate::comm::{CommError, CommResult};
use crate::device::Devices;
use crate::schedule::{Extent, Extents};

/// A buffer on a device, and its bytes in host memory.
pub(crate) struct Staged {
    call: &'static str,
    words: Vec<u64>,
    len: usize,
    iface: u32,
    address: u64,
    /// The bytes that the collective writes; empty if it writes none.
    written: Extents,
    ranks: usize,
}

impl Staged {
    /// Zeroed host memory for `len` bytes of a device that the collective does not write; `None` if
    /// there is not enough memory.
    pub(crate) fn new(call: &'static str, len: usize, iface: u32, address: u64) -> Option<Staged> {
        let mut words = Vec::new();
        let wanted = len.div_ceil(8);
        words.try_reserve_exact(wanted).ok()?;
        words.resize(wanted, 0u64);
        Some(Staged {
            call,
            words,
            len,
            iface,
            address,
            written: Extents::Even(0),
            ranks: 0,
        })
    }

    /// Sets the blocks of `ranks` ranks that the collective writes, and that are copied back to the
    /// device. The bytes between the blocks are not copied back, because other code may write there.
    pub(crate) fn set_written(&mut self, blocks: Extents, ranks: usize) {
        (self.written, self.ranks) = (blocks, ranks);
    }

    fn run(&self, part: Extent) -> [IoVec; 1] {
        [IoVec {
            base: std::ptr::with_exposed_provenance_mut(self.address as usize + part.offset),
            len: part.len,
        }]
    }

    pub(crate) fn base(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    fn failed(&self, function: &'static str, answer: i64) -> CommError {
        CommError::DeviceCopy {
            call: self.call,
            function,
            size: self.len,
            answer,
        }
    }

    /// Copies the device's bytes to host memory.
    ///
    /// # Safety
    /// The device's memory is valid for the bytes.
    pub(crate) unsafe fn fill(&mut self, devices: &Devices) -> CommResult<()> {
        let len = self.len;
        let run = self.run(Extent { offset: 0, len });
        // SAFETY: the words have at least `len` bytes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.base(), len) };
        // SAFETY: the caller guarantees the device's memory.
        let read = unsafe { devices.read(&run, &[self.iface], bytes) };
        read.map_err(|answer| self.failed("copy_from_hmem_iov", answer))
    }

    /// Copies the bytes that the collective wrote to the device.
    ///
    /// # Safety
    /// The conditions of [`fill`](Self::fill).
    unsafe fn give_back(&mut self, devices: &Devices) -> CommResult<()> {
        for rank in 0..self.ranks {
            let part = self.written.of(rank);
            if part.len == 0 {
                continue;
            }
            // SAFETY: each block ends within the words.
            let bytes = unsafe {
                let at = self.base().cast_const().add(part.offset);
                std::slice::from_raw_parts(at, part.len)
            };
            // SAFETY: the caller guarantees the device's memory.
            let written = unsafe { devices.write(&self.run(part), &[self.iface], bytes) };
            written.map_err(|answer| self.failed("copy_to_hmem_iov", answer))?;
        }
        Ok(())
    }
}

/// Copies the bytes that a collective wrote to the device, if it succeeded.
///
/// # Safety
/// The staged buffers are valid for the collective.
pub(crate) unsafe fn give_back(
    mut staged: Vec<Staged>,
    devices: &Devices,
    outcome: CommResult<()>,
) -> CommResult<()> {
    if outcome.is_err() {
        lose(staged);
        return outcome;
    }
    staged.iter_mut().try_for_each(|staged| {
        // SAFETY: the caller guarantees the same conditions.
        unsafe { staged.give_back(devices) }
    })
}

/// Leaks the copies of a failed collective, because a transfer may still use them.
pub(crate) fn lose(staged: Vec<Staged>) {
    std::mem::forget(staged);
}

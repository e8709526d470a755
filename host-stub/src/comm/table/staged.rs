//! Buffers of a collective on a device, and their bytes in host memory meanwhile.

use plugin_api::IoVec;

use crate::comm::{CommError, CommResult};
use crate::device::Devices;

/// A buffer on a device, and its bytes in host memory.
pub(crate) struct Staged {
    call: &'static str,
    words: Vec<u64>,
    len: usize,
    iface: u32,
    address: u64,
    /// Whether the collective writes it.
    writes: bool,
}

impl Staged {
    /// Zeroed host memory for `len` bytes of a device, which the collective does not write; `None` where
    /// there is not as much.
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
            writes: false,
        })
    }

    /// Whether the collective writes it, so that it goes back to the device.
    pub(crate) fn set_writes(&mut self, writes: bool) {
        self.writes = writes;
    }

    fn run(&self) -> [IoVec; 1] {
        [IoVec {
            base: std::ptr::with_exposed_provenance_mut(self.address as usize),
            len: self.len,
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

    /// Brings the device's bytes here.
    ///
    /// # Safety
    /// The device's memory is good for them.
    pub(crate) unsafe fn fill(&mut self, devices: &Devices) -> CommResult<()> {
        let (run, len) = (self.run(), self.len);
        // SAFETY: the words have at least so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.base(), len) };
        // SAFETY: the caller vouches for the device's memory.
        let read = unsafe { devices.read(&run, &[self.iface], bytes) };
        read.map_err(|answer| self.failed("copy_from_hmem_iov", answer))
    }

    /// Brings what the collective wrote to the device.
    ///
    /// # Safety
    /// As for [`fill`](Self::fill).
    unsafe fn give_back(&mut self, devices: &Devices) -> CommResult<()> {
        if !self.writes {
            return Ok(());
        }
        let (run, len) = (self.run(), self.len);
        // SAFETY: as in `fill`.
        let bytes = unsafe { std::slice::from_raw_parts(self.base().cast_const(), len) };
        // SAFETY: as in `fill`.
        let written = unsafe { devices.write(&run, &[self.iface], bytes) };
        written.map_err(|answer| self.failed("copy_to_hmem_iov", answer))
    }
}

/// Brings what a collective wrote to the device, if it came to its end.
///
/// # Safety
/// The buffers that are staged are good for the collective.
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
        // SAFETY: passed on.
        unsafe { staged.give_back(devices) }
    })
}

/// Leaves the copies of a collective that failed where they are: a transfer may still use them.
pub(crate) fn lose(staged: Vec<Staged>) {
    std::mem::forget(staged);
}

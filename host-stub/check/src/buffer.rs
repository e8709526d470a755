//! A test's buffer on a device. Calls accept three names for its place.

use std::sync::Arc;

use plugin_api::{IoVec, hmem_iface};

use super::case::Failure;
use host_stub::device::{DeviceBuffer as Memory, DeviceError, Devices};

/// The device of the tests.
pub(super) const DEVICE: i32 = 0;

/// The name of a buffer's place in calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The device pointer; the host looks it up.
    Pointer,
    /// An encoded location.
    Encoded,
    /// A host pointer that is mapped there, and a mark on the layout.
    Marked,
}

/// Memory on the device, as long as this lives.
pub(super) struct DeviceBuffer {
    memory: Box<dyn Memory>,
    devices: Arc<Devices>,
    way: Way,
    /// Stands for the host's copy of a mapped variable; never touched.
    shadow: Box<[u64]>,
}

impl DeviceBuffer {
    /// Allocates `len` bytes; `turn` selects the name.
    pub(super) fn new(
        devices: &Arc<Devices>,
        len: usize,
        turn: usize,
    ) -> Result<DeviceBuffer, Failure> {
        let memory = devices.allocate(DEVICE, len)?;
        let buffer = DeviceBuffer {
            way: [Way::Pointer, Way::Encoded, Way::Marked][turn % 3],
            shadow: vec![0; len.div_ceil(8).max(1)].into(),
            devices: Arc::clone(devices),
            memory,
        };
        if buffer.way == Way::Marked {
            let (host, bytes) = (buffer.shadow.as_ptr() as u64, buffer.shadow.len() * 8);
            // SAFETY: the range lies in the buffer's memory, which outlives the mapping.
            unsafe { devices.associate(host, bytes, DEVICE, buffer.memory.base()) }?;
        }
        Ok(buffer)
    }

    /// The pointer that a call gets for the byte at `offset`.
    pub(super) fn pointer(&self, offset: usize) -> Result<*mut u8, DeviceError> {
        let base = self.memory.base() as usize;
        let pointer: *mut u8 = std::ptr::with_exposed_provenance_mut(base + offset);
        match self.way {
            Way::Pointer => Ok(pointer),
            Way::Encoded => {
                let encoded = self.devices.encode_location(pointer, DEVICE)?;
                Ok(std::ptr::with_exposed_provenance_mut(encoded as usize))
            }
            Way::Marked => Ok(self
                .shadow
                .as_ptr()
                .cast::<u8>()
                .wrapping_add(offset)
                .cast_mut()),
        }
    }

    /// Whether layouts must be marked.
    pub(super) fn is_marked(&self) -> bool {
        self.way == Way::Marked
    }

    fn run(&self, offset: usize, len: usize) -> [IoVec; 1] {
        let base = self.memory.base() as usize + offset;
        [IoVec {
            base: std::ptr::with_exposed_provenance_mut(base),
            len,
        }]
    }

    /// Writes bytes from the host.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Failure> {
        let run = self.run(offset, bytes.len());
        // SAFETY: the run lies in the memory, or the copy function refuses it.
        let written = unsafe { self.devices.write(&run, &[hmem_iface::CUDA], bytes) };
        written.map_err(|answer| Failure::new(format!("copy_to_hmem_iov answered {answer}")))
    }

    /// Reads bytes to the host.
    pub(super) fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Failure> {
        let run = self.run(offset, bytes.len());
        // SAFETY: the run lies in the memory, or the copy function refuses it.
        let read = unsafe { self.devices.read(&run, &[hmem_iface::CUDA], bytes) };
        read.map_err(|answer| Failure::new(format!("copy_from_hmem_iov answered {answer}")))
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.way == Way::Marked {
            self.devices
                .disassociate(self.shadow.as_ptr() as u64, DEVICE);
        }
        self.devices.forget_memory(self.memory.base());
    }
}

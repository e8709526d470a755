//! Rings that a device can access.

use std::sync::Arc;

use osc_devices::{DeviceError, Devices, MappedMemory};

use super::ring::Ring;

/// The structure through which kernels start operations; the same as libfabric's `struct fid_xpu`
/// (rdma/fi_xpu.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct XpuEndpoint {
    /// The class of an endpoint, FI_CLASS_EP.
    pub fclass: u32,
    /// The provider whose functions serve the endpoint: [`PROXY`].
    pub prov_id: u32,
    /// The address of the ring on the device.
    pub prov_ctx: u64,
}

/// The number of the host's proxy among libfabric's provider numbers, which are consecutive from 1.
pub const PROXY: u32 = 0x686f_7374;
/// libfabric's FI_CLASS_EP.
const CLASS_EP: u32 = 3;

/// A [`Ring`] in memory that a device can read and write. The memory stays mapped until the `MappedRing` is
/// dropped.
pub struct MappedRing {
    // Dropped before the ring, whose memory is mapped here.
    memory: MappedMemory,
    #[expect(dead_code, reason = "held to be dropped with the rest")]
    ring: Arc<Ring>,
}

impl MappedRing {
    /// Maps a ring for a device. [`DeviceError::StartsNothing`]: the device cannot use a ring.
    pub fn new(
        devices: &Devices,
        device: i32,
        ring: &Arc<Ring>,
    ) -> Result<MappedRing, DeviceError> {
        // SAFETY: the ring's memory stays as long as the ring, which is dropped after the mapping.
        let memory = unsafe { devices.map_memory(device, ring.memory()) }?;
        Ok(MappedRing {
            memory,
            ring: Arc::clone(ring),
        })
    }

    /// The structure through which kernels of the device start operations.
    pub fn endpoint(&self) -> XpuEndpoint {
        XpuEndpoint {
            fclass: CLASS_EP,
            prov_id: PROXY,
            prov_ctx: self.memory.address(),
        }
    }
}

//! Rings that a device reaches.

use std::sync::Arc;

use super::error::DeviceError;
use super::registry::Devices;
use super::ring::Ring;

/// What kernels start operations through, as libfabric's `struct fid_xpu` (rdma/fi_xpu.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct XpuEndpoint {
    /// The class of an endpoint, FI_CLASS_EP.
    pub fclass: u32,
    /// Whose functions serve it: [`PROXY`].
    pub prov_id: u32,
    /// The ring, as the device reaches it.
    pub prov_ctx: u64,
}

/// The number of the host's proxy among libfabric's numbers of providers, which begin at 1 and leave no gap.
pub const PROXY: u32 = 0x686f_7374;
/// libfabric's FI_CLASS_EP.
const CLASS_EP: u32 = 3;

/// A [`Ring`] whose memory a device reads and writes, as long as this lives.
pub struct MappedRing {
    address: u64,
    // Before the ring, whose memory it keeps mapped.
    #[expect(dead_code, reason = "held to be dropped with the rest")]
    kept: Option<Box<dyn Send + Sync>>,
    #[expect(dead_code, reason = "held to be dropped with the rest")]
    ring: Arc<Ring>,
}

impl MappedRing {
    /// What kernels of the device start operations through.
    pub fn endpoint(&self) -> XpuEndpoint {
        XpuEndpoint {
            fclass: CLASS_EP,
            prov_id: PROXY,
            prov_ctx: self.address,
        }
    }
}

impl Devices {
    /// Maps a ring for a device: pins its memory where the driver wants that. [`DeviceError::StartsNothing`]: the
    /// device cannot use one.
    pub fn map_ring(&self, device: i32, ring: &Arc<Ring>) -> Result<MappedRing, DeviceError> {
        let found = self.device(device)?;
        let refused = |why| DeviceError::StartsNothing(device, found.name.clone(), why);
        if !found.starts {
            return Err(refused(found.why.clone()));
        }
        let table = self.table();
        let map = &table.devices[device as usize].ways.map;
        let mapped = map.as_ref().map(|map| map(ring)).transpose();
        let (address, kept) = match mapped.map_err(refused)? {
            Some((address, kept)) => (address, Some(kept)),
            // The device reads and writes host memory where the host does.
            None => (ring.memory().0 as u64, None),
        };
        Ok(MappedRing {
            address,
            kept,
            ring: Arc::clone(ring),
        })
    }
}

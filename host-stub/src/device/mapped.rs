//! Rings that a device reaches.

use std::sync::Arc;

use super::error::DeviceError;
use super::registry::Devices;
use super::ring::Ring;

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
    /// Where the ring is for the device's kernels.
    pub fn address(&self) -> u64 {
        self.address
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

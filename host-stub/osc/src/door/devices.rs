//! Memory of devices, as far as the engine knows it. The transport copies device memory.

use plugin_api::Handle;

use super::location::Location;

/// Memory of a device, allocated as long as this lives.
pub trait DeviceBuffer: Send + Sync {
    /// The address of the first byte, for the device and the transport.
    fn base(&self) -> u64;
    /// Bytes.
    fn len(&self) -> usize;
    /// Whether the buffer has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A buffer on a device.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The kind of its memory, one of [`plugin_api::hmem_iface`].
    pub iface: u32,
    /// Its address there.
    pub address: u64,
    /// The transport's handle of the buffer; NULL if the buffer has none.
    pub handle: *mut Handle,
    /// Whether the driver that opens memory of other processes may copy the buffer ([`OpenedMemory`]): the memory belongs to
    /// this driver, and the program set no copy functions.
    pub by_driver: bool,
}

/// Bytes to copy between two places that the driver reaches from this process: on the host, on a device, or in
/// opened memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Address of the destination.
    pub to: u64,
    /// Address of the source.
    pub from: u64,
    /// Number of bytes.
    pub len: usize,
}

/// Memory of a device that another process of this node exposes, opened here. Dropping the value
/// closes the memory.
pub trait OpenedMemory: Send + Sync {
    /// Its first byte in this process.
    fn base(&self) -> u64;

    /// Copies runs between this memory and the host or a device. When the call returns, the runs are copied and other
    /// processes see them. The error is a reason as text; some runs may have been copied then.
    ///
    /// # Safety
    /// Each run is readable and writable memory that the driver reaches.
    unsafe fn copy(&self, runs: &mut dyn Iterator<Item = Run>) -> Result<(), String>;
}

/// The devices of a process. Each error is a reason as text.
pub trait Devices: Send + Sync {
    /// The place of a buffer's memory: on a device, or at this address of the host. A buffer of device memory is
    /// registered with the transport if possible.
    fn find(&self, value: u64, len: usize) -> Result<Result<Found, u64>, String>;

    /// The place of the memory itself: a host pointer that is mapped on a device is host memory all
    /// the same.
    fn locate_itself(&self, value: u64, len: usize) -> Result<Location, String>;

    /// The place of memory that is known to be of a device, or mapped there.
    fn locate_on(&self, device: i32, value: u64, len: usize) -> Result<Location, String>;

    /// The kind of a device's memory and the device's number of that kind. An error if there is no such device, or
    /// device memory is not allowed.
    fn device(&self, device: i32) -> Result<(u32, u64), String>;

    /// Allocates memory of a device.
    fn allocate(&self, device: i32, len: usize) -> Result<Box<dyn DeviceBuffer>, String>;

    /// Returns the bytes that another process of this node needs to [`open`](Self::open) memory of a device. An error if the
    /// driver shares none, or refuses to share this memory.
    fn export(&self, device: i32, base: u64, len: usize) -> Result<Vec<u8>, String>;

    /// Opens memory that another process of this node exported. `None`: this process does not use the memory's device, or not
    /// yet. An error is final.
    fn open(&self, exported: &[u8]) -> Result<Option<Box<dyn OpenedMemory>>, String>;
}

//! The devices of a process, for every door of the engine of windows: the list of devices, places and allocation of their
//! memory, and its registrations with one transport.
//!
//! [`Devices`] is the registry. The registry knows memory by [`Devices::add_memory`], host memory mapped on a device by
//! [`Devices::associate`], and other memory by a [`Lookup`]; the lookup of CUDA is here ([`Devices::add_cuda`]). [`OfWindows`]
//! is the registry for the engine. The transport makes the copies, except for memory of other processes of the node, which
//! CUDA's driver opens and copies.

mod cuda;
mod door;
mod error;
mod found;
mod numbering;
mod registry;
mod table;

pub use cuda::{cuda_devices, is_cuda_loaded};
pub use door::OfWindows;
pub use error::{DeviceError, TransportErrorText};
pub use registry::{Allocation, Device, Devices, Lookup, MappedMemory};
pub use table::{Allocate, Map, Share, Ways};

//! The devices of a process, for every door of the engine of windows: which there are, where memory is, memory of theirs, and
//! registrations of it with one transport.
//!
//! [`Devices`] is the registry. It knows of memory that it was told of ([`Devices::add_memory`]), of host memory that is mapped on a
//! device ([`Devices::associate`]), and of what a [`Lookup`] finds; CUDA's is here ([`Devices::add_cuda`]). [`OfWindows`] is the registry as
//! the engine sees it. Copies are the transport's affair, except for memory of other processes of the node, which CUDA's driver
//! opens and copies.

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

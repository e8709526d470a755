//! Device memory from the host's side: which memory is where, in three ways for the caller to say so,
//! and what the host can do about it.
//!
//! A call with an address takes any of these, and does the same:
//!
//! 1. the device pointer, or a host pointer that is mapped on a device, by [`Devices::associate`] or by
//!    the program's OpenMP: the host looks where it is;
//! 2. a location that [`Devices::encode_location`] made, device and address in 64 bits;
//! 3. either pointer with a layout marked [`on_device`](crate::win::Layout::on_device), or
//!    [`CollArgs::on_device`](crate::coll::CollArgs::on_device) for a collective.
//!
//! Collectives work on host memory: buffers on a device go through copies, by the default algorithms in fragments
//! (`schedule/staging.rs`).
//!
//! The host looks only once it knows of a device at all, or a location was encoded, or a layout marked.

mod cuda;
mod door;
mod error;
mod found;
mod level;
mod mapped;
mod numbering;
mod openmp;
mod pretended;
mod registry;
mod ring;
mod table;

pub use cuda::CUDA;
pub use error::{DeviceError, TransportErrorText};
pub use level::{LEVEL, Level, Support};
pub use mapped::{MappedRing, PROXY, XpuEndpoint};
pub use osc_engine::door::{DeviceBuffer, HOST, Location, MAX_DEVICES, decode_location};
pub use pretended::{PRETENDED, PRETENDED_BYTES, PretendedMemory, pretended_bytes};
pub use registry::{Allocation, Device, Devices, Lookup};
pub use ring::{Command, CommandKind, Completion, Ring};

pub(crate) use door::OfWindows;
pub(crate) use osc_engine::door::is_looked_for;
pub(crate) use ring::Next;

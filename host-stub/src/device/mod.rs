//! Device memory from the host's side: the location of memory, three ways in which the caller can state it, and the host's
//! device support.
//!
//! A call takes any of these forms of an address, with the same effect:
//!
//! 1. the device pointer, or a host pointer that is mapped on a device, by [`Devices::associate`] or by the program's OpenMP:
//!    the host looks the location up;
//! 2. a location that [`Devices::encode_location`] made, device and address in 64 bits;
//! 3. either pointer with a layout marked [`on_device`](crate::win::Layout::on_device), or
//!    [`CollArgs::on_device`](crate::coll::CollArgs::on_device) for a collective.
//!
//! Collectives work on host memory: buffers on a device go through copies, by the default algorithms in fragments
//! (`schedule/staging.rs`).
//!
//! The host looks locations up only once it knows any device, a location was encoded, or a layout was marked. The registry of
//! devices is the crate `osc-devices`, which Open MPI's component uses too; this module adds the host's parts.

mod level;
mod mapped;
mod openmp;
mod pretended;
mod ring;

pub use level::{LEVEL, Level, Support};
pub use mapped::{MappedRing, PROXY, XpuEndpoint};
pub use osc_devices::{
    Allocation, Device, DeviceError, Devices, Lookup, TransportErrorText, cuda_devices,
};
pub use osc_engine::door::{DeviceBuffer, HOST, Location, MAX_DEVICES, decode_location};
pub use pretended::{PRETENDED, PRETENDED_BYTES, PretendedMemory, pretend, pretended_bytes};
pub use ring::{Command, CommandKind, Completion, Ring};

pub(crate) use openmp::OpenMp;
pub(crate) use osc_devices::OfWindows;
pub(crate) use osc_engine::door::is_looked_for;
pub(crate) use ring::Next;

use mca_params::{Declaration, Kind, Level as ParamLevel, Value};

/// Whether the host looks for CUDA devices.
pub static CUDA: Declaration = Declaration::new("host_cuda", Kind::Bool, Value::Bool(true))
    .help(
        "Looks for the CUDA devices of this machine; where there are some, each call's buffers are \
         looked up with the driver",
    )
    .level(ParamLevel::TUNER_DETAIL);

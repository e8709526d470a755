//! Errors about devices and their memory.

use osc_engine::door::MAX_DEVICES;
use osc_engine::transport::TransportError;

/// The reason why a call about a device was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The host has no such device.
    #[error("device {0}: the host knows of {1} device(s)")]
    NoSuchDevice(i32, usize),
    /// The list of devices is full.
    #[error("a device more than {MAX_DEVICES} cannot be told apart from the others")]
    TooMany,
    /// The device has no memory for that host pointer.
    #[error("{pointer:#x}: device {device} has no memory for it{found}")]
    NotThere {
        /// The pointer.
        pointer: u64,
        /// The device.
        device: i32,
        /// The place where the memory is instead, for people.
        found: String,
    },
    /// NULL, plain or as a location.
    #[error("NULL names no memory")]
    Null,
    /// Part of the memory is elsewhere.
    #[error("{len} B at {base:#x} lie on device {device} only in part")]
    Straddles {
        /// First byte.
        base: u64,
        /// Bytes.
        len: usize,
        /// The device of the first byte, or of another.
        device: i32,
    },
    /// The memory overlaps known memory.
    #[error("{len} B at {base:#x} overlap memory that is known already")]
    Overlap {
        /// First byte.
        base: u64,
        /// Bytes.
        len: usize,
    },
    /// The program's level of device support is 1, by this parameter.
    #[error(
        "memory of device {0} is not used at level 1 of device support; {1} is 1, set it to 2 or more"
    )]
    Refused(i32, &'static str),
    /// The transport refused.
    #[error(transparent)]
    Transport(#[from] TransportErrorText),
    /// The device cannot start operations.
    #[error("device {0} ({1}) starts no operations: {2}")]
    StartsNothing(i32, String, String),
    /// Other processes cannot open memory of the device.
    #[error("device {0} ({1}): other processes cannot open its memory: {2}")]
    NotShared(i32, String, String),
    /// The device has no way to allocate that the host knows of.
    #[error("device {0} ({1}): {2}")]
    NoMemory(i32, String, String),
}

/// A refusal of the transport, as text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransportErrorText(String);

impl From<TransportError> for DeviceError {
    fn from(error: TransportError) -> Self {
        DeviceError::Transport(TransportErrorText(error.to_string()))
    }
}

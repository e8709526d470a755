//! CUDA copies through the driver's library, if this machine has it. CUDA is not needed to build or to run. Without
//! the library or without a device, this module reaches nothing.
//!
//! A copy runs in the context that owns the device address. The context is pushed for the copy and popped afterwards,
//! so the caller's thread keeps its current context. Copies use streams of our own that do not synchronise
//! with the default stream, so a kernel that waits for the host does not block them. The user completes kernels that work
//! on the memory before a transfer, as for every MPI call.
//!
//! The caller waits for a copy ([`Copies`]) or polls it ([`UnderWay`]). [`UnderWay`] has its own streams, one in each
//! direction: a device has a copy engine for each direction, and a copy that is waited for does not wait for polled
//! copies.

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(feature = "cuda")]
mod copies;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
mod under_way;

#[cfg(not(feature = "cuda"))]
pub(crate) use absent::{Copies, UnderWay, device_of, devices, has_driver, meet, pin, unpin};
#[cfg(feature = "cuda")]
pub(crate) use {
    copies::Copies,
    driver::{device_of, devices, has_driver, meet, pin, unpin},
    under_way::UnderWay,
};

/// The direction of a copy.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    FromDevice,
    ToDevice,
}

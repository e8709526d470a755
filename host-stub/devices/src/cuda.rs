//! The CUDA devices of this machine, through the driver's library if there is one: the list of
//! devices, device memory for windows, the places of pointers, host memory that kernels can write,
//! and memory of other processes. The transport makes all other copies.

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
mod ipc;
#[cfg(feature = "cuda")]
mod library;
#[cfg(feature = "cuda")]
mod stream;

#[cfg(not(feature = "cuda"))]
pub use absent::{cuda_devices, is_cuda_loaded};
#[cfg(feature = "cuda")]
pub use driver::{cuda_devices, is_cuda_loaded};

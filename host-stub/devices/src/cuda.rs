//! The CUDA devices of this machine, through the driver's library if there is one: which there are,
//! memory of theirs for windows, where a pointer's memory is, host memory that their kernels can
//! write, and memory of other processes. Other copies are the transport's affair.

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
mod ipc;
#[cfg(feature = "cuda")]
mod stream;

#[cfg(not(feature = "cuda"))]
pub use absent::{cuda_devices, is_cuda_loaded};
#[cfg(feature = "cuda")]
pub use driver::{cuda_devices, is_cuda_loaded};

//! Builds without CUDA: they have no devices.

use crate::error::DeviceError;
use crate::registry::Devices;

/// None: this was built without CUDA.
pub fn cuda_devices() -> Result<usize, String> {
    Err(String::from("this was built without CUDA"))
}

/// Never: this was built without CUDA.
pub fn is_cuda_loaded() -> bool {
    false
}

impl Devices {
    /// None: this was built without CUDA.
    pub fn add_cuda(&self) -> Result<usize, DeviceError> {
        Ok(0)
    }
}

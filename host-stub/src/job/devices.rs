//! The devices of a job, and what the parameters make of them.

use std::sync::Arc;

use super::error::JobError;
use crate::base::params::Params;
use crate::device::{
    CUDA, Devices, LEVEL, Level as DeviceLevel, PRETENDED, Support, pretended_bytes,
};
use crate::loader::Transport;

/// The devices that the parameters ask for, and those that the machine has.
pub fn devices(transport: &Transport, params: &Params) -> Result<Arc<Devices>, JobError> {
    let devices = Devices::new(transport, device_limit(params) == DeviceLevel::HostOnHost);
    let pretended = params.declare(&PRETENDED)?.as_int().unwrap_or(0);
    for _ in 0..pretended {
        if let Err(error) = devices.pretend(pretended_bytes(params)?) {
            tracing::warn!("{error}");
            break;
        }
    }
    // Not beside pretended ones, whose copy functions the transport uses for all.
    if pretended == 0 && params.declare(&CUDA)?.as_bool().unwrap_or(true) {
        devices
            .add_cuda()
            .inspect_err(|error| tracing::warn!("{error}"))
            .ok();
    }
    Ok(Arc::new(devices))
}

/// What a transport and devices come to under the parameters.
pub fn device_support(transport: &Transport, devices: &Devices, params: &Params) -> Support {
    Support::of(
        transport.knows_devices(),
        &devices.all(),
        device_limit(params),
    )
}

/// The highest level of device support that the parameters allow.
fn device_limit(params: &Params) -> DeviceLevel {
    let limit = params.declare(&LEVEL).ok().and_then(|v| v.as_int());
    DeviceLevel::of(limit.unwrap_or(4))
}

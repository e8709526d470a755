//! The devices of a job, and their settings from parameters.

use std::sync::Arc;

use super::error::JobError;
use crate::base::params::Params;
use crate::device::{
    CUDA, Devices, LEVEL, Level as DeviceLevel, OpenMp, PRETENDED, Support, cuda_devices, pretend,
    pretended_bytes,
};
use crate::loader::Transport;

/// Registers the devices that the parameters ask for, and the devices of the machine.
pub fn devices(transport: &Transport, params: &Params) -> Result<Arc<Devices>, JobError> {
    let is_refused = device_limit(params) == DeviceLevel::HostOnHost;
    let refused = is_refused.then_some("host_device_level");
    let devices = Devices::new(transport, refused).with_lookup(Box::new(OpenMp::default()));
    let pretended = params.declare(&PRETENDED)?.as_int().unwrap_or(0);
    for _ in 0..pretended {
        if let Err(error) = pretend(&devices, pretended_bytes(params)?) {
            tracing::warn!("{error}");
            break;
        }
    }
    // CUDA devices are not used beside simulated devices, because the transport uses one set of
    // copy functions.
    if pretended == 0 && looks_for_cuda(params)? {
        devices
            .add_cuda()
            .inspect_err(|error| tracing::warn!("{error}"))
            .ok();
    }
    Ok(Arc::new(devices))
}

/// The level of device support that results from a transport, its devices and the parameters.
pub fn device_support(transport: &Transport, devices: &Devices, params: &Params) -> Support {
    Support::of(
        transport.knows_devices(),
        &devices.all(),
        device_limit(params),
        || {
            let why = match looks_for_cuda(params) {
                Ok(true) => cuda_devices().err().unwrap_or_default(),
                _ => String::from("host_cuda is off"),
            };
            format!("no device is known: {why}")
        },
    )
}

fn looks_for_cuda(params: &Params) -> Result<bool, JobError> {
    Ok(params.declare(&CUDA)?.as_bool().unwrap_or(true))
}

/// The highest level of device support that the parameters allow.
fn device_limit(params: &Params) -> DeviceLevel {
    let limit = params.declare(&LEVEL).ok().and_then(|v| v.as_int());
    DeviceLevel::of(limit.unwrap_or(4))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use osc_devices::Ways;

    use super::*;
    use crate::device::{Device, DeviceBuffer};
    use crate::loader::scripted;

    struct Nothing;

    impl DeviceBuffer for Nothing {
        fn base(&self) -> u64 {
            1 << 20
        }

        fn len(&self) -> usize {
            64
        }
    }

    /// Memory that a program keeps after the end of the job holds no registration, because a registration would keep
    /// the transport open.
    #[test]
    fn memory_that_is_left_holds_no_registration() {
        let transport = scripted::transport();
        let devices = Devices::new(&transport, None);
        let device = Device {
            name: String::from("nothing"),
            iface: 1,
            number: 0,
            starts: false,
            why: String::new(),
        };
        let ways = Ways {
            allocate: Some(Arc::new(|_| Ok(Box::new(Nothing)))),
            ..Ways::default()
        };
        let number = devices.add_with(device, ways).unwrap();
        let left = devices.allocate(number, 64).unwrap();
        let found = devices.find(left.base(), left.len()).unwrap();
        assert!(!found.unwrap().handle.is_null());
        assert_eq!(scripted::script(&transport).registrations, 1);
        drop(devices);
        assert_eq!(scripted::script(&transport).registrations, 0);
        drop(left);
    }
}

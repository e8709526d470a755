//! The host's device support, in four levels: which side calls, and whose memory is used.

use std::fmt;

use mca_params::{Allowed, Declaration, Kind, Level as ParamLevel, Value};
use osc_devices::Device;
use serde::Serialize;

/// The highest level that the host offers.
pub static LEVEL: Declaration = Declaration::new("host_device_level", Kind::Int, Value::Int(4))
    .help(
        "Highest level of device support: 1 the host with host memory, 2 also with device \
         memory, 3 devices also start operations on device memory, 4 and on host memory. At 1 buffers and \
         windows of device memory are refused, below 3 no device may start operations, below 4 none on \
         host memory",
    )
    .level(ParamLevel::TUNER_DETAIL)
    .allowed(Allowed::Range { min: 1, max: 4 });

/// The callers and the memory that a level supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[repr(u8)]
pub enum Level {
    /// The host calls, with host memory.
    HostOnHost = 1,
    /// The host calls, with host and device memory.
    HostOnBoth = 2,
    /// Devices call too, with device memory.
    DeviceOnDevice = 3,
    /// Devices call too, with host and device memory.
    DeviceOnBoth = 4,
}

impl Level {
    /// The level of a number, or the nearest level.
    pub fn of(number: i32) -> Level {
        match number {
            ..=1 => Level::HostOnHost,
            2 => Level::HostOnBoth,
            3 => Level::DeviceOnDevice,
            _ => Level::DeviceOnBoth,
        }
    }

    /// The number of the level.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Level::HostOnHost => "the host with host memory",
            Level::HostOnBoth => "the host with host and device memory",
            Level::DeviceOnDevice => "as 2, and devices with device memory",
            Level::DeviceOnBoth => "as 2, and devices with host and device memory",
        };
        write!(f, "{}, {text}", self.number())
    }
}

/// A level, and the reason why the level is not higher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Support {
    /// The level.
    pub level: Level,
    /// The reason why the level is not the next one; empty at the highest level.
    pub why: String,
}

impl Support {
    /// The level that results from a transport, devices and a limit. `none` is the reason why there
    /// is no device.
    pub fn of(
        knows_devices: bool,
        devices: &[Device],
        limit: Level,
        none: impl FnOnce() -> String,
    ) -> Support {
        let (level, why) = if !knows_devices {
            let why = "the plugin knows of no device memory (its ABI is older than 1.1)";
            (Level::HostOnHost, String::from(why))
        } else if devices.is_empty() {
            (Level::HostOnHost, none())
        } else if !devices.iter().any(|device| device.starts) {
            let mut whys = devices.iter().map(|d| d.why.as_str());
            let why = whys.find(|why| !why.is_empty());
            let none = "no device can write commands into host memory";
            (Level::HostOnBoth, String::from(why.unwrap_or(none)))
        } else {
            (Level::DeviceOnBoth, String::new())
        };
        if level <= limit {
            return Support { level, why };
        }
        Support {
            level: limit,
            why: format!("host_device_level is {}", limit.number()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(starts: bool) -> Device {
        Device {
            name: String::new(),
            iface: 1,
            number: 0,
            starts,
            why: String::new(),
        }
    }

    #[test]
    fn levels_follow_their_parts() {
        let top = Level::DeviceOnBoth;
        for (knows, devices, limit, level) in [
            (false, vec![device(true)], top, 1),
            (true, vec![], top, 1),
            (true, vec![device(false)], top, 2),
            (true, vec![device(false), device(true)], top, 4),
            (true, vec![device(true)], Level::DeviceOnDevice, 3),
            (true, vec![device(true)], Level::HostOnHost, 1),
        ] {
            let support = Support::of(knows, &devices, limit, || String::from("none"));
            assert_eq!(support.level.number(), level);
            assert_eq!(support.why.is_empty(), level == 4, "{support:?}");
        }
    }

    #[test]
    fn a_device_says_why_it_starts_nothing() {
        let old = Device {
            why: String::from("its compute capability is 6.1"),
            ..device(false)
        };
        let none = || String::from("none");
        let support = Support::of(true, &[device(false), old], Level::DeviceOnBoth, none);
        assert_eq!(support.level, Level::HostOnBoth);
        assert_eq!(support.why, "its compute capability is 6.1");
    }
}

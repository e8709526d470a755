//! The distance of a network device from the processors on which this process may run, by `/sys`.
//!
//! Each device lists the processors of its NUMA node (`local_cpulist`); the list has all processors if the firmware names
//! no node. A process that is bound to some of these processors is near the device. For a process that is not bound to a
//! single node, all devices are equally near.

use std::ops::RangeInclusive;

use crate::base::sys;

/// The distance of a device; the nearest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Locality {
    /// All processors of this process are local to the device, or the device's processors are
    /// unknown.
    Near,
    /// Some processors of this process are local to the device.
    Partly,
    /// No processor of this process is local to the device.
    Far,
}

/// The processors on which this process may run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processors(Vec<RangeInclusive<u32>>);

impl Processors {
    /// The processors of the main thread, to which a launcher bound it. Empty if `/proc` cannot be read; then every
    /// device is near.
    pub(crate) fn own() -> Processors {
        let status = sys::read("/proc/self/status").unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let mut lines = status.lines();
        let allowed = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Processors(allowed.and_then(ranges).unwrap_or_default())
    }

    /// The distance of a device from these processors. `device` is the device's folder in `/sys`.
    pub(crate) fn locality(&self, device: &str) -> Locality {
        let list = sys::read(&format!("{device}/local_cpulist")).unwrap_or_default();
        let local = ranges(&String::from_utf8_lossy(&list)).unwrap_or_default();
        if local.is_empty() {
            return Locality::Near;
        }
        let mut own = self.0.iter().cloned().flatten();
        let is_local = |processor: u32| local.iter().any(|range| range.contains(&processor));
        let Some(first) = own.next().map(is_local) else {
            return Locality::Near;
        };
        match (first, own.all(|processor| is_local(processor) == first)) {
            (true, true) => Locality::Near,
            (false, true) => Locality::Far,
            _ => Locality::Partly,
        }
    }
}

/// A list of processors as the kernel writes it: `0-3,8`. An empty text gives an empty list, any other text `None`.
fn ranges(text: &str) -> Option<Vec<RangeInclusive<u32>>> {
    let parts = text.trim().split(',').filter(|part| !part.is_empty());
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    parts.map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sys::script::Script;

    fn text(text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    #[test]
    fn devices_are_near_to_processors_of_their_node() {
        use Locality::{Far, Near, Partly};
        for (allowed, local, expected) in [
            ("0-3", "0-7\n", Near),
            ("8-11", "0-7\n", Far),
            ("0-15", "0-7,16-23\n", Partly),
            ("6-9", "0-7\n", Partly),
            ("3", "0,3\n", Near),
            ("0-3", "\n", Near),
            ("0-3", "mask\n", Near),
        ] {
            let status = format!("Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t{allowed}\n");
            let _script = Script::new()
                .answers("/proc/self/status", text(&status))
                .answers("/sys/device/local_cpulist", text(local));
            let found = Processors::own().locality("/sys/device");
            assert_eq!(found, expected, "{allowed} {local}");
        }
    }

    #[test]
    fn nothing_is_far_where_nothing_is_known() {
        let _script = Script::new()
            .fails("/proc/self/status", libc::EACCES)
            .answers("/sys/device/local_cpulist", text("0-7\n"));
        let processors = Processors::own();
        assert_eq!(processors.locality("/sys/device"), Locality::Near);
        let bound = Processors(vec![9..=9]);
        assert_eq!(bound.locality("/sys/absent"), Locality::Near);
    }
}

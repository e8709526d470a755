//! The interfaces of providers whose addresses are IP addresses. libfabric lists such a provider once per address, in its
//! own order. The rule of `base::interfaces` ranks the entries here, and the user's lists may refuse them. Entries of other
//! providers that are on one fabric are ranked by their distance to this process.

use std::net::IpAddr;

use crate::base::interfaces::{Interface, Interfaces};
use crate::base::locality::{Locality, Processors};
use crate::base::params::Options;
use crate::fabric::fids::{Info, InfoRef};
use crate::peer::address::socket_ip;
use crate::peer::liveness;
use crate::peer::networks::Networks;

/// Folders of `/sys/class` with the devices that providers without IP addresses use as domains.
const DEVICE_CLASSES: [&str; 2] = ["infiniband", "cxi"];

/// The machine's interfaces, for one selection. The default contains no interface.
#[derive(Default)]
pub(crate) struct Ranking {
    interfaces: Interfaces,
    processors: Processors,
}

/// The sort key of an entry among those of its provider: rank of its interface, then its fabric, then its distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Rank of its interface, or the largest number without an interface.
    interface: usize,
    /// The position of the first entry with the same fabric.
    fabric: usize,
    locality: Locality,
}

impl Ranking {
    /// Reads the machine's interfaces. If this fails, libfabric's order stays.
    pub(super) fn find() -> Ranking {
        let found = Interfaces::find().inspect_err(|e| {
            tracing::warn!(
                "the network interfaces cannot be listed, so libfabric's order decides: {e}"
            );
        });
        Ranking {
            interfaces: found.unwrap_or_default(),
            processors: Processors::own(),
        }
    }

    /// The networks on which peers may meet this process. `name` is the address of this process's
    /// endpoint.
    pub(crate) fn networks(&self, info: InfoRef<'_>, name: &[u8]) -> Networks {
        let endpoint = socket_ip(info.raw().addr_format, name);
        Networks::publish(liveness::network(), endpoint, &self.interfaces)
    }

    /// The interface of an entry, and its rank.
    fn of(&self, info: InfoRef<'_>) -> Option<(usize, &Interface)> {
        self.interfaces.with(source(info)?)
    }

    /// The distance of the device of a domain. The domain's name is the device's name, perhaps with
    /// an ending of the provider.
    fn locality_of_domain(&self, domain: &str) -> Locality {
        let device = domain.split('-').next().unwrap_or_default();
        if device.is_empty() || device.contains(['/', '.']) {
            return Locality::Near;
        }
        let each = DEVICE_CLASSES.iter().map(|class| {
            let folder = format!("/sys/class/{class}/{device}/device");
            self.processors.locality(&folder)
        });
        each.max().unwrap_or(Locality::Near)
    }

    /// Sorts the entries of each provider by their interfaces. Each provider keeps its positions. Entries without
    /// an interface come after entries with one, in the order of their fabrics.
    pub(super) fn arrange(&self, entries: Vec<Info>) -> Vec<Info> {
        let infos = entries.iter().map(Info::get);
        let fabrics: Vec<String> = infos.clone().map(InfoRef::fabric).collect();
        let ranks = infos.clone().zip(&fabrics).map(|(info, fabric)| {
            let interface = self.of(info).map(|(place, _)| place);
            Rank {
                interface: interface.unwrap_or(usize::MAX),
                fabric: fabrics.iter().position(|f| f == fabric).unwrap_or_default(),
                locality: match interface {
                    Some(_) => Locality::Near,
                    None => self.locality_of_domain(&info.domain()),
                },
            }
        });
        let names: Vec<String> = infos.map(InfoRef::provider).collect();
        let order = order(&names, &ranks.collect::<Vec<_>>());
        let mut entries: Vec<Option<Info>> = entries.into_iter().map(Some).collect();
        let sorted = order.into_iter().filter_map(|from| entries[from].take());
        sorted.collect()
    }

    /// Refuses an entry whose interface the user's lists refuse.
    pub(super) fn admit(&self, info: InfoRef<'_>, options: &Options) -> Result<(), String> {
        match self.of(info) {
            Some((_, interface)) => options.provider.interfaces.admits(interface),
            None => Ok(()),
        }
    }

    /// The reason why a usable entry is not taken: an earlier entry of its provider, with the address `chosen`, is
    /// preferred. `None` if one of the two entries has no interface.
    pub(super) fn not_preferred(&self, info: InfoRef<'_>, chosen: IpAddr) -> Option<String> {
        let (_, interface) = self.of(info)?;
        let (_, preferred) = self.interfaces.with(chosen)?;
        if interface.address == chosen {
            return None;
        }
        let distance = |interface: &Interface| interface.locality(&self.processors);
        let why = match interface.kind.drawback() {
            Some(drawback) if interface.kind > preferred.kind => format!(", {drawback}"),
            _ if preferred.speed > interface.speed => String::from(", which is slower"),
            _ if distance(interface) > distance(preferred) => {
                String::from(", which is farther from this process")
            }
            _ => String::new(),
        };
        Some(format!("{preferred} is preferred to {interface}{why}"))
    }

    /// Whether an entry may be a rail beside the entry `chosen`: its interface is of the same kind and, with `as_fast`,
    /// at least half as fast. Entries without an interface count as equal.
    pub(super) fn suits_as_rail(
        &self,
        info: InfoRef<'_>,
        chosen: InfoRef<'_>,
        as_fast: bool,
    ) -> bool {
        let (Some((_, first)), Some((_, other))) = (self.of(chosen), self.of(info)) else {
            return source(info).is_none() && source(chosen).is_none();
        };
        other.kind == first.kind && (!as_fast || other.speed >= first.speed / 2)
    }

    /// Interfaces that are down, each with its state; empty if `chosen` has no IP address.
    pub(super) fn down(&self, chosen: InfoRef<'_>) -> Vec<(String, String)> {
        let provider = chosen.provider();
        let down = self.interfaces.down.iter();
        match source(chosen) {
            Some(_) => down
                .map(|name| (format!("{provider} on {name}"), String::from("it is down")))
                .collect(),
            None => Vec::new(),
        }
    }
}

/// The order of entries by rank. Each provider keeps its positions.
fn order(names: &[String], ranks: &[Rank]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    for (first, name) in names.iter().enumerate() {
        if names[..first].contains(name) {
            continue;
        }
        let places: Vec<usize> = (first..names.len())
            .filter(|at| names[*at] == *name)
            .collect();
        let mut sorted = places.clone();
        sorted.sort_by_key(|at| ranks[*at]);
        for (place, from) in places.into_iter().zip(sorted) {
            order[place] = from;
        }
    }
    order
}

/// The IP address of an entry.
pub(super) fn source(info: InfoRef<'_>) -> Option<IpAddr> {
    socket_ip(info.raw().addr_format, info.source())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sys::script::Script;

    fn ranking(allowed: &str) -> Ranking {
        let status = format!("Cpus_allowed_list:\t{allowed}\n").into_bytes();
        let _script = Script::new()
            .answers("/proc/self/status", status.clone())
            .answers("/proc/self/status", status);
        Ranking::find()
    }

    #[test]
    fn devices_are_found_by_their_domains() {
        let ranking = ranking("0-3");
        for (domain, class, device) in [
            ("mlx5_0", "infiniband", "mlx5_0"),
            ("rdmap0s6-rdm", "infiniband", "rdmap0s6"),
            ("cxi1", "cxi", "cxi1"),
        ] {
            let file = format!("/sys/class/{class}/{device}/device/local_cpulist");
            let _script = Script::new().answers(&file, b"4-7\n".to_vec());
            assert_eq!(ranking.locality_of_domain(domain), Locality::Far);
        }
        assert_eq!(ranking.locality_of_domain("no/device"), Locality::Near);
        assert_eq!(ranking.locality_of_domain(""), Locality::Near);
    }

    #[test]
    fn entries_of_one_fabric_are_ordered_by_distance() {
        use Locality::{Far, Near};
        let names = ["a", "b", "a", "a", "b", "a"].map(String::from);
        let rank = |interface, fabric, locality| Rank {
            interface,
            fabric,
            locality,
        };
        let (of_none, far, near) = (usize::MAX, Far, Near);
        // The second fabric of provider a has the nearest device. An entry with an interface comes
        // first in any case.
        let ranks = [
            rank(of_none, 0, far),
            rank(of_none, 1, far),
            rank(of_none, 0, near),
            rank(of_none, 3, near),
            rank(of_none, 1, near),
            rank(2, 5, near),
        ];
        assert_eq!(order(&names, &ranks), [5, 4, 2, 0, 1, 3]);
    }
}

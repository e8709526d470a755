//! The interfaces of providers whose addresses are IP addresses: libfabric lists such a provider once per address, in an
//! order of its own. Entries are ranked here by the rule of `base::interfaces`, and refused by the user's lists.

use std::net::IpAddr;

use crate::base::interfaces::{Interface, Interfaces};
use crate::base::params::Options;
use crate::fabric::fids::{Info, InfoRef};
use crate::peer::address::socket_ip;
use crate::peer::liveness;
use crate::peer::networks::Networks;

/// The machine's interfaces, for one selection.
pub(crate) struct Ranking {
    interfaces: Interfaces,
}

impl Ranking {
    /// Looks at the machine. Where that fails, libfabric's order stays.
    pub(super) fn find() -> Ranking {
        let found = Interfaces::find().inspect_err(|e| {
            tracing::warn!(
                "the network interfaces cannot be listed, so libfabric's order decides: {e}"
            );
        });
        Ranking {
            interfaces: found.unwrap_or_default(),
        }
    }

    /// The networks on which peers may meet this process, whose endpoint is called `name`.
    pub(crate) fn networks(&self, info: InfoRef<'_>, name: &[u8]) -> Networks {
        let endpoint = socket_ip(info.raw().addr_format, name);
        Networks::publish(liveness::network(), endpoint, &self.interfaces)
    }

    /// The interface of an entry, and its place in the ranking.
    fn of(&self, info: InfoRef<'_>) -> Option<(usize, &Interface)> {
        self.interfaces.with(source(info)?)
    }

    /// Sorts the entries of each provider by their interfaces. Providers keep their places, and entries without an
    /// interface come after those with one.
    pub(super) fn arrange(&self, entries: Vec<Info>) -> Vec<Info> {
        let names: Vec<String> = entries.iter().map(|e| e.get().provider()).collect();
        let rank = |at: &usize| {
            self.of(entries[*at].get())
                .map_or(usize::MAX, |(rank, _)| rank)
        };
        let mut order: Vec<usize> = (0..entries.len()).collect();
        for (first, name) in names.iter().enumerate() {
            if names[..first].contains(name) {
                continue;
            }
            let places: Vec<usize> = (first..names.len())
                .filter(|at| names[*at] == *name)
                .collect();
            let mut sorted = places.clone();
            sorted.sort_by_key(rank);
            for (place, from) in places.into_iter().zip(sorted) {
                order[place] = from;
            }
        }
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

    /// Why an entry is not taken although it is usable: an earlier one of its provider, with the address `chosen`, is.
    /// `None` if one of them has no interface.
    pub(super) fn not_preferred(&self, info: InfoRef<'_>, chosen: IpAddr) -> Option<String> {
        let (_, interface) = self.of(info)?;
        let (_, preferred) = self.interfaces.with(chosen)?;
        if interface.address == chosen {
            return None;
        }
        let why = match interface.kind.drawback() {
            Some(drawback) if interface.kind > preferred.kind => format!(", {drawback}"),
            _ if preferred.speed > interface.speed => String::from(", which is slower"),
            _ => String::new(),
        };
        Some(format!("{preferred} is preferred to {interface}{why}"))
    }

    /// Whether an entry may be a rail beside the entry `chosen`: its interface is of the same kind, and at least half as
    /// fast, if that is asked. Entries without an interface are taken to be alike.
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

    /// Interfaces that are down, with their state, where `chosen` is an entry with an IP address.
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

/// The IP address of an entry.
pub(super) fn source(info: InfoRef<'_>) -> Option<IpAddr> {
    socket_ip(info.raw().addr_format, info.source())
}

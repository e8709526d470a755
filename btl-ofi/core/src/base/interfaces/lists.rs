//! The user's lists of interfaces: names and networks, as Open MPI's `btl_tcp_if_include` takes them.

use std::fmt;
use std::net::IpAddr;

use super::{Interface, Network};

/// Longest name of an interface (`IFNAMSIZ` without the NUL).
const LONGEST_NAME: usize = 15;

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Name(String),
    Network(Network),
}

impl Entry {
    /// Reads a name, or a network in CIDR notation. The error text is the reason of a refusal.
    fn parse(text: &str) -> Result<Entry, String> {
        if let Some((address, prefix)) = text.split_once('/') {
            let wrong = || {
                format!(
                    "\"{text}\" is no network; a network is an address and a prefix length, as in 10.1.0.0/16 or fd00::/64"
                )
            };
            let address: IpAddr = address.parse().map_err(|_| wrong())?;
            let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
            let network = Network::of(address, prefix).ok_or_else(wrong)?;
            return Ok(Entry::Network(network));
        }
        if text.parse::<IpAddr>().is_ok() {
            return Err(format!(
                "\"{text}\" is an address; name an interface, or a network with its prefix length, as in 10.1.0.0/16"
            ));
        }
        let odd = |c: char| c.is_whitespace() || c.is_control();
        if text.len() > LONGEST_NAME || text.contains(odd) {
            return Err(format!("\"{text}\" is no name of an interface"));
        }
        Ok(Entry::Name(text.to_owned()))
    }

    fn matches(&self, interface: &Interface) -> bool {
        match self {
            Entry::Name(name) => interface.name == *name,
            Entry::Network(network) => network.contains(interface.address),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Name(name) => name.fmt(f),
            Entry::Network(network) => network.fmt(f),
        }
    }
}

/// The include list and the exclude list. At most one of the two lists has entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    include: Vec<Entry>,
    exclude: Vec<Entry>,
}

impl Lists {
    /// Reads the values of both parameters. The error contains the parameter and the reason.
    pub(crate) fn parse(include: &str, exclude: &str) -> Result<Lists, (&'static str, String)> {
        let read = |name: &'static str, text: &str| {
            let entries = text.split(',').map(str::trim).filter(|s| !s.is_empty());
            let entries: Result<Vec<_>, _> = entries.map(Entry::parse).collect();
            entries.map_err(|reason| (name, reason))
        };
        let lists = Lists {
            include: read("btl_ofi_if_include", include)?,
            exclude: read("btl_ofi_if_exclude", exclude)?,
        };
        if !lists.include.is_empty() && !lists.exclude.is_empty() {
            let reason = "btl_ofi_if_include is set too; only one of them can be";
            return Err(("btl_ofi_if_exclude", reason.to_owned()));
        }
        Ok(lists)
    }

    /// Checks whether an interface may be used; the error is the reason of a refusal.
    pub(crate) fn admits(&self, interface: &Interface) -> Result<(), String> {
        let listed = |entries: &[Entry]| entries.iter().any(|entry| entry.matches(interface));
        if !self.include.is_empty() && !listed(&self.include) {
            return Err(format!(
                "{interface} is not in btl_ofi_if_include ({})",
                text(&self.include)
            ));
        }
        if listed(&self.exclude) {
            return Err(format!(
                "{interface} is in btl_ofi_if_exclude ({})",
                text(&self.exclude)
            ));
        }
        Ok(())
    }

    /// Whether the user included a network that contains an address.
    pub(crate) fn names_network_of(&self, address: IpAddr) -> bool {
        let mut entries = self.include.iter();
        entries.any(|entry| matches!(entry, Entry::Network(n) if n.contains(address)))
    }
}

fn text(entries: &[Entry]) -> String {
    let each: Vec<String> = entries.iter().map(Entry::to_string).collect();
    each.join(",")
}

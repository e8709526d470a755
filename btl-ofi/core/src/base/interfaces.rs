//! The network interfaces of this machine, ranked by a rule that is the same on every node, and the user's lists of
//! interfaces (`btl_ofi_if_include`, `btl_ofi_if_exclude`).
//!
//! | rank | kind | why |
//! | --- | --- | --- |
//! | first | a network | |
//! | then | a point-to-point link (tunnel, VPN) | mostly slow, and not to every node |
//! | then | a bridge of this node (docker0, virbr0) | it leads to no other node, and every node may have its address |
//! | then | a link-local address | it is valid on one link only; never used between nodes |
//! | last | loopback | never used between nodes |
//!
//! Within a kind the faster interface comes first, then IPv4, then the lower network: nodes with the same networks so
//! choose the same one, however they name their interfaces. Of several interfaces in one network the one nearest to the
//! process comes first, which changes nothing for its peers: every address of that network meets them. Between networks
//! the distance does not count, because processes of one job are at different distances. Interfaces that are down are not
//! used.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::base::error::CallError;
use crate::base::locality::{Locality, Processors};
use crate::base::sys;

mod lists;
mod node_bridge;
#[cfg(test)]
mod tests;

pub(crate) use lists::Lists;

/// The speed in Mbit/s by which an interface of unknown speed is ranked: below the NICs of clusters,
/// above tunnels.
const UNKNOWN_SPEED: u32 = 1000;

/// Kind of an interface's address, in the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    Network = 0,
    PointToPoint = 1,
    /// A bridge whose ports all stay within the node, or an interface with the name of such a
    /// bridge.
    NodeBridge = 2,
    LinkLocal = 3,
    Loopback = 4,
}

impl Kind {
    /// Whether the address may be valid on other nodes and belong to this node alone.
    pub(crate) fn reaches_nodes(self) -> bool {
        matches!(self, Kind::Network | Kind::PointToPoint)
    }

    /// The reason why an address of this kind is not preferred; `None` for a network.
    pub(crate) fn drawback(self) -> Option<&'static str> {
        match self {
            Kind::Network => None,
            Kind::PointToPoint => Some("a point-to-point link"),
            Kind::NodeBridge => Some("a bridge of this node only"),
            Kind::LinkLocal => Some("a link-local address"),
            Kind::Loopback => Some("loopback"),
        }
    }
}

impl TryFrom<u8> for Kind {
    type Error = u8;

    fn try_from(number: u8) -> Result<Kind, u8> {
        match number {
            0 => Ok(Kind::Network),
            1 => Ok(Kind::PointToPoint),
            2 => Ok(Kind::NodeBridge),
            3 => Ok(Kind::LinkLocal),
            4 => Ok(Kind::Loopback),
            other => Err(other),
        }
    }
}

/// An IP network: the leading `prefix` bits of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Network {
    start: IpAddr,
    prefix: u8,
}

impl Network {
    /// The network of an address. `None` if the prefix is longer than the address.
    pub(crate) fn of(address: IpAddr, prefix: u8) -> Option<Network> {
        let start = match address {
            IpAddr::V4(a) if prefix <= 32 => {
                let mask = u32::MAX.checked_shl(u32::from(32 - prefix)).unwrap_or(0);
                IpAddr::V4((a.to_bits() & mask).into())
            }
            IpAddr::V6(a) if prefix <= 128 => {
                let mask = u128::MAX.checked_shl(u32::from(128 - prefix)).unwrap_or(0);
                IpAddr::V6((a.to_bits() & mask).into())
            }
            _ => return None,
        };
        Some(Network { start, prefix })
    }

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        Network::of(address, self.prefix) == Some(self)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.start, self.prefix)
    }
}

/// An address of an interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    /// Length of the network's prefix, at most the number of bits of the address.
    pub(crate) prefix: u8,
    pub(crate) kind: Kind,
    /// Mbit/s; 0 if unknown.
    pub(crate) speed: u32,
}

impl Interface {
    /// The network of the address.
    pub(crate) fn network(&self) -> Option<Network> {
        Network::of(self.address, self.prefix)
    }

    /// Whether `address` is on this interface's network.
    pub(crate) fn shares(&self, address: IpAddr) -> bool {
        self.network().is_some_and(|n| n.contains(address))
    }

    /// The interface's distance from the processors of this process.
    pub(crate) fn locality(&self, processors: &Processors) -> Locality {
        let folder = node_bridge::folder(&self.name);
        folder.map_or(Locality::Near, |folder| {
            processors.locality(&format!("{folder}/device"))
        })
    }

    /// The key by which interfaces are sorted.
    fn rank(&self, processors: &Processors) -> impl Ord + use<> {
        let speed = match self.speed {
            0 => UNKNOWN_SPEED,
            known => known,
        };
        let network = self.network();
        let key = (self.kind, u32::MAX - speed, self.address.is_ipv6());
        (key, network, self.locality(processors), self.address)
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.name, self.address, self.prefix)?;
        match self.speed {
            0 => Ok(()),
            speed => write!(f, " ({speed} Mbit/s)"),
        }
    }
}

/// The interfaces of this process's network namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interfaces {
    /// Interfaces that are up and running, in order of preference.
    pub(crate) usable: Vec<Interface>,
    /// Names of interfaces that are down and have an address.
    pub(crate) down: Vec<String>,
}

impl Interfaces {
    /// Reads the interfaces of the machine.
    pub(crate) fn find() -> Result<Interfaces, CallError> {
        let mut found = Interfaces::default();
        for raw in sys::interface_addresses()? {
            let needed = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
            if raw.flags & needed == needed {
                let kind = kind(&raw);
                found.usable.push(Interface {
                    speed: if kind == Kind::Loopback {
                        0
                    } else {
                        speed(&raw.name)
                    },
                    name: raw.name,
                    address: raw.address,
                    prefix: raw.prefix,
                    kind,
                });
            } else if !found.down.contains(&raw.name) {
                found.down.push(raw.name);
            }
        }
        let processors = Processors::own();
        let rank = |interface: &Interface| interface.rank(&processors);
        found.usable.sort_by_cached_key(rank);
        Ok(found)
    }

    /// The usable interface with this address, and its rank.
    pub(crate) fn with(&self, address: IpAddr) -> Option<(usize, &Interface)> {
        let mut usable = self.usable.iter().enumerate();
        usable.find(|(_, interface)| interface.address == address)
    }
}

/// The names of all interfaces, for log messages.
pub(crate) fn list(interfaces: &[Interface]) -> String {
    let each: Vec<String> = interfaces.iter().map(Interface::to_string).collect();
    match each.is_empty() {
        true => String::from("none"),
        false => each.join(", "),
    }
}

/// Whether an IPv6 address is valid on one link only (fe80::/10).
fn is_link_local_v6(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// Whether an address is valid on one link only.
pub(crate) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => is_link_local_v6(a),
    }
}

/// The IP address in the bytes of a socket address; `None` for other families.
pub(crate) fn ip_of(socket_address: &[u8]) -> Option<IpAddr> {
    let family = u16::from_ne_bytes(*socket_address.first_chunk()?);
    // Family and port come first in both forms; IPv6 has four bytes of flow information before the address.
    match i32::from(family) {
        libc::AF_INET => {
            let bytes: [u8; 4] = *socket_address.get(4..)?.first_chunk()?;
            Some(IpAddr::from(bytes))
        }
        libc::AF_INET6 => {
            let bytes: [u8; 16] = *socket_address.get(8..)?.first_chunk()?;
            Some(IpAddr::from(bytes))
        }
        _ => None,
    }
}

fn kind(raw: &sys::InterfaceAddress) -> Kind {
    let has = |flag: libc::c_int| raw.flags & flag as u32 != 0;
    if has(libc::IFF_LOOPBACK) || raw.address.is_loopback() {
        Kind::Loopback
    } else if is_link_local(raw.address) {
        Kind::LinkLocal
    } else if node_bridge::is(&raw.name) {
        Kind::NodeBridge
    } else if has(libc::IFF_POINTOPOINT) {
        Kind::PointToPoint
    } else {
        Kind::Network
    }
}

/// The speed in Mbit/s that the kernel reports; 0 if it reports none.
fn speed(name: &str) -> u32 {
    let Some(folder) = node_bridge::folder(name) else {
        return 0;
    };
    let number = |text: Vec<u8>| String::from_utf8(text).ok()?.trim().parse::<i64>().ok();
    let told = sys::read(&format!("{folder}/speed")).ok().and_then(number);
    // Drivers without a speed report -1.
    told.and_then(|speed| u32::try_from(speed).ok())
        .unwrap_or(0)
}

//! Whether two processes can meet on a network. The endpoints of both processes have IP addresses, which were chosen before
//! the processes knew each other. A peer that cannot be met is refused when it is connected; the error names the addresses
//! of both sides and the parameter to set. Otherwise an operation would wait forever for a connection that no process
//! answers.
//!
//! | the peer | result |
//! | --- | --- |
//! | shares this process's network namespace | the processes meet, on loopback too |
//! | has a loopback or link-local address, or this process has | refused: such addresses have another meaning on another node |
//! | has an address of the other family | refused |
//! | has an address that this node has too, or the reverse (docker0) | refused: each would talk to its own node |
//! | is on a network of this process, or the reverse | they meet |
//! | is on a network that `btl_ofi_if_include` names | they meet: the user says that routers connect them |
//! | is on another network, although the two nodes share a network | refused |
//! | shares no network, and the kernel knows a route | they meet |
//! | shares no network, and there is no route | refused |

use std::net::IpAddr;

use crate::base::interfaces::{Interface, Interfaces, Lists, Network, list};
use crate::base::sys;
use crate::peer::address::{MAX_INTERFACE_NAME, MAX_INTERFACES};

/// The networks that a process publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Networks {
    /// See [`crate::peer::liveness::network`].
    pub(crate) namespace: u64,
    /// The address of the process's endpoint; `None` if the address is no IP address.
    pub(crate) endpoint: Option<IpAddr>,
    /// The process's usable interfaces, in order of preference.
    pub(crate) interfaces: Vec<Interface>,
}

/// The way in which two processes reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// The addresses of the processes are no IP addresses, so this is unknown.
    Unknown,
    /// The processes share a network namespace, and therefore a node.
    Namespace,
    /// The processes share a network, or the user states that routers connect them.
    Network,
    /// The processes share no network, but the kernel knows a route.
    Route,
}

impl Networks {
    /// The networks of this process, whose endpoint has the address `endpoint`.
    pub(crate) fn publish(
        namespace: u64,
        endpoint: Option<IpAddr>,
        found: &Interfaces,
    ) -> Networks {
        let printable = |i: &&Interface| {
            let name = i.name.as_bytes();
            name.len() <= MAX_INTERFACE_NAME && name.iter().all(u8::is_ascii_graphic)
        };
        let usable = found.usable.iter().filter(printable);
        let interfaces = match endpoint {
            Some(_) => usable.take(MAX_INTERFACES).cloned().collect(),
            None => Vec::new(),
        };
        Networks {
            namespace,
            endpoint,
            interfaces,
        }
    }

    /// The address of the endpoint as the end of a message; empty if it is no IP address.
    pub(crate) fn place(&self) -> String {
        let address = self.endpoint.map(|address| format!(", address {address}"));
        address.unwrap_or_default()
    }

    /// The addresses that distinguish a node from others.
    fn distinctive(&self) -> impl Iterator<Item = &Interface> {
        self.interfaces.iter().filter(|i| i.kind.reaches_nodes())
    }

    fn has(&self, address: IpAddr) -> bool {
        self.interfaces.iter().any(|i| i.address == address)
    }

    /// Whether two processes share a network namespace. Clones of a virtual machine have equal numbers, but other
    /// addresses. In one namespace, interfaces may appear and disappear between the times when the two processes list them.
    /// If `/proc` hides the number, the addresses decide.
    fn is_namespace_of(&self, other: &Networks) -> bool {
        if self.namespace == 0 || other.namespace == 0 {
            return self.interfaces == other.interfaces;
        }
        let (mut own, mut others) = (
            self.distinctive().peekable(),
            other.distinctive().peekable(),
        );
        let alone = own.peek().is_none() || others.peek().is_none();
        self.namespace == other.namespace && (alone || own.any(|i| other.has(i.address)))
    }

    /// The networks that both processes have, with different addresses.
    fn in_common(&self, other: &Networks) -> Vec<Network> {
        let shared = self.distinctive().filter(|own| {
            let mut others = other.distinctive();
            others.any(|i| i.address != own.address && i.network() == own.network())
        });
        let mut networks: Vec<Network> = Vec::new();
        for network in shared.filter_map(Interface::network) {
            if !networks.contains(&network) {
                networks.push(network);
            }
        }
        networks
    }

    /// Whether the network of the interface with the address `own` contains another address.
    pub(crate) fn shares(&self, own: IpAddr, address: IpAddr) -> bool {
        let mut own = self.interfaces.iter().filter(|i| i.address == own);
        own.any(|i| i.shares(address))
    }
}

/// Pairs interfaces of this process with interfaces of a peer. With IP addresses, an interface gets the peer's first
/// interface on its network that has no partner yet. Without IP addresses, an interface gets the peer's interface with the
/// same number. The two sides agree even if they assume different sizes of the network.
pub(crate) fn pair(
    networks: &Networks,
    own: &[Option<IpAddr>],
    theirs: &[Networks],
) -> Vec<Option<usize>> {
    let mut free: Vec<(usize, &Networks)> = theirs.iter().enumerate().collect();
    let pairs = own.iter().enumerate().map(|(number, own)| {
        let meets = |(theirs, peer): &(usize, &Networks)| match (*own, peer.endpoint) {
            (Some(own), Some(at)) => networks.shares(own, at) || peer.shares(at, own),
            (None, None) => *theirs == number,
            _ => false,
        };
        let place = free.iter().position(meets)?;
        Some(free.remove(place).0)
    });
    pairs.collect()
}

/// Checks whether two processes reach each other. The error contains the reason and advice.
pub(crate) fn meet(own: &Networks, peer: &Networks, lists: &Lists) -> Result<Meeting, String> {
    let (Some(here), Some(there)) = (own.endpoint, peer.endpoint) else {
        return Ok(Meeting::Unknown);
    };
    if own.is_namespace_of(peer) {
        return Ok(Meeting::Namespace);
    }
    let refused = |why: String| Err(format!("{why}; {}", advice(own, peer)));
    for (whose, address) in [("its address", there), ("this process's address", here)] {
        if let Some(kind) = confined(address) {
            return refused(format!(
                "{whose} {address} is {kind}, which other nodes cannot reach"
            ));
        }
    }
    if here.is_ipv4() != there.is_ipv4() {
        return refused(format!(
            "its address {there} and this process's address {here} are of different families"
        ));
    }
    if own.has(there) || peer.has(here) {
        let both = if own.has(there) { there } else { here };
        return refused(format!("both nodes have the address {both}"));
    }
    if own.shares(here, there) || peer.shares(there, here) || lists.names_network_of(there) {
        return Ok(Meeting::Network);
    }
    let apart = format!("its address {there} and this process's address {here} share no network");
    if !own.in_common(peer).is_empty() {
        return refused(apart);
    }
    match sys::find_route(here, there) {
        Ok(()) => Ok(Meeting::Route),
        Err(error) => refused(format!("{apart}, and there is no route: {error}")),
    }
}

/// The reason why an address is useless for other nodes; `None` if it may be useful.
fn confined(address: IpAddr) -> Option<&'static str> {
    if address.is_loopback() {
        Some("a loopback address")
    } else if address.is_unspecified() {
        Some("no particular address")
    } else if crate::base::interfaces::is_link_local(address) {
        Some("a link-local address")
    } else {
        None
    }
}

/// Names the parameter to set, and the addresses of both sides.
fn advice(own: &Networks, peer: &Networks) -> String {
    let common = own.in_common(peer);
    let advice = match common.first() {
        Some(network) => format!("set btl_ofi_if_include to {network} for all processes"),
        None => String::from(
            "they have no network in common (if routers connect them, name the networks in btl_ofi_if_include)",
        ),
    };
    format!(
        "{advice}. Its interfaces: {}. This process's: {}",
        list(&peer.interfaces),
        list(&own.interfaces)
    )
}

#[cfg(test)]
mod tests;

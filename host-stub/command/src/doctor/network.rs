//! The interfaces to other nodes, and whether a port can be opened and reached on them.

mod node_bridge;

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;

use super::Finding;

const INTERFACES: &str = "interfaces";
const PORT: &str = "port";
/// An address of this machine answers at once, unless a firewall drops what goes there.
const LIMIT: Duration = Duration::from_secs(2);
const SYS: &str = "/sys/class/net";

/// An address of an interface that is up.
struct Interface {
    name: String,
    /// Its number in this process's network namespace; 0 if it has gone since.
    index: u32,
    address: IpAddr,
    /// Whether it has a carrier.
    running: bool,
}

impl Interface {
    /// Whether the address is valid on one link only.
    fn is_link_local(&self) -> bool {
        match self.address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
        }
    }
}

pub(super) fn look() -> Vec<Finding> {
    let found = match interfaces() {
        Ok(found) => found,
        Err(error) => {
            return vec![Finding::problem(
                INTERFACES,
                format!("the kernel does not list them: {error}"),
            )];
        }
    };
    vec![judge(&found, Path::new(SYS)), port(&found)]
}

/// Names the interfaces that the transport considers, by its own rule. `sys` has a folder for each interface.
fn judge(found: &[Interface], sys: &Path) -> Finding {
    let (bridges, others): (Vec<_>, Vec<_>) = found
        .iter()
        .filter(|interface| !interface.address.is_loopback())
        .partition(|interface| node_bridge::is(sys, &interface.name, interface.index));
    let list: Vec<_> = others
        .iter()
        .filter(|interface| interface.running && !interface.is_link_local())
        .map(|interface| format!("{} {}", interface.name, interface.address))
        .collect();
    if list.is_empty() {
        return Finding::note(
            INTERFACES,
            "none leads to other nodes: jobs on this node alone",
        );
    }
    let list = list.join(", ");
    let names: BTreeSet<_> = bridges.iter().map(|b| b.name.as_str()).collect();
    if names.is_empty() {
        return Finding::ok(INTERFACES, list);
    }
    let names = Vec::from_iter(names).join(",");
    Finding::note(
        INTERFACES,
        format!(
            "{list}; the transport never uses the bridges {names}, but Open MPI's own connections may"
        ),
    )
    .set(format!(
        "export OMPI_MCA_btl_tcp_if_exclude=lo,{names} OMPI_MCA_oob_tcp_if_exclude=lo,{names}"
    ))
}

/// Opens a port on each address and connects to it.
fn port(found: &[Interface]) -> Finding {
    let mut failed = Vec::new();
    // Nobody connects to a link-local address, which needs the name of its link besides.
    for interface in found.iter().filter(|found| !found.is_link_local()) {
        if let Err(error) = reach(interface.address) {
            failed.push(format!("{} {}: {error}", interface.name, interface.address));
        }
    }
    if failed.is_empty() {
        return Finding::ok(PORT, "one was opened and reached on each address");
    }
    Finding::problem(
        PORT,
        format!(
            "none can be opened and reached on {}. Let the firewall pass TCP between the nodes",
            failed.join("; ")
        ),
    )
    .set("sudo iptables -S; sudo nft list ruleset   # shows what drops it")
}

fn reach(address: IpAddr) -> io::Result<()> {
    let listener = TcpListener::bind(SocketAddr::new(address, 0))?;
    TcpStream::connect_timeout(&listener.local_addr()?, LIMIT).map(drop)
}

/// The addresses of the interfaces that are up.
fn interfaces() -> io::Result<Vec<Interface>> {
    let mut first: *mut libc::ifaddrs = null_mut();
    // SAFETY: `first` is writable.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut at = first;
    // SAFETY: `at` is NULL or an entry of the list, which lives until `freeifaddrs`.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        let has = |flag: libc::c_int| entry.ifa_flags & flag as u32 != 0;
        if !has(libc::IFF_UP) {
            continue;
        }
        // SAFETY: `getifaddrs` made the entry.
        let Some(address) = (unsafe { address(entry) }) else {
            continue;
        };
        // SAFETY: the name is NUL-terminated and lives as long as the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        found.push(Interface {
            // SAFETY: the name is NUL-terminated.
            index: unsafe { libc::if_nametoindex(name.as_ptr()) },
            name: name.to_string_lossy().into_owned(),
            address,
            running: has(libc::IFF_RUNNING),
        });
    }
    // SAFETY: `getifaddrs` made the list, and no reference into it is left.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The IP address of an entry, if it has one.
///
/// # Safety
/// The entry is of a list that `getifaddrs` made.
unsafe fn address(entry: &libc::ifaddrs) -> Option<IpAddr> {
    // SAFETY: the address is NULL or points to a socket address that begins with its family.
    let family = i32::from(unsafe { entry.ifa_addr.as_ref() }?.sa_family);
    if family == libc::AF_INET {
        // SAFETY: an address of family AF_INET is a `sockaddr_in`; it need not be aligned as one.
        let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
        return Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into());
    }
    if family == libc::AF_INET6 {
        // SAFETY: an address of family AF_INET6 is a `sockaddr_in6`; it need not be aligned as one.
        let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
        return Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into());
    }
    None
}

#[cfg(test)]
mod tests;

//! The interfaces to other nodes, and whether a port can be opened and reached on them.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;

use super::Finding;

const INTERFACES: &str = "interfaces";
const PORT: &str = "port";
/// An address of this machine answers at once, unless a firewall drops what goes there.
const LIMIT: Duration = Duration::from_secs(2);

/// An IPv4 address of an interface that is up.
struct Interface {
    name: String,
    address: Ipv4Addr,
}

impl Interface {
    /// Connects containers or virtual machines of this machine only.
    fn is_bridge(&self) -> bool {
        Path::new("/sys/class/net")
            .join(&self.name)
            .join("bridge")
            .exists()
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
    vec![judge(&found), port(&found)]
}

fn judge(found: &[Interface]) -> Finding {
    let (bridges, others): (Vec<_>, Vec<_>) = found
        .iter()
        .filter(|interface| !interface.address.is_loopback())
        .partition(|interface| interface.is_bridge());
    if others.is_empty() {
        return Finding::note(
            INTERFACES,
            "none with an IPv4 address leads to other nodes: jobs on this node alone, and over TCP by the loopback only",
        )
        .set("export FI_TCP_IFACE=lo");
    }
    let list: Vec<_> = others
        .iter()
        .map(|interface| format!("{} {}", interface.name, interface.address))
        .collect();
    if bridges.is_empty() {
        return Finding::ok(INTERFACES, list.join(", "));
    }
    let names: Vec<_> = bridges.iter().map(|b| b.name.as_str()).collect();
    let names = names.join(",");
    Finding::note(
        INTERFACES,
        format!(
            "{}; the transport never uses the bridges {names}, but Open MPI's own connections may",
            list.join(", ")
        ),
    )
    .set(format!(
        "export OMPI_MCA_btl_tcp_if_exclude=lo,{names} OMPI_MCA_oob_tcp_if_exclude=lo,{names}"
    ))
}

/// Opens a port on each address and connects to it.
fn port(found: &[Interface]) -> Finding {
    let mut failed = Vec::new();
    for interface in found {
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

fn reach(address: Ipv4Addr) -> io::Result<()> {
    let listener = TcpListener::bind(SocketAddr::new(IpAddr::V4(address), 0))?;
    TcpStream::connect_timeout(&listener.local_addr()?, LIMIT).map(drop)
}

/// The IPv4 addresses of the interfaces that are up.
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
        let up = entry.ifa_flags & libc::IFF_UP as u32 != 0;
        // SAFETY: the address is NULL or points to a socket address that begins with its family.
        let family = unsafe { entry.ifa_addr.as_ref() }.map(|address| i32::from(address.sa_family));
        if !up || family != Some(libc::AF_INET) {
            continue;
        }
        // SAFETY: an address of family AF_INET is a `sockaddr_in`; it need not be aligned as one.
        let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
        // SAFETY: the name is NUL-terminated and lives as long as the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        found.push(Interface {
            name: name.to_string_lossy().into_owned(),
            address: Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)),
        });
    }
    // SAFETY: `getifaddrs` made the list, and no reference into it is left.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

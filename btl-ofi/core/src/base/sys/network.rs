//! Calls on networks: whether a process listens at an address, the addresses of this machine, and routes.

use std::ffi::{CStr, CString, c_int};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::{checked, failed, from_io};
use crate::base::error::CallError;

/// Creates a TCP socket whose calls do not wait. A program started by `exec` does not inherit the
/// socket.
pub(crate) fn stream_socket(family: c_int) -> Result<OwnedFd, CallError> {
    scripted!("socket");
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the arguments are numbers.
    let socket = checked("socket", unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: socket returned this descriptor just now, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Begins to connect a socket. Fails with EINPROGRESS if the peer has not answered yet.
pub(crate) fn connect(socket: impl AsFd, address: &[u8]) -> Result<(), CallError> {
    scripted!("connect");
    let socket = socket.as_fd().as_raw_fd();
    let length = address.len() as libc::socklen_t;
    // SAFETY: the address is readable for its length; the borrow keeps the descriptor open.
    checked("connect", unsafe {
        libc::connect(socket, address.as_ptr().cast(), length)
    })
    .map(drop)
}

/// Returns the number of bytes, at most 1, that can be read from a socket, and leaves them there. Returns 0 if the peer
/// closed the connection. Fails with EAGAIN if nothing has arrived or the socket is not connected yet.
pub(crate) fn peek(socket: impl AsFd) -> Result<usize, CallError> {
    scripted!("recv");
    let mut byte = 0u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the buffer is a local of one byte; the borrow keeps the descriptor open.
    let read = unsafe { libc::recv(socket.as_fd().as_raw_fd(), (&raw mut byte).cast(), 1, flags) };
    usize::try_from(read).map_err(|_| failed("recv"))
}

/// Whether a descriptor of this process is a socket that listens at the family and port of a socket address, and a
/// connection waits there to be accepted. False for a number that is no such descriptor.
pub(crate) fn connection_waits(descriptor: c_int, address: &[u8]) -> bool {
    const FAMILY_AND_PORT: usize = 4;
    let mut name = [0u8; size_of::<libc::sockaddr_in6>()];
    let mut length = name.len() as libc::socklen_t;
    // SAFETY: `name` is writable for `length` bytes; the kernel checks the descriptor.
    let named = unsafe { libc::getsockname(descriptor, name.as_mut_ptr().cast(), &mut length) };
    if named != 0 || address.get(..FAMILY_AND_PORT) != Some(&name[..FAMILY_AND_PORT]) {
        return false;
    }
    let (mut listens, mut size): (c_int, _) = (0, size_of::<c_int>() as libc::socklen_t);
    let (level, option) = (libc::SOL_SOCKET, libc::SO_ACCEPTCONN);
    let mut events = libc::pollfd {
        fd: descriptor,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `listens` and `events` are locals that the calls may write; the kernel checks the descriptor, and poll does not wait.
    unsafe {
        libc::getsockopt(
            descriptor,
            level,
            option,
            (&raw mut listens).cast(),
            &mut size,
        ) == 0
            && listens != 0
            && libc::poll(&mut events, 1, 0) == 1
            && events.revents & libc::POLLIN != 0
    }
}

/// An address of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    /// The interface's name.
    pub(crate) name: String,
    /// The interface's `IFF_*` flags.
    pub(crate) flags: u32,
    pub(crate) address: IpAddr,
    /// Number of leading bits that name the network.
    pub(crate) prefix: u8,
}

/// The IP addresses of this process's network namespace, in the kernel's order.
pub(crate) fn interface_addresses() -> Result<Vec<InterfaceAddress>, CallError> {
    scripted!("getifaddrs");
    let mut first = std::ptr::null_mut();
    // SAFETY: `first` is a local that getifaddrs may write.
    checked("getifaddrs", unsafe { libc::getifaddrs(&mut first) })?;
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: `next` is NULL or an entry of the list, which lives until freeifaddrs below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: the pointers of an entry are NULL or point to socket addresses of the list, of their family's size.
        let (address, mask) = unsafe { (ip(entry.ifa_addr), ip(entry.ifa_netmask)) };
        let Some(address) = address else { continue };
        // SAFETY: the name of an entry is a C string that lives as long as the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        found.push(InterfaceAddress {
            name: name.to_string_lossy().into_owned(),
            flags: entry.ifa_flags,
            address,
            prefix: mask.map_or(0, leading_ones),
        });
    }
    // SAFETY: getifaddrs made the list, and no reference into it is left.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The IP address of a socket address; `None` for NULL and for other families.
///
/// # Safety
/// The pointer is NULL, or points to a socket address that is as long as its family asks.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller guarantees that a pointer which is not NULL points to a socket address.
    let family = unsafe { address.as_ref() }?.sa_family;
    match c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: the caller guarantees the length of the family AF_INET.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the caller guarantees the length of the family AF_INET6.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

fn leading_ones(mask: IpAddr) -> u8 {
    let bits = match mask {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    bits as u8
}

/// The index of an interface in this process's network namespace.
pub(crate) fn interface_index(name: &str) -> Result<u32, CallError> {
    scripted!("if_nametoindex");
    let invalid = CallError {
        call: "if_nametoindex",
        code: libc::EINVAL,
    };
    let name = CString::new(name).map_err(|_| invalid)?;
    // SAFETY: the name is a C string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(failed("if_nametoindex")),
        index => Ok(index),
    }
}

/// Asks the kernel for a route from an address of this machine to another address. Fails with ENETUNREACH or
/// EHOSTUNREACH if no route exists. Nothing is sent.
pub(crate) fn find_route(from: IpAddr, to: IpAddr) -> Result<(), CallError> {
    scripted!("connect", "route");
    // A datagram socket connects without sending to the peer. The port does not matter.
    let connected = UdpSocket::bind((from, 0)).and_then(|socket| socket.connect((to, 9)));
    connected.map_err(|e| from_io("connect", &e))
}

//! A trial connection: whether the process of a peer on another node still listens.
//!
//! For providers that connect by TCP at the first send, and return `FI_EAGAIN` while the connection is not established.
//! Some never report a refused connection, but try again at each call. A peer listens at its address from before it
//! publishes the address until its transport closes. So a refused connection proves that the peer is dead; nothing else
//! does. A trial sends no data. A peer has at most one open trial at a time. If an open trial breaks, the process may
//! have died.

use std::ffi::c_int;
use std::os::fd::OwnedFd;

use crate::base::error::CallError;
use crate::base::sys;

/// A connection that was started.
#[derive(Debug)]
pub(crate) struct Trial(OwnedFd);

/// The known state of the process at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    /// No process listens there.
    Gone,
    /// The connection is open, or unanswered.
    Unknown,
    /// The connection has ended; a new one may show more.
    Ended,
}

impl Trial {
    /// Begins a connection to a socket address. Returns `None` if a connection would show nothing. If the connection is
    /// refused at once, the listener is [`Gone`](Listener::Gone).
    pub(crate) fn begin(address: &[u8]) -> Result<Option<Trial>, CallError> {
        let family = address.first_chunk().copied().map(u16::from_ne_bytes);
        let family = family.map(c_int::from).unwrap_or_default();
        if ![libc::AF_INET, libc::AF_INET6].contains(&family) {
            return Ok(None);
        }
        let socket = sys::stream_socket(family)?;
        match sys::connect(&socket, address) {
            Err(e) if e.code != libc::EINPROGRESS => Err(e),
            _ => Ok(Some(Trial(socket))),
        }
    }

    pub(crate) fn listener(&self) -> Listener {
        match sys::peek(&self.0) {
            Err(e) if is_refusal(&e) => Listener::Gone,
            Err(e) if e.code == libc::EAGAIN => Listener::Unknown,
            // A received byte has no meaning here.
            Ok(1..) => Listener::Unknown,
            Ok(0) | Err(_) => Listener::Ended,
        }
    }
}

/// Whether an error of a trial proves that no process listens.
pub(crate) fn is_refusal(error: &CallError) -> bool {
    error.code == libc::ECONNREFUSED
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::base::sys::script::Script;

    /// The address of IPv4's loopback and a port, as libfabric gives it.
    fn loopback(port: u16) -> Vec<u8> {
        let mut address = (libc::AF_INET as u16).to_ne_bytes().to_vec();
        address.extend(port.to_be_bytes());
        address.extend(Ipv4Addr::LOCALHOST.octets());
        address.extend([0; 8]);
        address
    }

    /// Waits until the state of a trial is known. On loopback the kernel answers without another
    /// process.
    fn settled(trial: &Trial) -> Listener {
        let mut seen = Listener::Unknown;
        for _ in 0..1000 {
            seen = trial.listener();
            if seen != Listener::Unknown {
                break;
            }
            std::thread::yield_now();
        }
        seen
    }

    #[test]
    fn a_listener_is_told_from_a_closed_port() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = loopback(listener.local_addr().unwrap().port());
        let trial = Trial::begin(&address).unwrap().unwrap();
        assert_eq!(settled(&trial), Listener::Unknown, "nobody accepted it yet");
        drop(listener);
        assert_eq!(settled(&trial), Listener::Ended);
        match Trial::begin(&address) {
            Ok(trial) => assert_eq!(settled(&trial.unwrap()), Listener::Gone),
            Err(e) => assert!(is_refusal(&e), "{e:?}"),
        }
    }

    #[test]
    fn only_a_refusal_proves_anything() {
        for code in [libc::EHOSTUNREACH, libc::ETIMEDOUT, libc::ECONNRESET] {
            let _script = Script::new()
                .fails("connect", libc::EINPROGRESS)
                .fails("recv", code);
            let trial = Trial::begin(&loopback(1)).unwrap().unwrap();
            assert_eq!(trial.listener(), Listener::Ended);
        }
        let _script = Script::new().fails("socket", libc::EMFILE);
        let error = Trial::begin(&loopback(1)).unwrap_err();
        assert!(!is_refusal(&error));
    }

    #[test]
    fn other_addresses_are_not_tried() {
        for address in [&b""[..], b"f", b"fi_shm://1"] {
            assert!(Trial::begin(address).unwrap().is_none());
        }
    }
}

//! Calls on connections: whether a process listens at an address.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::{checked, failed};
use crate::base::error::CallError;

/// A TCP socket whose calls do not wait, and that a program started by `exec` does not inherit.
pub(crate) fn stream_socket(family: c_int) -> Result<OwnedFd, CallError> {
    scripted!("socket");
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the arguments are numbers.
    let socket = checked("socket", unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: socket returned this descriptor just now, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Begins to connect a socket. EINPROGRESS if the answer is not there yet.
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

/// Number of bytes, of 1, that can be read from a socket; they stay there. 0 if the peer closed it, EAGAIN if nothing came
/// or the socket is not connected yet.
pub(crate) fn peek(socket: impl AsFd) -> Result<usize, CallError> {
    scripted!("recv");
    let mut byte = 0u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the buffer is a local of one byte; the borrow keeps the descriptor open.
    let read = unsafe { libc::recv(socket.as_fd().as_raw_fd(), (&raw mut byte).cast(), 1, flags) };
    usize::try_from(read).map_err(|_| failed("recv"))
}

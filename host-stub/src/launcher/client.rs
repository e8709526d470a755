//! One connection to the launcher's socket.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// What is said of a connection that ended from the other side.
pub(super) const ENDED: &str = "closed its connection without leaving the job";

/// A connection to a process that is not trusted.
pub(super) struct Client {
    pub(super) stream: UnixStream,
    pub(super) pid: i32,
    pub(super) since: Instant,
    pub(super) rank: Option<u32>,
    pub(super) input: Vec<u8>,
    pub(super) output: VecDeque<u8>,
    /// To be closed once the output is sent.
    pub(super) closing: bool,
    /// Why it was cut off, if nobody was told yet.
    pub(super) cut_off: Option<&'static str>,
}

impl Client {
    /// A connection just made by process `pid`.
    pub(super) fn new(stream: UnixStream, pid: i32) -> Self {
        Client {
            stream,
            pid,
            since: Instant::now(),
            rank: None,
            input: Vec::new(),
            output: VecDeque::new(),
            closing: false,
            cut_off: None,
        }
    }

    /// Lets the connection go, with what is still to be sent.
    pub(super) fn cut_off(&mut self, reason: &'static str) {
        self.output.clear();
        if !self.closing {
            self.closing = true;
            self.cut_off = Some(reason);
        }
    }

    /// Sends what the socket takes now.
    pub(super) fn write(&mut self) {
        while !self.output.is_empty() {
            let (front, _) = self.output.as_slices();
            match self.stream.write(front) {
                Ok(count) => {
                    self.output.drain(..count);
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::Interrupted => {}
                    _ => self.cut_off(ENDED),
                },
            }
        }
    }
}

/// Process and user at the other end.
pub(super) fn credentials(stream: &UnixStream) -> io::Result<(i32, u32)> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` has the size given, and both are writable.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut size,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((peer.pid, peer.uid))
}

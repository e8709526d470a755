//! The data that the launcher passes to a process through its environment.

use super::BootstrapError;
use super::protocol::MAX_RANKS;
use std::io::{self, Error, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// The inherited socket to the launcher: its descriptor and its inode, separated by `:`.
pub const SOCKET_ENV: &str = "HOST_STUB_SOCKET";
/// This process's rank.
pub const RANK_ENV: &str = "HOST_STUB_RANK";
/// The number of ranks in the job.
pub const SIZE_ENV: &str = "HOST_STUB_SIZE";
/// The job's name.
pub const JOB_ENV: &str = "HOST_STUB_JOB";

/// The launcher's data in this process's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// [`SOCKET_ENV`].
    pub socket: Inherited,
    /// [`RANK_ENV`].
    pub rank: u32,
    /// [`SIZE_ENV`].
    pub size: u32,
    /// [`JOB_ENV`].
    pub job: String,
}

impl Environment {
    /// Reads the data. `None` without [`SOCKET_ENV`], because then no local launcher started this
    /// process.
    pub fn read() -> Result<Option<Self>, BootstrapError> {
        Self::from_lookup(|name| {
            std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
        })
    }

    /// Reads the data through a function that returns a variable's value.
    pub fn from_lookup(
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, BootstrapError> {
        let Some(socket) = lookup(SOCKET_ENV).filter(|socket| !socket.is_empty()) else {
            return Ok(None);
        };
        let wrong = |name, wanted| BootstrapError::Environment {
            name,
            wanted,
            found: lookup(name).map_or("nothing".to_owned(), |value| format!("`{value}`")),
        };
        let number = |name| lookup(name).and_then(|value| value.parse::<u32>().ok());
        let socket = Inherited::parse(&socket)
            .ok_or_else(|| wrong(SOCKET_ENV, "a descriptor and an inode"))?;
        let size = number(SIZE_ENV)
            .filter(|size| (1..=MAX_RANKS).contains(size))
            .ok_or_else(|| wrong(SIZE_ENV, "a number of ranks"))?;
        let rank = number(RANK_ENV)
            .filter(|rank| *rank < size)
            .ok_or_else(|| wrong(RANK_ENV, "a rank below the job's size"))?;
        let job = lookup(JOB_ENV)
            .filter(|job| {
                !job.is_empty() && job.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            })
            .ok_or_else(|| wrong(JOB_ENV, "a job's name"))?;
        Ok(Some(Environment {
            socket,
            rank,
            size,
            job,
        }))
    }
}

/// An inherited socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
    descriptor: RawFd,
    inode: u64,
}

impl Inherited {
    fn parse(text: &str) -> Option<Inherited> {
        let (descriptor, inode) = text.split_once(':')?;
        Some(Inherited {
            descriptor: descriptor.parse().ok()?,
            inode: inode.parse().ok()?,
        })
    }

    /// A socket of this process, in the form in which its children inherit it.
    pub fn of(socket: &UnixStream) -> io::Result<Inherited> {
        let descriptor = socket.as_raw_fd();
        let inode = inode(descriptor).ok_or_else(Error::last_os_error)?;
        Ok(Inherited { descriptor, inode })
    }

    /// Copies the socket. Fails if a process between the launcher and this process closed the connection, because
    /// the descriptor may then belong to another file.
    pub(super) fn copy(self) -> io::Result<UnixStream> {
        if inode(self.descriptor) != Some(self.inode) {
            let reason =
                "a program between the launcher and this one closed the socket that it inherits";
            return Err(Error::new(ErrorKind::NotConnected, reason));
        }
        // SAFETY: no pointers.
        let copy = unsafe { libc::fcntl(self.descriptor, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(copy) }.into())
    }
}

impl std::fmt::Display for Inherited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.descriptor, self.inode)
    }
}

/// The inode of an open file.
fn inode(descriptor: RawFd) -> Option<u64> {
    // SAFETY: an all-zero structure is valid; fstat fills it.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is writable.
    (unsafe { libc::fstat(descriptor, &mut found) } == 0).then_some(found.st_ino)
}

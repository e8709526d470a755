//! Calls on files: files in memory, their pages and seals, locks, free space, and texts of `/proc`.

use std::ffi::{CStr, c_int};
use std::fs::{self, Metadata};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::{checked, failed, from_io};
use crate::base::error::CallError;

/// Creates a file in memory that permits seals. A program started by `exec` does not inherit it.
pub(crate) fn memory_file(name: &CStr) -> Result<OwnedFd, CallError> {
    scripted!("memfd_create");
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string.
    let file = checked("memfd_create", unsafe {
        libc::memfd_create(name.as_ptr(), flags)
    })?;
    // SAFETY: memfd_create returned this descriptor just now, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// Adds seals (`F_SEAL_*`) to a file.
pub(crate) fn add_seals(file: impl AsFd, seals: c_int) -> Result<(), CallError> {
    scripted!("fcntl");
    let file = file.as_fd().as_raw_fd();
    // SAFETY: this command takes an integer; the borrow keeps the descriptor open.
    checked("fcntl", unsafe {
        libc::fcntl(file, libc::F_ADD_SEALS, seals)
    })
    .map(drop)
}

/// The seals (`F_SEAL_*`) of a file. Fails for a file that cannot have seals.
pub(crate) fn seals(file: impl AsFd) -> Result<c_int, CallError> {
    scripted!("fcntl");
    let file = file.as_fd().as_raw_fd();
    // SAFETY: this command takes no argument; the borrow keeps the descriptor open.
    checked("fcntl", unsafe { libc::fcntl(file, libc::F_GET_SEALS) })
}

/// Allocates the pages of `length` bytes at `from`. The file grows if it is shorter.
pub(crate) fn allocate(file: impl AsFd, from: u64, length: u64) -> Result<(), CallError> {
    fallocate(file, 0, from, length)
}

/// Frees the pages of `length` bytes at `from`. The freed pages then read as zeros, and the file keeps its size.
pub(crate) fn punch_hole(file: impl AsFd, from: u64, length: u64) -> Result<(), CallError> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    fallocate(file, mode, from, length)
}

/// Repeats the call while a signal interrupts it (EINTR). On tmpfs the call ends with EINTR whenever a signal is
/// pending.
fn fallocate(file: impl AsFd, mode: c_int, from: u64, length: u64) -> Result<(), CallError> {
    let once = || {
        scripted!("fallocate");
        let (from, length) = (from as libc::off_t, length as libc::off_t);
        let file = file.as_fd().as_raw_fd();
        // SAFETY: fallocate takes integers only; the borrow keeps the descriptor open.
        checked("fallocate", unsafe {
            libc::fallocate(file, mode, from, length)
        })
        .map(drop)
    };
    loop {
        match once() {
            Err(e) if e.code == libc::EINTR => {}
            done => return done,
        }
    }
}

/// Start of the next data at or after `from`. Fails after the last data (ENXIO).
pub(crate) fn next_data(file: impl AsFd, from: u64) -> Result<u64, CallError> {
    seek(file, from, libc::SEEK_DATA)
}

/// Start of the next hole at or after `from`; the end of the file counts as a hole. Fails after that
/// (ENXIO).
pub(crate) fn next_hole(file: impl AsFd, from: u64) -> Result<u64, CallError> {
    seek(file, from, libc::SEEK_HOLE)
}

fn seek(file: impl AsFd, from: u64, whence: c_int) -> Result<u64, CallError> {
    scripted!("lseek");
    let file = file.as_fd().as_raw_fd();
    // SAFETY: lseek takes integers only; the borrow keeps the descriptor open.
    let found = unsafe { libc::lseek(file, from as libc::off_t, whence) };
    u64::try_from(found).map_err(|_| failed("lseek"))
}

/// Major and minor number of the device that a file is on.
pub(crate) fn device_numbers(found: &Metadata) -> (u32, u32) {
    (libc::major(found.dev()), libc::minor(found.dev()))
}

/// Takes an exclusive lock on an open file (flock). The lock is held until the last descriptor is closed.
/// Returns false if another process holds the lock.
pub(crate) fn try_lock(file: impl AsFd) -> Result<bool, CallError> {
    let once = || {
        scripted!("flock");
        let file = file.as_fd().as_raw_fd();
        // SAFETY: flock takes integers only; the borrow keeps the descriptor open.
        checked("flock", unsafe {
            libc::flock(file, libc::LOCK_EX | libc::LOCK_NB)
        })
        .map(drop)
    };
    match once() {
        Ok(()) => Ok(true),
        Err(e) if e.code == libc::EWOULDBLOCK => Ok(false),
        Err(e) => Err(e),
    }
}

/// Makes later writes to an open file wait for room.
pub(crate) fn set_blocking(file: impl AsFd) -> Result<(), CallError> {
    scripted!("fcntl");
    let file = file.as_fd().as_raw_fd();
    // SAFETY: these commands take integers only; the borrow keeps the descriptor open.
    unsafe {
        let flags = checked("fcntl", libc::fcntl(file, libc::F_GETFL))?;
        let waits = libc::fcntl(file, libc::F_SETFL, flags & !libc::O_NONBLOCK);
        checked("fcntl", waits).map(drop)
    }
}

/// Bytes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    /// Bytes that are free for users without privileges.
    pub(crate) free: u64,
    /// Total number of bytes.
    pub(crate) size: u64,
}

/// The space of the file system that holds `path`.
pub(crate) fn space(path: &CStr) -> Result<Space, CallError> {
    scripted!("statvfs");
    // SAFETY: statvfs consists of integers, for which zeros are valid.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a C string; `stat` is a local that statvfs may write.
    checked("statvfs", unsafe {
        libc::statvfs(path.as_ptr(), &mut stat)
    })?;
    let bytes =
        |blocks: libc::fsblkcnt_t| u64::from(blocks).saturating_mul(u64::from(stat.f_frsize));
    Ok(Space {
        free: bytes(stat.f_bavail),
        size: bytes(stat.f_blocks),
    })
}

/// The names in a folder of `/sys`. In a script, the path is the call's name.
pub(crate) fn names(path: &str) -> Result<Vec<String>, CallError> {
    scripted!("getdents", path);
    let entries = fs::read_dir(path).map_err(|e| from_io("getdents", &e))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.collect())
}

/// The content of a file of `/proc` or `/sys`. In a script, the path is the call's name.
pub(crate) fn read(path: &str) -> Result<Vec<u8>, CallError> {
    scripted!("read", path);
    fs::read(path).map_err(|e| from_io("read", &e))
}

/// The target of a symbolic link of `/proc` or `/sys`. In a script, the path is the call's name.
pub(crate) fn read_link(path: &str) -> Result<PathBuf, CallError> {
    scripted!("readlink", path);
    fs::read_link(path).map_err(|e| from_io("readlink", &e))
}

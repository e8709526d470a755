//! Calls on files: files in memory, their pages and seals, and texts of `/proc`.

use std::ffi::{CStr, c_int};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use super::{checked, from_io};
use crate::base::error::CallError;

/// Creates a file in memory that permits seals. A program started by `exec` does not inherit the
/// file.
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

/// Allocates the pages of `length` bytes at `from`. The file grows if it is shorter. Repeats the call while a signal
/// interrupts it: on tmpfs the call ends with EINTR whenever a signal is pending.
pub(crate) fn allocate(file: impl AsFd, from: u64, length: u64) -> Result<(), CallError> {
    let once = || {
        scripted!("fallocate");
        let (from, length) = (from as libc::off_t, length as libc::off_t);
        let file = file.as_fd().as_raw_fd();
        // SAFETY: fallocate takes integers only; the borrow keeps the descriptor open.
        checked("fallocate", unsafe {
            libc::fallocate(file, 0, from, length)
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

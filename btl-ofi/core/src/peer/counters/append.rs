//! Appends to the file that the user named (`btl_ofi_stats_file`). The file may lie in a folder like `/tmp`, where another
//! user may have made another object with this name. The file must not grow without limit.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread;

use crate::base::sys;

/// Appends a whole line, or nothing.
pub(super) fn append(path: &Path, line: &[u8]) -> io::Result<()> {
    // Runs in a thread without signals. If another process appends at the same time, the file may be full in spite of
    // the comparison below, and SIGXFSZ would end this process. SIGPIPE would, too.
    thread::scope(|scope| {
        let name = String::from("btl-ofi-stats");
        let writer = thread::Builder::new().name(name).spawn_scoped(scope, || {
            sys::block_signals()?;
            write(path, line)
        })?;
        writer
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that writes panicked")))
    })
}

fn write(path: &Path, line: &[u8]) -> io::Result<()> {
    let mut file = open(path)?;
    let found = file.metadata()?;
    if found.is_file() && found.len().saturating_add(line.len() as u64) > sys::file_size_limit()? {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    // The line is written in one call, so that lines of several processes do not mix.
    file.write_all(line)
}

fn open(path: &Path) -> io::Result<File> {
    // Without these flags, opening a FIFO waits for a reader, and opening a terminal may have side
    // effects.
    let mut flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    match fs::symlink_metadata(path) {
        // `/dev/stdout` is a link that belongs to root.
        Ok(link) if link.is_symlink() => {
            if ![0, sys::effective_user()].contains(&link.uid()) {
                return Err(io::Error::other("it is a link of another user"));
            }
        }
        _ => flags |= libc::O_NOFOLLOW,
    }
    let mut options = File::options();
    let file = options
        .append(true)
        .create(true)
        .custom_flags(flags)
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        if !found.file_type().is_char_device() && !is_own_output(&found) {
            let reason = "it is no file, and neither a terminal nor an output of this process";
            return Err(io::Error::other(reason));
        }
        sys::set_blocking(&file)?;
    }
    Ok(file)
}

/// Whether this file is stdout or stderr of this process, which is often a pipe to a launcher.
fn is_own_output(found: &Metadata) -> bool {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    [stdout.as_fd(), stderr.as_fd()].into_iter().any(|output| {
        let output = output
            .try_clone_to_owned()
            .and_then(|fd| File::from(fd).metadata());
        output.is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()))
    })
}

//! Prints the ranks' output with the rank before each line.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::thread::JoinHandle;
use std::time::Duration;

/// The maximum length, in bytes, of the part of a line that waits for the end of the line.
const LINE_LIMIT: u64 = 64 << 10;

/// Time between two checks of the threads.
const NAP: Duration = Duration::from_millis(1);

/// The standard stream of this process to write to.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// Starts a thread that forwards a rank's output until its end. An error means that the system allows no
/// further thread.
pub(super) fn tag(
    rank: u32,
    from: impl Read + Send + 'static,
    to: Stream,
) -> io::Result<JoinHandle<()>> {
    let mut from = BufReader::new(from);
    std::thread::Builder::new().spawn(move || {
        let mut line = Vec::new();
        while from
            .by_ref()
            .take(LINE_LIMIT)
            .read_until(b'\n', &mut line)
            .is_ok_and(|count| count > 0)
        {
            if line.last() != Some(&b'\n') {
                line.push(b'\n');
            }
            let tagged = [format!("[{rank}] ").as_bytes(), &line].concat();
            // If the reader of the output has closed it, the ranks still continue to write.
            let _ = match to {
                Stream::Stdout => write_all(std::io::stdout().lock(), &tagged),
                Stream::Stderr => write_all(std::io::stderr().lock(), &tagged),
            };
            line.clear();
        }
    })
}

/// Writes and flushes all bytes. If the stream is non-blocking, waits for room; another program that shares the
/// stream may have made it so.
fn write_all(mut to: impl Write + AsFd, mut bytes: &[u8]) -> io::Result<()> {
    loop {
        let written = match bytes {
            [] => to.flush().map(|()| 0),
            _ => to.write(bytes),
        };
        match written {
            Ok(_) if bytes.is_empty() => return Ok(()),
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock => wait_for_room(&to)?,
                _ => return Err(error),
            },
        }
    }
}

/// Returns when a stream is writable, or its reader has closed it.
fn wait_for_room(to: &impl AsFd) -> io::Result<()> {
    let mut entry = libc::pollfd {
        fd: to.as_fd().as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: the array has one entry, and its descriptor is open.
    if unsafe { libc::poll(&mut entry, 1, -1) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}

/// Waits for the rest of all outputs; returns early once `is_hurried` returns true.
pub(super) fn finish(mut taggers: Vec<JoinHandle<()>>, mut is_hurried: impl FnMut() -> bool) {
    loop {
        taggers.retain(|tagger| !tagger.is_finished());
        if taggers.is_empty() || is_hurried() {
            return;
        }
        std::thread::sleep(NAP);
    }
}

//! Ranks' output with the rank before each line.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest piece of a line that is held back for its end, bytes.
const LINE_LIMIT: u64 = 64 << 10;

/// How long ended ranks' pipes may stay open: a process that escaped could hold one. Time in which the output is not
/// read from this process does not count.
const DRAIN: Duration = Duration::from_millis(500);

/// Pause between two looks at the threads.
const NAP: Duration = Duration::from_millis(1);

/// Which of this process's streams to write to.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// A thread that passes a rank's output on.
pub(super) struct Tagger {
    thread: JoinHandle<()>,
    /// Whether it waits for input.
    reads: Arc<AtomicBool>,
}

impl Tagger {
    /// Starts it. An error: there are as many threads as may be.
    pub(super) fn start(
        rank: u32,
        from: impl Read + Send + 'static,
        to: Stream,
    ) -> io::Result<Self> {
        let reads = Arc::new(AtomicBool::new(true));
        let told = Arc::clone(&reads);
        let thread = std::thread::Builder::new().spawn(move || pass_on(rank, from, to, &told))?;
        Ok(Tagger { thread, reads })
    }
}

/// Passes output on until its end.
fn pass_on(rank: u32, from: impl Read, to: Stream, reads: &AtomicBool) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        // Relaxed: nothing but time hangs on it.
        reads.store(true, Ordering::Relaxed);
        let read = from.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut line);
        reads.store(false, Ordering::Relaxed);
        match read {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        let tagged = [format!("[{rank}] ").as_bytes(), &line].concat();
        // A reader that is gone is no reason to stop the ranks' writing.
        let _ = match to {
            Stream::Stdout => write_all(std::io::stdout().lock(), &tagged),
            Stream::Stderr => write_all(std::io::stderr().lock(), &tagged),
        };
    }
}

/// Writes and flushes everything, and waits for room where the stream would not: it may be shared with a program that
/// made it non-blocking.
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

/// Returns when a stream can be written to, or its reader is gone.
fn wait_for_room(to: &impl AsFd) -> io::Result<()> {
    let mut entry = libc::pollfd {
        fd: to.as_fd().as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one entry, and its descriptor is open.
    if unsafe { libc::poll(&mut entry, 1, -1) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}

/// Waits for the rest of all outputs; for no reader once `is_hurried` says so.
pub(super) fn finish(taggers: impl Iterator<Item = Tagger>, mut is_hurried: impl FnMut() -> bool) {
    let mut open: Vec<(Tagger, Duration)> = taggers.map(|tagger| (tagger, DRAIN)).collect();
    let mut looked = Instant::now();
    loop {
        let hurried = is_hurried();
        let passed = looked.elapsed();
        looked += passed;
        open.retain_mut(|(tagger, left)| {
            if hurried || tagger.reads.load(Ordering::Relaxed) {
                *left = left.saturating_sub(passed);
            }
            !(left.is_zero() || tagger.thread.is_finished())
        });
        if open.is_empty() {
            return;
        }
        std::thread::sleep(NAP);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;
    use std::os::fd::AsRawFd;

    /// Two pipes' worth and more: the writer finds the pipe full more than once.
    const BYTES: usize = 300_000;

    #[test]
    fn a_stream_that_would_not_block_gets_everything() {
        let (mut reader, writer) = io::pipe().unwrap();
        // SAFETY: calls with integers on a descriptor that is open.
        let room = unsafe {
            assert_eq!(
                libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK),
                0
            );
            libc::fcntl(writer.as_raw_fd(), libc::F_GETPIPE_SZ)
        };
        let text: Vec<u8> = (0..BYTES).map(|place| (place % 251) as u8).collect();
        let sent = text.clone();
        let thread = std::thread::spawn(move || write_all(writer, &sent));
        // Nothing is read before the pipe is full.
        loop {
            let mut held = 0;
            // SAFETY: the request writes an int.
            let rc = unsafe { libc::ioctl(reader.as_raw_fd(), libc::FIONREAD, &raw mut held) };
            assert_eq!(rc, 0);
            if held == room || thread.is_finished() {
                break;
            }
            std::thread::yield_now();
        }
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert!(read == text, "{} of {BYTES} bytes", read.len());
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn a_reader_that_is_gone_is_an_error() {
        let (reader, writer) = io::pipe().unwrap();
        // SAFETY: a call with integers on a descriptor that is open.
        let rc = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(rc, 0);
        let thread = std::thread::spawn(move || write_all(writer, &[7; BYTES]));
        // By now it waits for room, or will find none.
        drop(reader);
        let error = thread.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}

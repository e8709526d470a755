//! Ranks' output with the rank before each line.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest piece of a line that is held back for its end, bytes.
const LINE_LIMIT: u64 = 64 << 10;

/// How long an ended rank's pipe may stay open: a process that escaped could hold it.
const DRAIN: Duration = Duration::from_millis(500);

/// Which of this process's streams to write to.
#[derive(Clone, Copy)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// A thread that passes a rank's output on.
pub(super) struct Tagger {
    done: Receiver<()>,
}

impl Tagger {
    /// Starts it.
    pub(super) fn start(rank: u32, from: impl Read + Send + 'static, to: Stream) -> Self {
        let (finished, done) = channel();
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            loop {
                line.clear();
                match from.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
                if line.last() != Some(&b'\n') {
                    line.push(b'\n');
                }
                let tagged = [format!("[{rank}] ").as_bytes(), &line].concat();
                // A reader that is gone is no reason to stop the ranks' writing.
                let _ = match to {
                    Stream::Stdout => {
                        let mut out = std::io::stdout().lock();
                        out.write_all(&tagged).and_then(|()| out.flush())
                    }
                    Stream::Stderr => std::io::stderr().lock().write_all(&tagged),
                };
            }
            let _ = finished.send(());
        });
        Tagger { done }
    }

    /// Waits for the rest of the output, until `deadline` at most.
    fn finish(self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let _ = self.done.recv_timeout(left);
    }
}

/// Waits for the rest of all outputs.
pub(super) fn finish(taggers: impl IntoIterator<Item = Tagger>) {
    let deadline = Instant::now() + DRAIN;
    for tagger in taggers {
        tagger.finish(deadline);
    }
}

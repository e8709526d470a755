//! Ranks' output with the rank before each line.

use std::io::{BufRead, BufReader, Read, Write};
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
    /// Starts it.
    pub(super) fn start(rank: u32, from: impl Read + Send + 'static, to: Stream) -> Self {
        let reads = Arc::new(AtomicBool::new(true));
        let told = Arc::clone(&reads);
        let thread = std::thread::spawn(move || pass_on(rank, from, to, &told));
        Tagger { thread, reads }
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
            Stream::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(&tagged).and_then(|()| out.flush())
            }
            Stream::Stderr => std::io::stderr().lock().write_all(&tagged),
        };
    }
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

//! Writes a trace. Records are added to a buffer, which a separate thread writes to the file. Records that arrive while the
//! buffer is full are counted and lost. The calls of the host never wait for the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Head, Kind, RECORD, Record};
use crate::base::process::with_signals_blocked;

/// Records of one buffer. There are two buffers of 1 MiB each.
const CAPACITY: usize = 1 << 14;
/// Time between two writes, unless the buffer is half full before that. A killed process loses the records since the last
/// write.
const PERIOD: Duration = Duration::from_millis(50);
/// Maximum unfinished intervals that the trace follows at a time. Further intervals are recorded only when they end.
const MOST_OPEN: usize = 256;
/// Nanoseconds before an unfinished interval is recorded, and between two records of it.
const STILL: u64 = 1_000_000_000;
/// Maximum traces of one process with the same name, such as traces of several jobs.
const MOST_FILES: u32 = 64;
/// An open trace. Dropping the trace writes the remaining records.
pub(crate) struct TraceFile {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

struct Shared {
    buffer: Mutex<Buffer>,
    wake: Condvar,
    /// Cleared when the file can no longer be written.
    is_on: AtomicBool,
    path: PathBuf,
}

struct Buffer {
    /// At most [`CAPACITY`] records. Memory for all records is reserved from the beginning.
    records: Vec<[u8; RECORD]>,
    lost: u64,
    ends: bool,
    /// Unfinished intervals, at most [`MOST_OPEN`].
    open: Vec<Record>,
}

impl TraceFile {
    /// Creates the file of this process: `name` with the host and the process id, and with a number if this file
    /// already exists.
    ///
    /// # Errors
    /// The file cannot be created, or the thread cannot be started.
    pub(crate) fn create(name: &Path, title: &str, rank: u64) -> io::Result<TraceFile> {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim_end();
        let (path, file) = create(name, host)?;
        let monotonic = monotonic();
        let head = Head {
            process: std::process::id(),
            rank,
            monotonic,
            realtime: clock(libc::CLOCK_REALTIME),
            host: host.to_owned(),
            title: title.to_owned(),
        };
        let buffer = Buffer {
            records: Vec::with_capacity(CAPACITY + MOST_OPEN),
            lost: 0,
            ends: false,
            open: Vec::with_capacity(MOST_OPEN),
        };
        let shared = Arc::new(Shared {
            buffer: Mutex::new(buffer),
            wake: Condvar::new(),
            is_on: AtomicBool::new(true),
            path,
        });
        let theirs = Arc::clone(&shared);
        let named = std::thread::Builder::new().name(String::from("host-trace"));
        // A write beyond RLIMIT_FSIZE then fails with EFBIG instead of ending the process.
        let writer = with_signals_blocked(|| named.spawn(move || theirs.run(file, &head)))?;
        Ok(TraceFile {
            shared,
            writer: Some(writer),
        })
    }

    /// Records the beginning of an interval, or new data of it. While an interval continues, it is recorded once per
    /// [`STILL`], so that the trace of a process that hangs and is killed shows where it hung. [`add`](Self::add) ends
    /// it.
    pub(crate) fn begin(&self, record: &Record) {
        if !self.shared.is_on.load(Ordering::Relaxed) {
            return;
        }
        let record = Record {
            open: true,
            thread: thread(),
            ..*record
        };
        let mut buffer = self.shared.lock();
        match buffer.find(&record) {
            Some(at) => buffer.open[at] = record,
            None if buffer.open.len() < MOST_OPEN => buffer.open.push(record),
            None => {}
        }
    }

    /// Ends an interval that needs no record.
    pub(crate) fn forget(&self, record: &Record) {
        self.shared.lock().end(record);
    }

    /// Adds a record, unless the buffer is full. Ends the interval if it [`began`](Self::begin)
    /// earlier.
    pub(crate) fn add(&self, record: &Record) {
        if !self.shared.is_on.load(Ordering::Relaxed) {
            return;
        }
        let record = Record {
            thread: thread(),
            ..*record
        };
        let mut buffer = self.shared.lock();
        buffer.end(&record);
        if buffer.records.len() == CAPACITY {
            buffer.lost += 1;
            return;
        }
        buffer.records.push(record.to_bytes());
        if buffer.records.len() == CAPACITY / 2 {
            self.shared.wake.notify_one();
        }
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.wake.notify_one();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the thread that writes the trace panicked");
        }
    }
}

impl Buffer {
    /// The index of an unfinished interval.
    fn find(&self, of: &Record) -> Option<usize> {
        let same = |open: &Record| open.begin == of.begin && open.kind == of.kind;
        self.open.iter().rposition(same)
    }

    fn end(&mut self, record: &Record) {
        if matches!(record.kind, Kind::Wait | Kind::Call)
            && let Some(at) = self.find(record)
        {
            self.open.swap_remove(at);
        }
    }

    /// Records of the unfinished intervals that have lasted for [`STILL`].
    fn lasting(&self, now: u64) -> impl Iterator<Item = Record> {
        let lasting = move |open: &Record| Record {
            duration: now.saturating_sub(open.begin),
            ..*open
        };
        let lasting = self.open.iter().map(lasting);
        lasting.filter(|open| open.duration >= STILL)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the file until the trace ends, or until the file can no longer be written.
    fn run(&self, mut file: File, head: &Head) {
        let written = file
            .write_all(&head.to_bytes())
            .and_then(|()| self.write(&mut file));
        if let Err(e) = written {
            self.is_on.store(false, Ordering::Relaxed);
            tracing::warn!(
                "the trace {} ends early, and the job goes on: {e}; choose another host_trace",
                self.path.display()
            );
        }
    }

    fn write(&self, file: &mut File) -> io::Result<()> {
        let mut taken: Vec<[u8; RECORD]> = Vec::with_capacity(CAPACITY + MOST_OPEN);
        let mut told = monotonic();
        loop {
            let (lost, ends) = {
                let waits =
                    |buffer: &mut Buffer| !buffer.ends && buffer.records.len() < CAPACITY / 2;
                let waited = self.wake.wait_timeout_while(self.lock(), PERIOD, waits);
                let (mut buffer, _) = waited.unwrap_or_else(PoisonError::into_inner);
                std::mem::swap(&mut buffer.records, &mut taken);
                let now = monotonic();
                if now.saturating_sub(told) >= STILL {
                    told = now;
                    taken.extend(buffer.lasting(now).map(|open| open.to_bytes()));
                }
                (std::mem::take(&mut buffer.lost), buffer.ends)
            };
            file.write_all(taken.as_flattened())?;
            taken.clear();
            if lost > 0 {
                let lost = Record {
                    id: lost,
                    ..Record::new(Kind::Lost, monotonic(), 0)
                };
                file.write_all(&lost.to_bytes())?;
            }
            if ends {
                return file.write_all(&Record::new(Kind::End, monotonic(), 0).to_bytes());
            }
        }
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a local that the call may write. The call cannot fail for these clocks.
    unsafe { libc::clock_gettime(id, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The kernel's id of this thread.
fn thread() -> u32 {
    // SAFETY: no argument; cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// Creates a new file that only this user may read. The call never follows a link.
fn create(name: &Path, host: &str) -> io::Result<(PathBuf, File)> {
    let (mut options, process) = (OpenOptions::new(), std::process::id());
    options.write(true).create_new(true).mode(0o600);
    let mut number = 0;
    loop {
        let mut path = name.as_os_str().to_owned();
        path.push(format!(".{host}.{process}"));
        if number > 0 {
            path.push(format!(".{number}"));
        }
        match options.open(&path) {
            Ok(file) => return Ok((PathBuf::from(path), file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < MOST_FILES => {
                number += 1
            }
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;
    use crate::base::trace::NO_RANK;

    fn shared(records: usize, ends: bool) -> Shared {
        let buffer = Buffer {
            records: Vec::with_capacity(records),
            lost: 0,
            ends,
            open: Vec::new(),
        };
        Shared {
            buffer: Mutex::new(buffer),
            wake: Condvar::new(),
            is_on: AtomicBool::new(true),
            path: PathBuf::from("t"),
        }
    }

    /// Records for which the buffer has no room are counted. The count is written behind the
    /// records that had room.
    #[test]
    fn lost_records_are_counted() {
        let shared = Arc::new(shared(CAPACITY, false));
        let trace = TraceFile {
            shared: Arc::clone(&shared),
            writer: None,
        };
        for begin in 0..CAPACITY as u64 + 5 {
            trace.add(&Record::new(Kind::Wait, begin, 1));
        }
        drop(trace);
        let folder = std::env::temp_dir();
        let (path, mut file) = create(&folder.join("host-stub-unit"), "lost").unwrap();
        shared.write(&mut file).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (records, rest) = bytes.as_chunks::<RECORD>();
        assert!(rest.is_empty());
        let records: Vec<_> = records.iter().filter_map(Record::from_bytes).collect();
        assert_eq!(records.len(), CAPACITY + 2);
        assert_eq!(records[CAPACITY - 1].begin, CAPACITY as u64 - 1);
        assert_eq!(
            (records[CAPACITY].kind, records[CAPACITY].id),
            (Kind::Lost, 5)
        );
        assert_eq!(records[CAPACITY + 1].kind, Kind::End);
    }

    /// An unfinished interval is recorded with the time so far, until it ends.
    #[test]
    fn intervals_under_way() {
        let trace = TraceFile {
            shared: Arc::new(shared(8, false)),
            writer: None,
        };
        let lasting = |now| -> Vec<_> {
            let buffer = trace.shared.lock();
            let lasting = buffer.lasting(now);
            lasting
                .map(|r| (r.kind, r.begin, r.duration, r.peer, r.open))
                .collect()
        };
        let (call, wait) = (Record::new(Kind::Call, 5, 0), Record::new(Kind::Wait, 5, 0));
        trace.begin(&call);
        trace.begin(&wait);
        trace.begin(&Record { peer: 3, ..wait });
        let now = 5 + STILL;
        assert!(lasting(now - 1).is_empty());
        let of = |kind, peer| (kind, 5, STILL, peer, true);
        assert_eq!(lasting(now), [of(Kind::Call, NO_RANK), of(Kind::Wait, 3)]);
        trace.add(&Record {
            duration: 9,
            ..wait
        });
        assert_eq!(lasting(now), [of(Kind::Call, NO_RANK)]);
        trace.forget(&call);
        assert!(lasting(now).is_empty());
        let record = Record::from_bytes(&trace.shared.lock().records[0]).unwrap();
        assert_eq!(
            (record.kind, record.duration, record.open),
            (Kind::Wait, 9, false)
        );
        for begin in 0..=MOST_OPEN as u64 {
            trace.begin(&Record::new(Kind::Wait, begin, 0));
        }
        assert_eq!(trace.shared.lock().open.len(), MOST_OPEN);
    }

    /// Keeps the logged bytes.
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Lines {
        type Writer = Lines;

        fn make_writer(&'a self) -> Lines {
            Lines(Arc::clone(&self.0))
        }
    }

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// If the file cannot be written, the trace ends, and later records cost nothing.
    #[test]
    fn a_full_disk_ends_the_trace() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let shared = Arc::new(shared(CAPACITY, false));
        let said = Arc::new(Mutex::new(Vec::new()));
        let lines = tracing_subscriber::fmt().with_writer(Lines(Arc::clone(&said)));
        // The write runs on this thread instead of the writer's, so that the test sees the log
        // line.
        tracing::subscriber::with_default(lines.finish(), || shared.run(full, &Head::default()));
        let said = String::from_utf8(said.lock().unwrap().clone()).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.contains("trace t ends early") && said.contains("No space left"),
            "{said}"
        );
        let trace = TraceFile {
            shared: Arc::clone(&shared),
            writer: None,
        };
        trace.add(&Record::new(Kind::Wait, 1, 1));
        assert!(shared.lock().records.is_empty());
    }
}

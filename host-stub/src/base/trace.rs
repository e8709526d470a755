//! The file of a trace, which a rank writes (`host_trace`) and `host-stub trace` reads.
//!
//! This module holds the layout that writer and reader share. A file is a [`Head`] and then [`Record`]s up to its end, all in
//! the byte order of the machine that wrote the file. Records are in the order of their ends. A file may end within a record if
//! its writer was killed or the disk was full.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC`, which all processes of a host share. The head has both clocks at one moment.

use std::fmt;

mod file;

pub(crate) use file::{TraceFile, monotonic};

/// The first word of the file.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"BTLTRACE");
/// Identifies this layout. Another layout has another version.
pub const VERSION: u32 = 1;
/// Bytes of a [`Head`].
pub const HEAD: usize = 192;
/// Bytes of a [`Record`].
pub const RECORD: usize = 64;
/// The value of [`Record::peer`] for all peers, or none.
pub const NO_RANK: u64 = u64::MAX;
/// The value of [`Record::carrier`] for no carrier; otherwise it is a [`Carrier`](plugin_api::counters::Carrier).
pub const NO_CARRIER: u8 = u8::MAX;
/// A progress call records how long the process had made none, if that is longer.
pub const QUIET: u64 = 1_000_000;
/// In the byte of the kind: the record is [`Record::open`].
const OPEN: u8 = 0x80;

/// What a file begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The process id.
    pub process: u32,
    /// The rank of the process in its job.
    pub rank: u64,
    /// One moment in `CLOCK_MONOTONIC`.
    pub monotonic: u64,
    /// The same moment in `CLOCK_REALTIME`.
    pub realtime: u64,
    /// The host's name; at most 64 bytes are kept.
    pub host: String,
    /// The provider and its interface; at most 80 bytes are kept.
    pub title: String,
}

/// What a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The call that posted operation `id`: `name`, `peer`, `carrier`, `bytes`, and the `status` that it returned. With a
    /// status of completion no `Done` follows.
    Post = 1,
    /// Operation `id`, from its post to its callback.
    Done,
    /// A flush of `peer` or of all.
    Flush,
    /// A flush that took longer than [`QUIET`].
    Wait,
    /// A progress call that returned `id` (operations that it completed, or one more where it served peers). Of these, `bytes` are
    /// no completed operations.
    Progress,
    /// No progress was made.
    Quiet,
    /// `id` posts to `peer` in a row were refused for lack of room: by the `provider` or by the `peer`, as `name` says.
    Refused,
    /// A blocking call `name` of the host.
    Call,
    /// `id` records were lost, because they came faster than they could be written.
    Lost,
    /// The transport was closed: nothing is missing at the end.
    End,
}

impl Kind {
    const ALL: [Kind; 10] = [
        Kind::Post,
        Kind::Done,
        Kind::Flush,
        Kind::Wait,
        Kind::Progress,
        Kind::Quiet,
        Kind::Refused,
        Kind::Call,
        Kind::Lost,
        Kind::End,
    ];
}

/// An interval of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What the others mean.
    pub kind: Kind,
    /// It had not ended when it was recorded, and `duration` is what had passed. A wait or call that lasts is recorded so once a
    /// second; the last record of its kind with this `begin` counts, and one that is not open has its end.
    pub open: bool,
    /// When it began.
    pub begin: u64,
    /// How long it took.
    pub duration: u64,
    /// The peer in the host's numbering (its rank), or [`NO_RANK`].
    pub peer: u64,
    /// Bytes of an operation.
    pub bytes: u64,
    /// The number of an operation, or how many.
    pub id: u64,
    /// What carried an operation, or [`NO_CARRIER`].
    pub carrier: u8,
    /// A [`Status`](plugin_api::Status).
    pub status: i16,
    /// The thread that it ended on.
    pub thread: u32,
    /// UTF-8; zeros follow.
    pub name: [u8; 16],
}

impl Record {
    /// A record of this kind; every field that is not given is empty.
    pub const fn new(kind: Kind, begin: u64, duration: u64) -> Record {
        Record {
            kind,
            open: false,
            begin,
            duration,
            peer: NO_RANK,
            bytes: 0,
            id: 0,
            carrier: NO_CARRIER,
            status: 0,
            thread: 0,
            name: [0; 16],
        }
    }

    /// The same record with a name, of which 16 bytes are kept.
    #[must_use]
    pub fn named(mut self, name: &[u8]) -> Record {
        let kept = name.len().min(self.name.len());
        self.name[..kept].copy_from_slice(&name[..kept]);
        self
    }

    /// When it ended.
    pub const fn end(&self) -> u64 {
        self.begin.saturating_add(self.duration)
    }

    /// The name as text.
    pub fn name(&self) -> String {
        text(&self.name)
    }

    /// The record as it stands in the file.
    pub fn to_bytes(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        let words = [self.begin, self.duration, self.peer, self.bytes, self.id];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        let open = if self.open { OPEN } else { 0 };
        (bytes[40], bytes[41]) = (self.kind as u8 | open, self.carrier);
        bytes[42..44].copy_from_slice(&self.status.to_ne_bytes());
        bytes[44..48].copy_from_slice(&self.thread.to_ne_bytes());
        bytes[48..].copy_from_slice(&self.name);
        bytes
    }

    /// Reads a record; `None` for one of a kind that this version does not know.
    pub fn from_bytes(bytes: &[u8; RECORD]) -> Option<Record> {
        let number = bytes[40] & !OPEN;
        let kind = Kind::ALL.into_iter().find(|k| *k as u8 == number)?;
        Some(Record {
            open: bytes[40] & OPEN != 0,
            peer: word(bytes, 16),
            bytes: word(bytes, 24),
            id: word(bytes, 32),
            carrier: bytes[41],
            status: i16::from_ne_bytes([bytes[42], bytes[43]]),
            thread: half(bytes, 44),
            ..Record::new(kind, word(bytes, 0), word(bytes, 8)).named(&bytes[48..])
        })
    }
}

impl Head {
    /// The head as it stands in the file.
    pub fn to_bytes(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        bytes[8..12].copy_from_slice(&VERSION.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.process.to_ne_bytes());
        for (at, value) in [(16, self.rank), (24, self.monotonic), (32, self.realtime)] {
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        for (from, value) in [(48, &self.host), (112, &self.title)] {
            let kept = value.len().min(if from == 48 { 64 } else { 80 });
            bytes[from..from + kept].copy_from_slice(&value.as_bytes()[..kept]);
        }
        bytes
    }

    /// Reads what a file begins with.
    ///
    /// # Errors
    /// Why this version cannot read it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Head, Unreadable> {
        if bytes.len() < 12 || word(bytes, 0) != MAGIC {
            return Err(Unreadable::NoTrace);
        }
        match half(bytes, 8) {
            VERSION if bytes.len() >= HEAD => {}
            VERSION => return Err(Unreadable::NoTrace),
            version => return Err(Unreadable::Version(version)),
        }
        Ok(Head {
            process: half(bytes, 12),
            rank: word(bytes, 16),
            monotonic: word(bytes, 24),
            realtime: word(bytes, 32),
            host: text(&bytes[48..112]),
            title: text(&bytes[112..HEAD]),
        })
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    let mut half = [0; 4];
    half.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(half)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Why a file has no trace that this version can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is not such a file, it was written by a machine of another byte order, or its writer did not write the head.
    NoTrace,
    /// It has the layout of another version.
    Version(u32),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::NoTrace => {
                f.write_str("this is no trace (host_trace), or its head is missing")
            }
            Unreadable::Version(theirs) => write!(
                f,
                "the trace has version {theirs}, and this program reads version {VERSION}: use the host-stub of the \
                 same release as the program"
            ),
        }
    }
}

impl std::error::Error for Unreadable {}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for kind in Kind::ALL {
            let record = Record {
                open: kind == Kind::Call,
                peer: 3,
                bytes: u64::MAX - 1,
                id: 1 << 40,
                carrier: 2,
                status: -7,
                thread: 4711,
                ..Record::new(kind, 1, 2).named(b"accumulate, long name")
            };
            assert_eq!(Record::from_bytes(&record.to_bytes()), Some(record));
            assert_eq!(
                (record.name().as_str(), record.end()),
                ("accumulate, long", 3)
            );
        }
        let mut unknown = Record::new(Kind::End, 0, 0).to_bytes();
        for kind in [0, Kind::End as u8 + 1, u8::MAX] {
            unknown[40] = kind;
            assert_eq!(Record::from_bytes(&unknown), None);
        }
    }

    #[test]
    fn heads_are_kept_or_refused() {
        let head = Head {
            process: 42,
            rank: 7,
            monotonic: 1,
            realtime: 2,
            host: "h".repeat(70),
            title: String::from("shm, shm"),
        };
        let bytes = head.to_bytes();
        let read = Head::from_bytes(&bytes).unwrap();
        let kept = "h".repeat(64);
        assert_eq!(read, Head { host: kept, ..head });
        for cut in [0, 11, 12, HEAD - 1] {
            assert_eq!(Head::from_bytes(&bytes[..cut]), Err(Unreadable::NoTrace));
        }
        let mut later = bytes;
        later[8..12].copy_from_slice(&9u32.to_ne_bytes());
        // Another version may have a shorter head.
        assert_eq!(Head::from_bytes(&later[..20]), Err(Unreadable::Version(9)));
        later[0] ^= 1;
        assert_eq!(Head::from_bytes(&later), Err(Unreadable::NoTrace));
    }
}

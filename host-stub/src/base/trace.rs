//! The file of a trace, which a rank writes (`host_trace`) and `host-stub trace` reads.
//!
//! This module holds the layout that writer and reader share. A file is a [`Head`] and then [`Record`]s up to its end, all in
//! the byte order of the machine that wrote the file. Records are in the order of their ends. A file may end within a record if
//! its writer was killed or the disk was full.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC`, which all processes of a host share. The head has both clocks at one moment.

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
/// The value of [`Record::carrier`] without a carrier; otherwise the field is a
/// [`Carrier`](plugin_api::counters::Carrier).
pub const NO_CARRIER: u8 = u8::MAX;
/// If a process made no progress for longer than this duration, its next progress call records the
/// time.
pub const QUIET: u64 = 1_000_000;
/// Set in the byte of the kind if the record is [`Record::open`].
const OPEN: u8 = 0x80;

/// The beginning of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The process id.
    pub process: u32,
    /// The rank of the process in its job.
    pub rank: u64,
    /// A time in `CLOCK_MONOTONIC`.
    pub monotonic: u64,
    /// The same time in `CLOCK_REALTIME`.
    pub realtime: u64,
    /// The host's name; at most 64 bytes are kept.
    pub host: String,
    /// The provider and its interface; at most 80 bytes are kept.
    pub title: String,
}

/// The meaning of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The call that posted operation `id`: `name`, `peer`, `carrier`, `bytes`, and the returned `status`. If the status
    /// means completion, no `Done` follows.
    Post = 1,
    /// Operation `id`, from its post until its callback.
    Done,
    /// A flush of `peer`, or of all peers.
    Flush,
    /// A flush that took longer than [`QUIET`].
    Wait,
    /// A progress call that returned `id`: the number of operations that it completed, plus work that it did for peers.
    /// `bytes` is the part of this number that is not completed operations.
    Progress,
    /// No progress was made.
    Quiet,
    /// `id` consecutive posts to `peer` were refused for lack of room. `name` says whether the `provider` or the `peer` had
    /// no room.
    Refused,
    /// A blocking call `name` of the host.
    Call,
    /// `id` records were lost, because they were added faster than they could be written.
    Lost,
    /// The transport was closed, so the trace is complete at the end.
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

/// A time interval of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The meaning of the other fields.
    pub kind: Kind,
    /// The interval had not ended when it was recorded, and `duration` is the time until then. A wait or call that
    /// continues is recorded once a second. The last record of its kind with this `begin` is valid; if it is not open, it
    /// contains the end.
    pub open: bool,
    /// The time of the beginning.
    pub begin: u64,
    /// The length of the interval.
    pub duration: u64,
    /// The peer in the host's numbering (its rank), or [`NO_RANK`].
    pub peer: u64,
    /// Size of an operation in bytes.
    pub bytes: u64,
    /// The number of an operation, or a number of operations.
    pub id: u64,
    /// The carrier of an operation, or [`NO_CARRIER`].
    pub carrier: u8,
    /// A [`Status`](plugin_api::Status).
    pub status: i16,
    /// The thread on which the interval ended.
    pub thread: u32,
    /// UTF-8, padded with zeros.
    pub name: [u8; 16],
}

impl Record {
    /// A record of this kind. All fields without an argument are empty.
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

    /// The same record with a name. The first 16 bytes of the name are kept.
    #[must_use]
    pub fn named(mut self, name: &[u8]) -> Record {
        let kept = name.len().min(self.name.len());
        self.name[..kept].copy_from_slice(&name[..kept]);
        self
    }

    /// The time of the end.
    pub const fn end(&self) -> u64 {
        self.begin.saturating_add(self.duration)
    }

    /// The name as text.
    pub fn name(&self) -> String {
        text(&self.name)
    }

    /// The record in the form of the file.
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

    /// Reads a record; `None` if this version does not know its kind.
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
    /// The head in the form of the file.
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

    /// Reads the head of a file.
    ///
    /// # Errors
    /// The reason why this version cannot read the file.
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

/// The reason why this version can read no trace from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The file is no trace, a machine of another byte order wrote it, or its writer did not write the head.
    #[error("this is no trace (host_trace), or its head is missing")]
    NoTrace,
    /// The file has the layout of another version.
    #[error(
        "the trace has version {0}, and this program reads version {VERSION}: use the host-stub of the same release as \
         the program"
    )]
    Version(u32),
}

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

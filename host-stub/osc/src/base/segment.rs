//! The memory that ranks of a node share: an unnamed file (memfd) that one of them makes and the
//! others open through its entry in `/proc`. The file has no name in any file system, so nothing
//! stays when processes end, for any reason. The file is sealed: no process can shorten it while
//! others have it mapped.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::process::Process;
use super::room;

/// Words at the segment's start: a mark by which processes that open the segment recognise it, and
/// its number.
const MARK: u64 = u64::from_le_bytes(*b"WINSEGM2");
/// Bytes of the mark and the number.
pub const HEADER: usize = 64;

/// The reason why a rank has no part of a segment.
#[derive(Debug, PartialEq, Eq)]
pub enum NoSegment {
    /// The machine has less memory than requested; other kinds of memory would fail, too.
    Memory(String),
    /// This process cannot share memory with the others; each process may allocate private memory.
    Apart(String),
}

impl NoSegment {
    /// The reason as text.
    pub fn reason(self) -> String {
        let (NoSegment::Memory(reason) | NoSegment::Apart(reason)) = self;
        reason
    }
}

/// The data by which other processes find a segment; travels from the rank that made it to the
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// The process that made the segment.
    pub pid: u32,
    /// Its file descriptor there.
    pub fd: i32,
    /// Its bytes.
    pub bytes: u64,
    /// Page size of the file, bytes; 0 for the system's ordinary pages.
    pub huge: u64,
    /// Distinguishes this segment from another one to which a reused id might lead.
    pub number: u64,
}

impl Card {
    /// The first word of an encoded card.
    const MARK: u64 = u64::from_le_bytes(*b"WINCARD1");

    /// The card as bytes, for the other processes.
    pub fn encode(&self) -> Vec<u8> {
        let words = [
            Self::MARK,
            u64::from(self.pid),
            self.fd as u64,
            self.bytes,
            self.huge,
            self.number,
        ];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// The card of these bytes; `None` for bytes that are no card.
    pub fn decode(bytes: &[u8]) -> Option<Card> {
        let (words, []) = bytes.as_chunks::<8>() else {
            return None;
        };
        let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        match words[..] {
            [Self::MARK, pid, fd, bytes, huge, number] => Some(Card {
                pid: pid as u32,
                fd: fd as i32,
                bytes,
                huge,
                number,
            }),
            _ => None,
        }
    }
}

/// A mapped segment. Dropping the value unmaps the segment here; the memory is freed with its last
/// mapping.
pub struct Segment {
    map: MmapRaw,
    /// The file is open while other processes may still open it, and until all parts are reserved.
    file: Option<File>,
    card: Card,
}

impl Segment {
    /// Whether the segment has huge pages.
    pub fn is_huge(&self) -> bool {
        self.card.huge > 0
    }

    /// Makes a zeroed segment of huge pages of the system's default size; `bytes` returns its length
    /// for a page size. An error if the system has too few huge pages.
    pub fn of_huge_pages(bytes: impl FnOnce(usize) -> Result<usize, NoSegment>) -> Option<Segment> {
        let page = room::huge_page_size();
        let made = bytes(page).and_then(|bytes| {
            room::check(bytes)?;
            Self::of_pages(bytes, page)
                .map_err(|error| NoSegment::Memory(format!("{bytes} B: {error}")))
        });
        made.inspect_err(|error| {
            let (NoSegment::Memory(reason) | NoSegment::Apart(reason)) = error;
            tracing::warn!(
                "no huge pages of {page} B for a window ({reason}); it gets ordinary ones (huge pages \
                 are reserved in /proc/sys/vm/nr_hugepages)"
            );
        })
        .ok()
    }

    /// Makes a zeroed segment of at least `bytes`.
    pub fn make(bytes: usize) -> Result<Segment, NoSegment> {
        room::check(bytes)?;
        Self::of_pages(bytes, 0).map_err(|error| {
            let reason = format!("{bytes} B of shared memory: {error}");
            match error.raw_os_error() {
                // The system has no more descriptors, or no such system call. Private memory needs
                // neither of them.
                Some(libc::EMFILE | libc::ENFILE | libc::ENOSYS | libc::EPERM | libc::EACCES) => {
                    NoSegment::Apart(reason)
                }
                _ => NoSegment::Memory(reason),
            }
        })
    }

    fn of_pages(bytes: usize, huge: usize) -> io::Result<Segment> {
        let page = if huge > 0 { huge } else { room::page_size() };
        let bytes = bytes
            .checked_next_multiple_of(page)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let pages = if huge > 0 { libc::MFD_HUGETLB } else { 0 };
        let flags = pages | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string, and the call makes a new descriptor or fails.
        let fd = unsafe { libc::memfd_create(c"host-window".as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(bytes as u64)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: the descriptor is open, and this command takes a number.
        if unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let number = number();
        // Here the system reserves the huge pages, or reports that it has too few.
        let map = MmapOptions::new().len(bytes).map_raw(&file)?;
        let segment = Segment {
            map,
            card: Card {
                pid: std::process::id(),
                fd,
                bytes: bytes as u64,
                huge: huge as u64,
                number,
            },
            file: Some(file),
        };
        segment.reserve(0, HEADER)?;
        segment.word(0).store(MARK, Ordering::Relaxed);
        segment.word(1).store(number, Ordering::Relaxed);
        Ok(segment)
    }

    /// Opens the segment that another rank made.
    pub fn open(card: &Card) -> Result<Segment, NoSegment> {
        let path = format!("/proc/{}/fd/{}", card.pid, card.fd);
        let apart = |what: &dyn std::fmt::Display| {
            NoSegment::Apart(format!("the segment at {path}: {what}"))
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|error| apart(&error))?;
        let length = file.metadata().map_err(|error| apart(&error))?.len();
        let bytes = usize::try_from(card.bytes).unwrap_or(0);
        if length != card.bytes || bytes < HEADER {
            return Err(apart(&format_args!(
                "{length} B long, wanted {} B",
                card.bytes
            )));
        }
        let map = MmapOptions::new()
            .len(bytes)
            .map_raw(&file)
            .map_err(|error| {
                NoSegment::Memory(format!("mapping {bytes} B of shared memory: {error}"))
            })?;
        let segment = Segment {
            map,
            file: Some(file),
            card: *card,
        };
        let (mark, number) = (segment.word(0), segment.word(1));
        if mark.load(Ordering::Relaxed) != MARK || number.load(Ordering::Relaxed) != card.number {
            return Err(apart(&"another file"));
        }
        Ok(segment)
    }

    /// Allocates the memory of a range, so that a lack of memory is an error here and does not end
    /// the process at a later store. The pages come from the NUMA node of the calling thread, as by
    /// its first touch.
    pub fn reserve(&self, offset: usize, len: usize) -> io::Result<()> {
        match &self.file {
            Some(file) if len > 0 => reserve(file, offset, len),
            _ => Ok(()),
        }
    }

    /// Writes zeros to a range, which is clamped to the segment.
    ///
    /// # Safety
    /// No process uses the range meanwhile.
    pub unsafe fn clear(&self, offset: usize, len: usize) {
        let offset = offset.min(self.map.len());
        let len = len.min(self.map.len() - offset);
        // SAFETY: the range lies inside the mapping, and the caller vouches for its users.
        unsafe { self.map.as_mut_ptr().add(offset).write_bytes(0, len) };
    }

    /// The file, while it is open.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(File::as_fd)
    }

    /// Closes the file: no process can open the segment any more, and its mappings stay.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// The card by which other processes open the segment.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Bytes of a page of the segment.
    pub fn page(&self) -> usize {
        match self.card.huge {
            0 => room::page_size(),
            huge => huge as usize,
        }
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.map.len()
    }

    /// The address of an offset, which is clamped to the segment.
    #[inline]
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.map
            .as_mut_ptr()
            .wrapping_add(offset.min(self.map.len()))
    }

    /// A word of the segment, counted in words from its start; the last word for a larger index.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        let index = index.min(self.map.len() / 8 - 1);
        // SAFETY: the index is inside the mapping, which is page-aligned, at least HEADER long, and
        // lives as long as `self`. Other processes use the same words by atomics alone.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast::<u64>().add(index)) }
    }
}

fn reserve(file: &File, offset: usize, len: usize) -> io::Result<()> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let len = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    loop {
        // SAFETY: the descriptor is open; the call touches no memory of this process.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, offset, len) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // Then the first touch allocates the memory.
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(()),
            _ => return Err(error),
        }
    }
}

/// A number that no other segment of this machine has had, with high probability.
fn number() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    // Keyed by the system's random numbers.
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.write_u64(Process::own().started);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_reads() {
        let mut made = Segment::make(100_000).unwrap();
        made.reserve(HEADER, 100_000 - HEADER).unwrap();
        let opened = Segment::open(made.card()).unwrap();
        assert!(opened.bytes() >= 100_000 && opened.bytes().is_multiple_of(opened.page()));
        made.word(1000).store(7, Ordering::Relaxed);
        assert_eq!(opened.word(1000).load(Ordering::Relaxed), 7);
        made.close();
        let error = Segment::open(made.card()).map(|_| ()).unwrap_err();
        assert!(matches!(error, NoSegment::Apart(_)), "{error:?}");
        assert_eq!(opened.word(1000).load(Ordering::Relaxed), 7);
    }

    #[test]
    fn nobody_shortens_it() {
        let made = Segment::make(100_000).unwrap();
        let path = format!("/proc/self/fd/{}", made.card().fd);
        let file = OpenOptions::new().write(true).open(path).unwrap();
        let error = file.set_len(4096).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn another_file_is_not_taken_for_it() {
        let one = Segment::make(4096).unwrap();
        let two = Segment::make(4096).unwrap();
        let card = Card {
            number: two.card().number,
            ..*one.card()
        };
        assert!(Segment::open(&card).is_err());
        let card = Card {
            bytes: 8192,
            ..*one.card()
        };
        assert!(Segment::open(&card).is_err());
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        for bytes in [1 << 50, usize::MAX, usize::MAX - 4096] {
            let error = Segment::make(bytes).map(|_| ()).unwrap_err();
            assert!(matches!(error, NoSegment::Memory(_)), "{error:?}");
        }
    }

    #[test]
    fn huge_pages_are_taken_or_left() {
        let made = Segment::of_huge_pages(Ok).unwrap_or_else(|| Segment::make(1 << 20).unwrap());
        made.reserve(0, 1 << 20).unwrap();
        assert!(made.bytes() >= 1 << 20);
        made.word((1 << 17) - 1).store(1, Ordering::Relaxed);
    }
}

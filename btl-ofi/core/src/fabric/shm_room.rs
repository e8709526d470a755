//! Space in `/dev/shm`, where the shm provider keeps a file of 16 MiB per endpoint.
//!
//! libfabric (1.17) offers shm only if `/dev/shm` has 16 MiB free per processor, whatever the sizes of the queues are.
//! A file has 256 staging buffers of 32 KiB, rounded up to a power of two. The provider then writes to the file without
//! allocating its pages, so a full `/dev/shm` kills the process (SIGBUS). When it opens an endpoint, it writes 3.8 MiB.
//! Nearly all of this is zeros behind the endpoint's name, which are never read. The provider writes to the staging
//! buffers only for operations that go through the provider.
//!
//! So if space is short, processes open endpoints in [turns](Turn), after a check of the free space. Then [`trim`]
//! frees the zeros and allocates the pages that may be used at any time, some 0.3 MiB. [`allocate`] allocates the
//! rest before the first operation that goes through the provider. So a shortage becomes the error of a call.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use crate::base::error::CallError;
use crate::base::sys::{self, Space};

const FOLDER: &str = "/dev/shm";
/// Space that libfabric 1.17 uses per endpoint and requires per processor.
const REGION: u64 = 16 << 20;
/// With less free space than this, processes that open endpoints at the same time may take each other's space. This space
/// suffices for as many endpoints as one process can have peers (256).
const AMPLE: u64 = 256 * REGION;
/// Longest wait for a turn. A turn of another process takes milliseconds, unless that process is stopped.
const TURN: Duration = Duration::from_secs(10);
/// Number of tries, a millisecond apart, between two checks of who holds the lock.
const TRIES: u32 = 100;
/// Holes up to this size contain queues and tables, and are allocated when the endpoint is opened. Longer holes
/// are staging buffers.
const SMALL_HOLE: u64 = 512 << 10;
/// Number of zeros that are kept after the last nonzero byte. libfabric later writes the name of a socket
/// there.
const MARGIN: u64 = 16 << 10;
const PAGE: u64 = 4096;
const CHUNK: usize = 64 << 10;

/// The space in `/dev/shm`.
fn measure() -> Result<Space, CallError> {
    sys::space(c"/dev/shm")
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Describes the free space and how to get `least` bytes.
fn remedy(least: u64) -> String {
    let free = match measure() {
        Ok(Space { free, size }) => format!("{} of its {} are free", mib(free), mib(size)),
        Err(e) => format!("it cannot be examined ({e})"),
    };
    format!(
        "{free}; enlarge it (docker run --shm-size={}m, or mount -o remount,size= {FOLDER}), or remove orphaned \
         files from it",
        least.div_ceil(1 << 20)
    )
}

/// The reason why libfabric offers no shm, if the cause is a lack of space.
pub(crate) fn shortage() -> Option<String> {
    let processors = sys::processors().unwrap_or(1);
    let needed = processors * REGION;
    match measure() {
        Ok(Space { free, .. }) if free >= needed => None,
        _ => Some(format!(
            "{FOLDER} is too small for it: libfabric asks for 16 MiB for each of {processors} processors, {}; {}",
            mib(needed),
            remedy(needed + (needed / 2).max(2 * REGION))
        )),
    }
}

/// The reason why an endpoint cannot be opened, if the cause is a lack of space.
pub(crate) fn no_room() -> Option<String> {
    match measure() {
        Ok(Space { free, .. }) if free < REGION => Some(format!(
            "{FOLDER} is too full to open an endpoint, which takes {} for a moment; {}",
            mib(REGION),
            remedy(4 * REGION)
        )),
        // libfabric reports other errors with the folder.
        _ => None,
    }
}

/// A lock on the opening of endpoints, which excludes other processes. Dropping it unlocks.
pub(crate) struct Turn {
    _folder: File,
}

impl Turn {
    /// Waits for the lock if space is short. Calls `prepare` first, for work that needs no lock. Returns `None` if there
    /// is enough space for all processes, or if another process holds the lock for too long. Any process may lock the
    /// folder. So a process of another user that holds the lock at two consecutive checks is not waited for.
    pub(crate) fn take(prepare: impl FnOnce()) -> Option<Turn> {
        if measure().ok()?.free >= AMPLE {
            return None;
        }
        prepare();
        let folder = File::open(FOLDER).ok()?;
        let deadline = Instant::now() + TURN;
        // A blocking flock would wait forever for a stopped process.
        let (mut tries, mut before) = (0u32, Vec::new());
        while !sys::try_lock(&folder).ok()? {
            if Instant::now() >= deadline {
                return None;
            }
            tries += 1;
            if tries.is_multiple_of(TRIES) {
                let mut others = holders(&folder);
                others.retain(|pid| is_of_another_user(*pid));
                if let Some(pid) = others.iter().find(|pid| before.contains(*pid)) {
                    tracing::warn!(
                        "process {pid} of another user holds a lock on {FOLDER}; not waiting for it"
                    );
                    return None;
                }
                before = others;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(Turn { _folder: folder })
    }
}

/// The processes that hold a lock on a file and that this process can see.
fn holders(file: &File) -> Vec<u32> {
    let Ok(found) = file.metadata() else {
        return Vec::new();
    };
    let (major, minor) = sys::device_numbers(&found);
    let wanted = format!("{major:02x}:{minor:02x}:{}", found.ino());
    let locks = sys::read("/proc/locks").unwrap_or_default();
    let locks = String::from_utf8_lossy(&locks);
    // The format of a line: 1: FLOCK ADVISORY WRITE 1234 00:1a:1 0 EOF
    let holds = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, pid, at, ..] = fields[..] else {
            return None;
        };
        pid.parse().ok().filter(|_| at == wanted)
    };
    locks.lines().filter_map(holds).collect()
}

/// Whether a process has another effective user than this process; false if this cannot be read.
fn is_of_another_user(pid: u32) -> bool {
    let status = sys::read(&format!("/proc/{pid}/status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let effective = users.and_then(|users| users.split_ascii_whitespace().nth(1));
    let effective = effective.and_then(|user| user.parse().ok());
    effective.is_some_and(|user: u32| user != sys::effective_user())
}

/// Opens the file of the shm endpoint with this address. Refuses addresses that name no file.
fn open(address: &[u8]) -> io::Result<File> {
    let other = || io::Error::new(ErrorKind::InvalidInput, "not the address of a file");
    let text = address.strip_prefix(b"fi_shm://").unwrap_or(address);
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    let name = std::str::from_utf8(text).map_err(|_| other())?;
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
        return Err(other());
    }
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(format!("{FOLDER}/{name}"))?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(other())
    }
}

/// Whether the file of the shm endpoint with this address can be found. True for addresses that name no file, and for
/// files that this process may not open: libfabric reports errors of these.
pub(crate) fn has_file(address: &[u8]) -> bool {
    !open(address).is_err_and(|e| e.kind() == ErrorKind::NotFound)
}

/// Allocates the pages from `from` to `to`. Does nothing if the range is empty.
fn fill(file: &File, from: u64, to: u64) -> Result<(), CallError> {
    if from < to {
        sys::allocate(file, from, to - from)
    } else {
        Ok(())
    }
}

/// Start of the zeros at the end of the file, at least `from`.
fn zeros(file: &File, from: u64, size: u64) -> io::Result<u64> {
    let mut chunk = vec![0u8; CHUNK];
    let mut end = size;
    while end > from {
        let begin = from.max(end.saturating_sub(CHUNK as u64));
        let bytes = &mut chunk[..(end - begin) as usize];
        file.read_exact_at(bytes, begin)?;
        if let Some(last) = bytes.iter().rposition(|b| *b != 0) {
            return Ok(begin + last as u64 + 1);
        }
        end = begin;
    }
    Ok(from)
}

/// Frees the pages of our endpoint's file that it does not use, and allocates the pages that it may use at any time.
pub(crate) fn trim(address: &[u8]) -> io::Result<()> {
    let file = open(address)?;
    let size = file.metadata()?.size();
    let mut at = 0;
    while at < size {
        let Ok(data) = sys::next_data(&file, at) else {
            // The file ends with a hole.
            break;
        };
        if data - at <= SMALL_HOLE {
            fill(&file, at, data)?;
        }
        let hole = sys::next_hole(&file, data).unwrap_or(size);
        if hole == size {
            let kept = (zeros(&file, data, size)? + MARGIN).next_multiple_of(PAGE);
            if kept < size {
                sys::punch_hole(&file, kept, size - kept)?;
            }
        }
        at = hole;
    }
    Ok(())
}

/// Allocates the pages that an endpoint, ours or a peer's, uses for operations through the provider. Unused pages
/// stay free. The error text describes the lack of space.
pub(crate) fn allocate(address: &[u8]) -> Result<(), String> {
    match allocate_file(address) {
        Err(e) if matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            Err(format!(
                "{FOLDER} is too full for operations through the provider: an endpoint takes up to {} for them; {}",
                mib(REGION),
                remedy(4 * REGION)
            ))
        }
        // libfabric cannot open such a file either, and reports the error.
        _ => Ok(()),
    }
}

fn allocate_file(address: &[u8]) -> io::Result<()> {
    let file = open(address)?;
    let mut at = 0;
    while let Ok(data) = sys::next_data(&file, at) {
        fill(&file, at, data)?;
        let Ok(hole) = sys::next_hole(&file, data) else {
            break;
        };
        at = hole;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

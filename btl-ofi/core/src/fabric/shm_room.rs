//! Room in `/dev/shm`, where libfabric's shm keeps a file of 16 MiB for each endpoint.
//!
//! libfabric (1.17) does not offer shm at all unless 16 MiB are free there for each processor, whatever the
//! queues' sizes: 256 staging buffers of 32 KiB, rounded up to a power of two. It then writes to the file
//! without allocating its pages first, so that a full `/dev/shm` ends the process (SIGBUS). It writes 3.8 MiB at
//! opening, nearly all of them zeros after the endpoint's name, which nobody reads, and staging buffers only for
//! operations that go through the provider.
//!
//! So an endpoint is opened in [turns](Turn) where room is short, after a look at what is free; afterwards the
//! zeros are given back and what is used at any time is allocated ([`trim`]), some 0.3 MiB. The rest is allocated
//! before the first operation that goes through the provider ([`allocate`]). What cannot be had is an error of
//! a call.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

const FOLDER: &str = "/dev/shm";
/// What libfabric 1.17 takes for an endpoint, and asks for each processor.
const REGION: u64 = 16 << 20;
/// With less than this, processes that open at the same time may take each other's room: as many as one can
/// have peers (256).
const AMPLE: u64 = 256 * REGION;
/// Longest wait for another process's turn, which takes milliseconds unless it is stopped.
const TURN: Duration = Duration::from_secs(10);
/// Holes up to this size are allocated at opening: queues and tables. Longer ones are staging buffers.
const SMALL_HOLE: u64 = 512 << 10;
/// Zeros that stay after the last byte that is none: libfabric writes the name of a socket there.
const MARGIN: u64 = 16 << 10;
const PAGE: u64 = 4096;
const CHUNK: usize = 64 << 10;

/// Bytes free in `/dev/shm` for this user, and in all.
fn measure() -> io::Result<(u64, u64)> {
    // SAFETY: plain numbers, for which zeros are valid.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a C string, and a structure that is written.
    if unsafe { libc::statvfs(c"/dev/shm".as_ptr(), &mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize))
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// What is free, and what to do about it.
fn remedy(least: u64) -> String {
    let free = match measure() {
        Ok((free, all)) => format!("{} of its {} are free", mib(free), mib(all)),
        Err(e) => format!("it cannot be examined ({e})"),
    };
    format!(
        "{free}; give it more (docker run --shm-size={}m, or mount -o remount,size= {FOLDER}), or remove what is \
         left there",
        least.div_ceil(1 << 20)
    )
}

/// Why libfabric offers no shm, if that is for want of room.
pub(crate) fn shortage() -> Option<String> {
    // SAFETY: a plain question.
    let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let needed = u64::try_from(processors).unwrap_or(1) * REGION;
    match measure() {
        Ok((free, _)) if free >= needed => None,
        _ => Some(format!(
            "{FOLDER} is too small for it: libfabric asks for 16 MiB for each of {processors} processors, {}, and {}",
            mib(needed),
            remedy(needed + (needed / 2).max(2 * REGION))
        )),
    }
}

/// Why an endpoint cannot be opened for want of room.
pub(crate) fn no_room() -> Option<String> {
    match measure() {
        Ok((free, _)) if free < REGION => Some(format!(
            "{FOLDER} is too full to open an endpoint: that takes {} for a moment, and {}",
            mib(REGION),
            remedy(4 * REGION)
        )),
        // What is wrong with the folder, libfabric says.
        _ => None,
    }
}

/// The right to open an endpoint, kept from other processes until dropped.
pub(crate) struct Turn {
    _folder: File,
}

impl Turn {
    /// Waits for it where room is short; none where there is enough for everyone, or another process holds it for
    /// too long.
    pub(crate) fn take() -> Option<Turn> {
        let (free, _) = measure().ok()?;
        if free >= AMPLE {
            return None;
        }
        let folder = File::open(FOLDER).ok()?;
        let deadline = Instant::now() + TURN;
        // A blocking call could wait for ever for a process that was stopped.
        // SAFETY: a descriptor of ours.
        while unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            if io::Error::last_os_error().kind() != ErrorKind::WouldBlock
                || Instant::now() >= deadline
            {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(Turn { _folder: folder })
    }
}

/// The file of an endpoint with this address, if that is one of shm.
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

/// Where the next data or hole begins; none after the last.
fn seek(file: &File, from: u64, whence: i32) -> Option<u64> {
    // SAFETY: plain numbers.
    let found = unsafe { libc::lseek(file.as_raw_fd(), from as libc::off_t, whence) };
    u64::try_from(found).ok()
}

fn fallocate(file: &File, mode: i32, from: u64, to: u64) -> io::Result<()> {
    if from >= to {
        return Ok(());
    }
    let (offset, length) = (from as libc::off_t, (to - from) as libc::off_t);
    // SAFETY: plain numbers.
    match unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Where the zeros at the end begin, not before `from`.
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

/// Gives back what the endpoint at this address of ours will not use, and allocates what it may use at any time.
pub(crate) fn trim(address: &[u8]) -> io::Result<()> {
    let file = open(address)?;
    let size = file.metadata()?.size();
    let mut at = 0;
    while at < size {
        let Some(data) = seek(&file, at, libc::SEEK_DATA) else {
            // Ends with a hole.
            break;
        };
        if data - at <= SMALL_HOLE {
            fallocate(&file, 0, at, data)?;
        }
        let hole = seek(&file, data, libc::SEEK_HOLE).unwrap_or(size);
        if hole == size {
            let kept = (zeros(&file, data, size)? + MARGIN).next_multiple_of(PAGE);
            let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            fallocate(&file, punch, kept, size)?;
        }
        at = hole;
    }
    Ok(())
}

/// Allocates all that the endpoint at this address uses for operations through the provider: ours, or a
/// peer's. What it will not use stays given back. An error says that there is no room.
pub(crate) fn allocate(address: &[u8]) -> Result<(), String> {
    match allocate_file(address) {
        Err(e) if e.raw_os_error() == Some(libc::ENOSPC) => Err(format!(
            "{FOLDER} is too full for operations through the provider: an endpoint takes up to {} for them, and {}",
            mib(REGION),
            remedy(4 * REGION)
        )),
        // What cannot be opened here, libfabric cannot open either, and says so.
        _ => Ok(()),
    }
}

fn allocate_file(address: &[u8]) -> io::Result<()> {
    let file = open(address)?;
    let mut at = 0;
    while let Some(data) = seek(&file, at, libc::SEEK_DATA) {
        fallocate(&file, 0, at, data)?;
        let Some(hole) = seek(&file, data, libc::SEEK_HOLE) else {
            break;
        };
        at = hole;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_folder_are_opened() {
        for name in [
            "fi_shm://../etc/passwd\0",
            "fi_shm://\0",
            "fi_shm://..\0",
            "a/b",
            "a\0b",
        ] {
            let refused = open(name.as_bytes()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{name:?}");
        }
    }

    #[test]
    fn zeros_go_and_what_is_used_stays() {
        let name = format!("btl-ofi-room-{}", std::process::id());
        let path = format!("{FOLDER}/{name}");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        file.set_len(REGION).unwrap();
        // A header, a table behind a short hole, staging behind a long one, a name, and zeros.
        let name_at = 8 << 20;
        for at in [0, 256 << 10, name_at] {
            file.write_all_at(b"used", at).unwrap();
        }
        file.write_all_at(&vec![0; (REGION - name_at - 4) as usize], name_at + 4)
            .unwrap();
        let bytes = || file.metadata().unwrap().blocks() * 512;
        let before = bytes();
        trim(name.as_bytes()).unwrap();
        let trimmed = bytes();
        allocate(name.as_bytes()).unwrap();
        let whole = bytes();
        let mut seen = [0u8; 4];
        file.read_exact_at(&mut seen, name_at).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(before > 8 << 20, "{before}");
        assert_eq!(trimmed, (256 << 10) + PAGE + PAGE + MARGIN);
        assert_eq!(whole, name_at + PAGE + MARGIN);
        assert_eq!(&seen, b"used");
    }
}

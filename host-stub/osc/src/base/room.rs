//! The amount of memory that is left to share, read before any is allocated: a system that runs out
//! of memory during an allocation ends processes instead of returning an error.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::segment::NoSegment;

/// The size of ordinary pages, bytes.
pub(super) fn page_size() -> usize {
    // SAFETY: the call takes and returns numbers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// The size of huge pages, bytes.
pub(super) fn huge_page_size() -> usize {
    number_after("/proc/meminfo", "Hugepagesize:").map_or(2 << 20, |kilobytes| kilobytes << 10)
}

/// Bytes of shared memory that a process takes between two looks at the system's free memory, because reading the numbers
/// takes 20 us.
const BETWEEN_LOOKS: usize = 16 << 20;

/// Checks that `bytes` of shared memory are available, as far as the system reported it at most [`BETWEEN_LOOKS`] ago.
pub(super) fn check(bytes: usize) -> Result<(), NoSegment> {
    static TAKEN: AtomicUsize = AtomicUsize::new(BETWEEN_LOOKS);
    check_after(&TAKEN, bytes)
}

/// As [`check`], with the bytes taken since the last look.
fn check_after(taken: &AtomicUsize, bytes: usize) -> Result<(), NoSegment> {
    let refuse = |limit: usize, what: &str| {
        Err(NoSegment::Memory(format!(
            "{bytes} B of shared memory were asked for, and {limit} B are there ({what})"
        )))
    };
    // A process that makes a file longer than this limit gets SIGXFSZ.
    let files = file_limit();
    if bytes > files {
        return refuse(files, "the limit of file sizes, ulimit -f");
    }
    // A relaxed access suffices: no other data depends on the sum, and a race between threads only
    // moves a look.
    let sum = taken.load(Ordering::Relaxed).saturating_add(bytes);
    if sum <= BETWEEN_LOOKS {
        taken.store(sum, Ordering::Relaxed);
        return Ok(());
    }
    if let Some(free) = number_after("/proc/meminfo", "MemAvailable:") {
        let free = free.saturating_mul(1024);
        if bytes > free {
            return refuse(free, "MemAvailable in /proc/meminfo");
        }
    }
    if let Some(free) = group_room()
        && bytes > free
    {
        return refuse(free, "what memory.max of the control group leaves");
    }
    taken.store(bytes, Ordering::Relaxed);
    Ok(())
}

fn file_limit() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call only writes the structure.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } != 0 {
        return usize::MAX;
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// The memory that the control group of this process leaves, if it has a limit.
fn group_room() -> Option<usize> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let read = |file: &str| fs::read_to_string(format!("/sys/fs/cgroup{own}/{file}")).ok();
    let limit: usize = read("memory.max")?.trim().parse().ok()?;
    let used: usize = read("memory.current")?.trim().parse().ok()?;
    // Cached file pages count as used, but the kernel frees them for other memory.
    let cached = read("memory.stat")
        .and_then(|text| number_in(&text, "inactive_file"))
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

fn number_after(path: &str, name: &str) -> Option<usize> {
    number_in(&fs::read_to_string(path).ok()?, name)
}

/// The number behind a name at the start of a line.
fn number_in(text: &str, name: &str) -> Option<usize> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))?
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_name() {
        let text = "MemTotal:       100 kB\nMemAvailable:    50 kB\n";
        assert_eq!(number_in(text, "MemAvailable:"), Some(50));
        assert_eq!(number_in(text, "MemFree:"), None);
    }

    #[test]
    fn a_little_fits_and_everything_does_not() {
        check(4096).unwrap();
        assert!(check(usize::MAX).is_err());
        // The check fails with any number of bytes since the last look.
        for taken in [0, BETWEEN_LOOKS] {
            assert!(check_after(&AtomicUsize::new(taken), 1 << 50).is_err());
        }
    }

    #[test]
    fn the_system_is_asked_once_for_many_small_segments() {
        let taken = AtomicUsize::new(BETWEEN_LOOKS);
        let half = BETWEEN_LOOKS / 2;
        // A look, none, and a look.
        for after in [half, 2 * half, half] {
            check_after(&taken, half).unwrap();
            assert_eq!(taken.load(Ordering::Relaxed), after);
        }
        assert!(page_size().is_power_of_two() && huge_page_size().is_power_of_two());
    }
}

//! The resources of this process, as the kernel counts them.

use std::fs;

/// Open file descriptors, with the target of each.
pub fn descriptors() -> Vec<String> {
    let mut open: Vec<String> = fs::read_dir("/proc/self/fd")
        .expect("/proc is mounted")
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let target = fs::read_link(&path).ok()?;
            Some(format!("{} -> {}", path.display(), target.display()))
        })
        // The folder that is being read is open only during the read.
        .filter(|line| !line.contains("/proc/") || !line.ends_with("/fd"))
        .collect();
    open.sort();
    open
}

/// Resident memory, bytes.
pub fn resident() -> usize {
    field("VmRSS:") * 1024
}

/// Threads.
pub fn threads() -> usize {
    field("Threads:")
}

/// Files in `/dev/shm`, by name.
pub fn shared_memory_files() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir("/dev/shm")
        .expect("/dev/shm is mounted")
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

fn field(name: &str) -> usize {
    fs::read_to_string("/proc/self/status")
        .expect("/proc is mounted")
        .lines()
        .find_map(|line| {
            line.strip_prefix(name)?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .unwrap_or_else(|| panic!("/proc/self/status has no {name}"))
}

/// The bytes that the C allocator has allocated and not freed, including those of libraries.
pub fn allocated() -> usize {
    // SAFETY: mallinfo2 takes no arguments and reads only the allocator's counts.
    let counts = unsafe { libc::mallinfo2() };
    counts.uordblks + counts.hblkhd
}

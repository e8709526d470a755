//! The pages of memory that a region was made of. With `LAB_PAGES=1`, a region stores the frame
//! numbers of its first and last page, as a device with address translation would do at registration.
//! If memory is unmapped and mapped anew at the same address, it has other frames, which such a device
//! would not access; this reveals a registration that outlived its memory.
//!
//! The kernel shows frames only to processes with CAP_SYS_ADMIN. The kernel also changes the frame of a page
//! when it moves memory, or when a process that forked writes to the page; tests with this setting do
//! not fork.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::base::report::violation;

const PAGE: u64 = 4096;
/// Bits of an entry of `/proc/<pid>/pagemap` (man proc_pid_pagemap).
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// The frames of the first and the last page of a range; 0 for a missing page.
pub(crate) type Frames = [u64; 2];

fn ends(base: u64, length: u64) -> [u64; 2] {
    [base / PAGE, (base + length.max(1) - 1) / PAGE]
}

/// The frames of a range of this process; the pages are populated first, as pinning does.
pub(crate) fn pinned(base: u64, length: u64) -> Frames {
    for page in ends(base, length) {
        // SAFETY: the call populates the page without changing it; an unmapped page is an error.
        // Read-only memory has no separate frames to record.
        unsafe {
            libc::madvise(
                (page * PAGE) as *mut _,
                PAGE as usize,
                libc::MADV_POPULATE_WRITE,
            )
        };
    }
    let frames = seen(u64::from(std::process::id()), base, length);
    if frames.contains(&0) {
        violation(
            "LAB_PAGES: the frames of registered memory are not shown (CAP_SYS_ADMIN is needed)",
        );
    }
    frames
}

/// The present frames of a range of a process.
pub(crate) fn seen(pid: u64, base: u64, length: u64) -> Frames {
    let Ok(map) = File::open(format!("/proc/{pid}/pagemap")) else {
        return [0; 2];
    };
    ends(base, length).map(|page| {
        let mut entry = [0; 8];
        match map.read_exact_at(&mut entry, page * 8) {
            Ok(()) => match u64::from_ne_bytes(entry) {
                entry if entry & PRESENT != 0 => entry & FRAME,
                _ => 0,
            },
            Err(_) => 0,
        }
    })
}

/// Whether a whole range of this process is writable.
pub(crate) fn can_be_written(base: u64, length: u64) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    // A line of each mapping: `from-to rights ...`, in the order of addresses.
    let writable = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let ends = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16));
        match (ends, rest.as_bytes().get(1)) {
            ((Ok(from), Ok(to)), Some(b'w')) => Some((from, to)),
            _ => None,
        }
    });
    let end = base.saturating_add(length);
    writable.fold(base, |reached, (from, to)| match from <= reached {
        true => reached.max(to),
        false => reached,
    }) >= end
}

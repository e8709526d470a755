//! Which pages of memory a region was made of: with `LAB_PAGES=1` a region keeps, of its first and its
//! last page, the number of the frame, as a device that translates addresses when it registers them
//! would. Memory that was given back and mapped anew at the same address is other frames, which such a
//! device would not reach; a registration that outlived its memory shows so.
//!
//! The kernel tells frames to processes with CAP_SYS_ADMIN only. It also gives a page another frame when
//! it moves memory about, or when a process that forked writes to it; tests that use this do not fork.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::base::report::violation;

const PAGE: u64 = 4096;
/// Bits of an entry of `/proc/<pid>/pagemap` (man proc_pid_pagemap).
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// The frames of the first and the last page of a range; 0 where there is none.
pub(crate) type Frames = [u64; 2];

fn ends(base: u64, length: u64) -> [u64; 2] {
    [base / PAGE, (base + length.max(1) - 1) / PAGE]
}

/// The frames of a range of this process, which are made to be there first, as pinning does.
pub(crate) fn pinned(base: u64, length: u64) -> Frames {
    for page in ends(base, length) {
        // SAFETY: populates the page and changes nothing of it; what is not mapped is an error. Memory
        // that cannot be written has no frames of its own to look at.
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

/// The frames of a range of a process, as they are now.
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

/// Whether all of a range of this process can be written.
pub(crate) fn can_be_written(base: u64, length: u64) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    // Of each mapping: `from-to rights ...`, in the order of their addresses.
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

//! Page-aligned memory that peers may write.

use std::alloc::{Layout as AllocLayout, alloc, dealloc};
use std::ptr::NonNull;

/// Zeroed, page-aligned memory, freed on drop. Peers may write it at any time, so nothing here
/// makes a reference to its contents.
pub(crate) struct Pages {
    base: NonNull<u8>,
    layout: AllocLayout,
}

// SAFETY: owned memory, reached through raw pointers and atomics only.
unsafe impl Send for Pages {}
// SAFETY: as for Send.
unsafe impl Sync for Pages {}

/// Page size, so that no page is shared with other data when a provider pins or maps it.
const ALIGNMENT: usize = 4096;
/// Bytes of a huge page where the kernel makes them by itself; elsewhere merely an alignment.
const HUGE: usize = 2 << 20;
/// Memory from here on lies on huge pages where the kernel has any: it is first touched, registered
/// and reached at random with fewer faults and fewer misses of address translation.
const LARGE: usize = 2 * HUGE;

impl Pages {
    /// `len` bytes (at least one page); `None` when there is no such memory.
    pub(crate) fn new(len: usize) -> Option<Pages> {
        let layout = layout(len)?;
        // SAFETY: the layout has at least one byte.
        let base = NonNull::new(unsafe { alloc(layout) })?;
        if layout.align() == HUGE {
            // Before the first touch. Refused, the pages are ordinary ones.
            // SAFETY: whole pages that were just allocated; the advice does not change what they hold.
            unsafe { libc::madvise(base.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        // SAFETY: just allocated with this size.
        unsafe { base.write_bytes(0, layout.size()) };
        Some(Pages { base, layout })
    }

    /// Gives the memory away; [`from_base`](Self::from_base) takes it back.
    pub(crate) fn into_base(self) -> NonNull<u8> {
        std::mem::ManuallyDrop::new(self).base
    }

    /// Takes back memory of `len` bytes; `None` for a length that no memory has.
    ///
    /// # Safety
    /// It came from [`into_base`](Self::into_base) of pages made with this length, and nothing else uses it.
    pub(crate) unsafe fn from_base(base: NonNull<u8>, len: usize) -> Option<Pages> {
        layout(len).map(|layout| Pages { base, layout })
    }

    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

fn layout(len: usize) -> Option<AllocLayout> {
    let alignment = if len < LARGE { ALIGNMENT } else { HUGE };
    let layout = AllocLayout::from_size_align(len.max(1), alignment).ok()?;
    Some(layout.pad_to_align())
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
#[allow(clippy::panic, reason = "tests fail by panicking")]
mod tests {
    use super::*;

    /// Kilobytes of huge pages in the mapping that holds an address.
    fn on_huge_pages(address: usize) -> Option<usize> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut inside = false;
        for line in maps.lines() {
            let range = line.split(' ').next()?.split_once('-');
            let range = range.and_then(|(start, end)| {
                let number = |text| usize::from_str_radix(text, 16).ok();
                Some(number(start)?..number(end)?)
            });
            if let Some(range) = range {
                inside = range.contains(&address);
            } else if inside && let Some(size) = line.strip_prefix("AnonHugePages:") {
                return size.trim().strip_suffix(" kB")?.parse().ok();
            }
        }
        None
    }

    /// Whether the kernel has a huge page for memory of the C library's that asks for them.
    fn has_huge_pages() -> bool {
        // SAFETY: a mapping of this function alone, which lies inside it wherever it begins.
        unsafe {
            let (none, protection) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let base = libc::mmap(none, 4 * HUGE, protection, kind, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            let aligned = base.byte_add(base.align_offset(HUGE));
            libc::madvise(aligned, 2 * HUGE, libc::MADV_HUGEPAGE);
            aligned.cast::<u8>().write_bytes(1, 2 * HUGE);
            let found = on_huge_pages(aligned as usize);
            libc::munmap(base, 4 * HUGE);
            found.is_some_and(|kilobytes| kilobytes > 0)
        }
    }

    #[test]
    fn large_memory_lies_on_huge_pages() {
        // Others may take the last huge page between our turn and that of the mapping beside it.
        for turn in 1..=5 {
            let Some(pages) = Pages::new(5 * HUGE + 1) else {
                panic!("no memory");
            };
            let base = pages.base() as usize;
            assert!(base.is_multiple_of(HUGE));
            // SAFETY: the pages have that many bytes, which nobody else knows of.
            let bytes = unsafe { std::slice::from_raw_parts_mut(pages.base(), 5 * HUGE + 1) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(1);
            if on_huge_pages(base).is_some_and(|kilobytes| kilobytes > 0) {
                return;
            }
            if !has_huge_pages() {
                println!("skipped: the kernel gives no huge pages");
                return;
            }
            println!(
                "turn {turn}: the kernel has huge pages, and none lies under a window's memory"
            );
        }
        panic!("memory of windows does not lie on huge pages, though the kernel has some");
    }
}

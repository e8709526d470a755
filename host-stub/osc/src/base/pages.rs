//! Page-aligned memory that peers may write.

use std::alloc::{Layout as AllocLayout, alloc, dealloc};
use std::ptr::NonNull;

/// Zeroed, page-aligned memory, freed on drop. Peers may write this memory at any time, so no code
/// here makes a reference to its contents.
pub struct Pages {
    base: NonNull<u8>,
    layout: AllocLayout,
}

// SAFETY: owned memory, reached through raw pointers and atomics only.
unsafe impl Send for Pages {}
// SAFETY: as for Send.
unsafe impl Sync for Pages {}

/// Page size, so that no page is shared with other data when a provider pins or maps it.
const ALIGNMENT: usize = 4096;
/// Bytes of a huge page if the kernel makes them by itself; otherwise only an alignment.
const HUGE: usize = 2 << 20;
/// Memory of at least this size lies on huge pages if the kernel has them. So first touches and
/// registrations take fewer faults, and random accesses miss address translation less often. The rest
/// behind the last whole huge page lies on ordinary pages, so that no more than the memory itself is
/// resident.
const LARGE: usize = 2 * HUGE;

impl Pages {
    /// Allocates `len` bytes (at least one page); `None` if the system has no such memory.
    pub fn new(len: usize) -> Option<Pages> {
        let layout = layout(len)?;
        // SAFETY: the layout has at least one byte.
        let base = NonNull::new(unsafe { alloc(layout) })?;
        if layout.align() == HUGE {
            let rest = layout.size() % HUGE;
            let whole = layout.size() - rest;
            let advise = |from: usize, size, advice| {
                // Before the first touch. If the kernel refuses, the pages are ordinary ones.
                // SAFETY: whole pages within the memory just allocated; the advice does not change their contents.
                unsafe { libc::madvise(base.as_ptr().byte_add(from).cast(), size, advice) };
            };
            advise(0, whole, libc::MADV_HUGEPAGE);
            // A huge page would reach beyond this memory. The kernel uses one without advice if all memory may
            // have huge pages, or if freed memory in the same mapping had the advice.
            advise(whole, rest, libc::MADV_NOHUGEPAGE);
        }
        // SAFETY: just allocated with this size.
        unsafe { base.write_bytes(0, layout.size()) };
        Some(Pages { base, layout })
    }

    /// Gives up ownership; [`from_base`](Self::from_base) takes the memory back.
    pub fn into_base(self) -> NonNull<u8> {
        std::mem::ManuallyDrop::new(self).base
    }

    /// Takes back memory of `len` bytes; `None` if no memory can have this length.
    ///
    /// # Safety
    /// The memory came from [`into_base`](Self::into_base) of pages made with this length, and nothing else
    /// uses it.
    pub unsafe fn from_base(base: NonNull<u8>, len: usize) -> Option<Pages> {
        layout(len).map(|layout| Pages { base, layout })
    }

    #[inline]
    /// The first byte.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

fn layout(len: usize) -> Option<AllocLayout> {
    let alignment = if len < LARGE { ALIGNMENT } else { HUGE };
    let size = len.max(1).checked_next_multiple_of(ALIGNMENT)?;
    AllocLayout::from_size_align(size, alignment).ok()
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
    use test_skips::{Lacking, mapping_says, skipped};

    use super::*;

    /// Kilobytes of huge pages in the mapping that holds an address.
    fn on_huge_pages(address: usize) -> Option<usize> {
        mapping_says(address, "AnonHugePages:")?
            .strip_suffix(" kB")?
            .parse()
            .ok()
    }

    /// Whether the mapping that holds an address refuses huge pages. True if the kernel makes no huge pages by
    /// itself.
    fn refuses_huge_pages(address: usize) -> bool {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            skipped(
                Lacking::TransparentHugePages,
                "the kernel makes no huge pages by itself",
            );
            return true;
        }
        mapping_says(address, "VmFlags:")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "nh"))
    }

    #[test]
    fn large_memory_lies_on_huge_pages() {
        // Another process may take the last huge page between this allocation and the check below that the kernel has one.
        for turn in 1..=5 {
            let Some(pages) = Pages::new(5 * HUGE + 1) else {
                panic!("no memory");
            };
            let base = pages.base() as usize;
            assert!(base.is_multiple_of(HUGE));
            // SAFETY: the pages have that many bytes, and no other code knows them.
            let bytes = unsafe { std::slice::from_raw_parts_mut(pages.base(), 5 * HUGE + 1) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(1);
            if on_huge_pages(base).is_some_and(|kilobytes| kilobytes > 0) {
                return;
            }
            if !Lacking::TransparentHugePages.is_here() {
                skipped(
                    Lacking::TransparentHugePages,
                    "the kernel gives no huge pages",
                );
                return;
            }
            println!(
                "turn {turn}: the kernel has huge pages, and none lies under a window's memory"
            );
        }
        panic!("memory of windows does not lie on huge pages, though the kernel has some");
    }

    /// Resident pages of `len` bytes from a page on.
    fn resident(base: *mut u8, len: usize) -> usize {
        // SAFETY: sysconf takes an integer.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let is_resident = |at: &usize| {
            let mut state = 0u8;
            // SAFETY: the kernel checks the address, which may lie in no mapping, and writes one byte for one
            // page.
            let rc = unsafe { libc::mincore(base.wrapping_add(*at).cast(), page, &mut state) };
            rc == 0 && state & 1 == 1
        };
        (0..len).step_by(page).filter(is_resident).count() * page
    }

    #[test]
    fn no_more_than_the_memory_is_resident() {
        const SPARE: usize = 16 * ALIGNMENT;
        // Other tests may use adjacent memory meanwhile.
        let mut found = Vec::new();
        for turn in 0..5 {
            for rest in [0, 1, 100_000, HUGE / 2] {
                let len = LARGE + rest;
                let Some(pages) = Pages::new(len) else {
                    panic!("no memory");
                };
                assert!(pages.base().addr().is_multiple_of(HUGE));
                // SAFETY: the pages have that many bytes, and no other code knows them.
                unsafe { pages.base().write_bytes(1, len) };
                let (own, all) = (
                    resident(pages.base(), len),
                    resident(pages.base(), len.next_multiple_of(HUGE)),
                );
                assert!(
                    own >= len,
                    "{own} of {len} bytes: what was touched is resident"
                );
                let last = pages.base().addr() + len - 1;
                assert!(rest == 0 || refuses_huge_pages(last), "{rest}");
                found.push((len, all));
            }
            if found.iter().all(|(len, all)| *all <= len + SPARE) {
                return;
            }
            println!("turn {turn}: bytes, and resident bytes: {found:?}");
            found.clear();
        }
        panic!("more memory is resident than was asked for");
    }
}

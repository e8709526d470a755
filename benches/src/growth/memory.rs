//! Bytes allocated by this program's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that the C library keeps before each allocation.
const HEADER: usize = 8;

static GIVEN: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count.
struct Counting;

fn size(piece: *mut u8) -> usize {
    if piece.is_null() {
        return 0;
    }
    // SAFETY: the allocation came from the C library's allocator and was not given back.
    HEADER + unsafe { libc::malloc_usable_size(piece.cast()) }
}

// SAFETY: every call goes to the system's allocator with unchanged arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the layout.
        let piece = unsafe { System.alloc(layout) };
        GIVEN.fetch_add(size(piece), Ordering::Relaxed);
        piece
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        GIVEN.fetch_sub(size(piece), Ordering::Relaxed);
        // SAFETY: the caller vouches for the piece.
        unsafe { System.dealloc(piece, layout) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the layout.
        let piece = unsafe { System.alloc_zeroed(layout) };
        GIVEN.fetch_add(size(piece), Ordering::Relaxed);
        piece
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        GIVEN.fetch_sub(size(piece), Ordering::Relaxed);
        // SAFETY: the caller vouches for the piece.
        let moved = unsafe { System.realloc(piece, layout, new) };
        // Without memory, the old allocation remains.
        GIVEN.fetch_add(
            size(if moved.is_null() { piece } else { moved }),
            Ordering::Relaxed,
        );
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that are allocated now.
pub(crate) fn given() -> usize {
    GIVEN.load(Ordering::Relaxed)
}

/// Bytes of memory that this process has resident, by any allocator.
pub(crate) fn resident() -> Result<usize, String> {
    let path = "/proc/self/statm";
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let pages = text.split(' ').nth(1).and_then(|n| n.parse::<usize>().ok());
    // SAFETY: the call returns a constant.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Ok(pages.ok_or(path)? * page as usize)
}

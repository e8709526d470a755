//! Copies between a caller's buffer, through its layout, and packed bytes.

use super::layout::Layout;
use super::pieces::Pieces;

/// Copies the elements of `buffer` to `packed`, one after the other.
///
/// # Safety
/// `buffer` is readable for `layout`, `packed` writable for its bytes, and they do not overlap.
pub(super) unsafe fn pack(layout: &Layout, buffer: *const u8, packed: *mut u8) {
    let contiguous = Layout::contiguous(layout.datatype(), layout.count());
    for piece in Pieces::new(layout, None, &contiguous, usize::MAX) {
        // SAFETY: pieces lie inside the two layouts, for which the caller vouches.
        unsafe {
            std::ptr::copy_nonoverlapping(
                buffer.wrapping_add(piece.origin),
                packed.wrapping_add(piece.target),
                piece.len,
            );
        }
    }
}

/// Copies packed elements to their places in `buffer`.
///
/// # Safety
/// `packed` is readable for the layout's bytes, `buffer` writable for `layout`, and they do not
/// overlap.
pub(super) unsafe fn unpack(layout: &Layout, packed: *const u8, buffer: *mut u8) {
    let contiguous = Layout::contiguous(layout.datatype(), layout.count());
    for piece in Pieces::new(layout, None, &contiguous, usize::MAX) {
        // SAFETY: as in `pack`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                packed.wrapping_add(piece.target),
                buffer.wrapping_add(piece.origin),
                piece.len,
            );
        }
    }
}

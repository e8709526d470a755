//! Copies between a caller's buffer, through its layout, and packed bytes or memory of a target that
//! is mapped here.

use super::layout::Layout;
use super::pieces::Pieces;
use super::transfer::Transfer;

/// Copies bytes; the ranges may overlap. A length of one element takes one load and one store, each
/// a single access if aligned.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes. Other processes may use either range at
/// the same time; they and the processor see bytes, and every value of a byte is valid.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller guarantees both ranges. The widths are constants, so these are plain
    // moves.
    unsafe {
        if len == 8 {
            to.cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned());
        } else if len == 4 {
            to.cast::<u32>()
                .write_unaligned(from.cast::<u32>().read_unaligned());
        } else {
            std::ptr::copy(from, to, len);
        }
    }
}

/// Copies a transfer's elements from the origin's buffer to target memory at an address here.
///
/// # Safety
/// The origin's buffer is readable for its layout, and `target` writable for the target's
/// layout.
#[inline(always)]
pub(super) unsafe fn store(transfer: &Transfer<'_>, target: *mut u8) {
    if transfer.is_contiguous() {
        // SAFETY: neither layout has gaps, so each buffer is one range of `bytes` bytes.
        unsafe { copy(transfer.origin, target, transfer.origin_layout.bytes()) };
    } else {
        // SAFETY: the caller guarantees both buffers.
        unsafe { store_pieces(transfer, target) };
    }
}

#[inline(never)]
unsafe fn store_pieces(transfer: &Transfer<'_>, target: *mut u8) {
    let (origin, layout) = (transfer.origin, transfer.origin_layout);
    for piece in Pieces::new(layout, None, transfer.target_layout, usize::MAX) {
        // SAFETY: pieces lie inside both layouts.
        unsafe {
            copy(
                origin.wrapping_add(piece.origin),
                target.wrapping_add(piece.target),
                piece.len,
            );
        }
    }
}

/// Copies a transfer's elements from target memory at an address here to the origin's buffer.
///
/// # Safety
/// The origin's buffer is writable for its layout, and `target` readable for the target's
/// layout.
#[inline(always)]
pub(super) unsafe fn load(transfer: &Transfer<'_>, target: *const u8) {
    if transfer.is_contiguous() {
        // SAFETY: as in `store`.
        unsafe { copy(target, transfer.origin, transfer.origin_layout.bytes()) };
    } else {
        // SAFETY: the caller guarantees both buffers.
        unsafe { load_pieces(transfer, target) };
    }
}

#[inline(never)]
unsafe fn load_pieces(transfer: &Transfer<'_>, target: *const u8) {
    let (origin, layout) = (transfer.origin, transfer.origin_layout);
    for piece in Pieces::new(layout, None, transfer.target_layout, usize::MAX) {
        // SAFETY: pieces lie inside both layouts.
        unsafe {
            copy(
                target.wrapping_add(piece.target),
                origin.wrapping_add(piece.origin),
                piece.len,
            );
        }
    }
}

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

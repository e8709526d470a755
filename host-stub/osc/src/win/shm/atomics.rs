//! Accumulates, fetching accumulates and compare-and-swap, by the processor's atomics.
//!
//! Elements of every type that are aligned to their size are updated by atomic instructions: existing ones (addition,
//! bitwise operations, exchange), and compare-and-swap loops for other operations. All these instructions are atomic
//! with respect to each other. Unaligned elements are always updated under a lock of the target in the segment. The
//! two never meet at one element: MPI promises atomicity only among accumulates of the same predefined type (MPI 4.1,
//! 12.7.1), and for one type every origin sees the same alignment of an address.
//!
//! Order: each accumulate is complete when its call returns, so accumulates of one origin are in the order of the
//! calls.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use plugin_api::Datatype;

use super::locks::alone;
use super::update::{Run, is_aligned, update, update_bytes};
use crate::base::Op;
use crate::win::bounce::Bounce;
use crate::win::copy::{pack, unpack};
use crate::win::custom::Change;
use crate::win::error::WinResult;
use crate::win::layout::Layout;
use crate::win::pieces::{Piece, Pieces};
use crate::win::transfer::Transfer;
use crate::win::window::Window;

fn run_of(transfer: &Transfer<'_>, piece: Piece) -> Run {
    let no_operand = transfer.op == Op::NoOp || transfer.origin.is_null();
    Run {
        target: (transfer.address as *mut u8).wrapping_add(piece.target),
        operand: if no_operand {
            std::ptr::null()
        } else {
            transfer.origin.wrapping_add(piece.origin)
        },
        result: if transfer.result_layout.is_none() {
            std::ptr::null_mut()
        } else {
            transfer.result.wrapping_add(piece.result)
        },
        count: piece.len / transfer.datatype().size(),
    }
}

/// Whether this is the sum of 64-bit integers, by which most programs count. This case skips the
/// tables of types and operations, which are an indirect jump each.
#[inline]
fn is_counter(datatype: Datatype, op: Op) -> bool {
    op == Op::Sum && matches!(datatype, Datatype::Int64 | Datatype::Uint64)
}

pub(super) unsafe fn accumulate(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    let (op, datatype) = (transfer.op, transfer.datatype());
    let in_a_row = |layout: &Layout| layout.is_contiguous();
    if transfer.is_contiguous()
        && transfer.result_layout.is_none_or(in_a_row)
        && is_aligned(transfer.address, datatype)
    {
        let whole = Piece {
            origin: 0,
            result: 0,
            target: 0,
            len: transfer.target_layout.bytes(),
        };
        if transfer.result_layout.is_none() && whole.len == 8 && is_counter(datatype, op) {
            // SAFETY: one aligned element of the target; the caller vouches for the operand.
            unsafe {
                let at = AtomicU64::from_ptr(transfer.address as *mut u64);
                let operand = transfer.origin.cast::<u64>().read_unaligned();
                at.fetch_add(operand, Ordering::AcqRel);
            }
            return Ok(());
        }
        // SAFETY: the piece is the whole transfer, for which the caller vouches; its elements are
        // aligned.
        unsafe { update(datatype, op, run_of(transfer, whole)) };
        return Ok(());
    }
    let pieces = Pieces::new(
        transfer.origin_layout,
        transfer.result_layout,
        transfer.target_layout,
        usize::MAX,
    );
    if is_aligned(transfer.address, datatype) {
        for piece in pieces {
            // SAFETY: pieces lie in all layouts; whole elements from an aligned address on are
            // aligned; the caller vouches for the buffers.
            unsafe { update(datatype, op, run_of(transfer, piece)) };
        }
        return Ok(());
    }
    let hold = window.rules.now().bytes_of_a_hold(datatype);
    pieces.in_groups(hold, |pieces| {
        alone(window, transfer.call, transfer.target, || {
            for piece in pieces {
                // SAFETY: pieces lie in all layouts; the caller vouches for the buffers.
                unsafe { update_bytes(datatype, op, run_of(transfer, piece)) };
            }
        })
    })
}

pub(super) unsafe fn raccumulate(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: the caller vouches for the transfer. The operation is complete now, so the request
    // counts nothing.
    unsafe { accumulate(window, transfer) }?;
    window.now_and_then(transfer.call)
}

/// Changes the target's elements by a function, under the target's lock.
pub(in crate::win) fn change(
    window: &Window,
    transfer: &Transfer<'_>,
    change: Change<'_>,
) -> WinResult<()> {
    let layout = transfer.target_layout;
    let target = transfer.address as *mut u8;
    let mut copy = Bounce::new(layout.bytes());
    let mut changed = Ok(false);
    alone(window, transfer.call, transfer.target, || {
        // SAFETY: the range was checked to lie in the target's memory, which is mapped here; the copy has room for it.
        unsafe { pack(layout, target, copy.as_mut_ptr()) };
        changed = change(&mut copy.bytes_mut()[..layout.bytes()]);
        if let Ok(true) = changed {
            // SAFETY: the range was checked to lie in the target's memory; the copy has its bytes.
            unsafe { unpack(layout, copy.as_mut_ptr(), target) };
        }
    })?;
    changed.map(drop)
}

pub(super) unsafe fn fetch_and_op(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    let (op, datatype) = (transfer.op, transfer.datatype());
    if is_counter(datatype, op) && transfer.address & 7 == 0 {
        // SAFETY: one aligned element of the target; the caller vouches for origin and result.
        unsafe {
            let at = AtomicU64::from_ptr(transfer.address as *mut u64);
            let operand = transfer.origin.cast::<u64>().read_unaligned();
            let old = at.fetch_add(operand, Ordering::AcqRel);
            transfer.result.cast::<u64>().write_unaligned(old);
        }
        return Ok(());
    }
    let whole = Piece {
        origin: 0,
        result: 0,
        target: 0,
        len: datatype.size(),
    };
    let run = run_of(transfer, whole);
    if is_aligned(transfer.address, datatype) {
        // SAFETY: one aligned element; the caller vouches for the buffers.
        unsafe { update(datatype, op, run) };
        return Ok(());
    }
    alone(window, transfer.call, transfer.target, || {
        // SAFETY: as above, except that the run may be unaligned.
        unsafe { update_bytes(datatype, op, run) };
    })
}

pub(super) unsafe fn compare_and_swap(window: &Window, swap: &Transfer<'_>) -> WinResult<()> {
    macro_rules! swap_as {
        ($t:ty, $atomic:ty) => {{
            // SAFETY: one aligned element of the target, reached by atomics alone; the caller
            // vouches for one element in each buffer.
            unsafe {
                let at = <$atomic>::from_ptr(swap.address as *mut $t);
                let found = at.compare_exchange(
                    swap.compare.cast::<$t>().read_unaligned(),
                    swap.origin.cast::<$t>().read_unaligned(),
                    Ordering::AcqRel,
                    Ordering::Acquire,
                );
                let (Ok(old) | Err(old)) = found;
                swap.result.cast::<$t>().write_unaligned(old);
            }
            Ok(())
        }};
    }
    let size = swap.datatype().size();
    if is_aligned(swap.address, swap.datatype()) {
        return match size {
            8 => swap_as!(u64, AtomicU64),
            4 => swap_as!(u32, AtomicU32),
            2 => swap_as!(u16, AtomicU16),
            _ => swap_as!(u8, AtomicU8),
        };
    }
    alone(window, swap.call, swap.target, || {
        let target = swap.address as *mut u8;
        let (mut old, mut compare) = ([0u8; 8], [0u8; 8]);
        // SAFETY: one element in each buffer and at the target, at most 8 bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(target, old.as_mut_ptr(), size);
            std::ptr::copy_nonoverlapping(swap.compare, compare.as_mut_ptr(), size);
            if old == compare {
                std::ptr::copy_nonoverlapping(swap.origin, target, size);
            }
            std::ptr::copy_nonoverlapping(old.as_ptr(), swap.result, size);
        }
    })
}

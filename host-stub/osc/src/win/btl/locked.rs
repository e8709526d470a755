//! Changes a target's bytes under the target's accumulate lock: reads them, computes at the origin, and writes them back. Used
//! in windows where commands do not reach every rank. Each change is complete, and so in order, when its call returns.

use crate::base::{Op, combine};
use crate::win::blocking::Remote;
use crate::win::bounce::Bounce;
use crate::win::control::ACCUMULATE_LOCK;
use crate::win::copy::{pack, unpack};
use crate::win::custom::Change;
use crate::win::dynamic::keeping::keeping;
use crate::win::error::WinResult;
use crate::win::peer::Peer;
use crate::win::pieces::Cursor;
use crate::win::transfer::Transfer;
use crate::win::window::Window;

/// Bytes updated at a time.
const CHUNK: usize = 64 << 10;

fn acquire(window: &Window, call: &'static str, peer: &Peer) -> WinResult<()> {
    let mine = window.link.rank as u64 + 1;
    let mut waiter = window.link.tries(call);
    let mut tries = 0;
    while window.swap_word_if(call, peer, ACCUMULATE_LOCK, 0, mine)? != 0 {
        waiter.back_off(tries)?;
        tries += 1;
    }
    Ok(())
}

fn release(window: &Window, call: &'static str, peer: &Peer) -> WinResult<()> {
    let mine = window.link.rank as u64 + 1;
    window
        .add_word(call, peer, ACCUMULATE_LOCK, mine.wrapping_neg())
        .map(drop)
}

/// Runs `update` under the lock. The lock is released in every case; the first error is returned.
fn under_lock(
    window: &Window,
    call: &'static str,
    peer: &Peer,
    update: impl FnOnce() -> WinResult<()>,
) -> WinResult<()> {
    // Taking the lock makes progress, too.
    keeping(window.link.waiter(), || {
        acquire(window, call, peer)?;
        let updated = update();
        let released = release(window, call, peer);
        updated.and(released)
    })
}

/// Changes the target's elements under the target's lock.
pub(in crate::win) fn change(
    window: &Window,
    peer: &Peer,
    transfer: &Transfer<'_>,
    change: Change<'_>,
) -> WinResult<()> {
    let call = transfer.call;
    let layout = transfer.target_layout;
    let mut elements = Bounce::new(layout.bytes());
    let bytes = &mut elements.bytes_mut()[..layout.bytes()];
    let mut bounce = Bounce::new(CHUNK.min(bytes.len()));
    // The pieces in the order of the layout, and the place of each among the packed bytes.
    let pieces = || {
        let mut cursor = Cursor::new(layout);
        let mut done = 0;
        std::iter::from_fn(move || {
            let piece = cursor.take(CHUNK)?;
            let at = done;
            done += piece.len;
            let remote = Remote {
                address: transfer.address.wrapping_add(piece.offset as u64),
                handle: transfer.handle,
            };
            Some((remote, at..at + piece.len))
        })
    };
    under_lock(window, call, peer, || {
        for (remote, packed) in pieces() {
            let len = packed.len();
            window.fetch_bytes(call, peer, &mut bounce, remote, len)?;
            bytes[packed].copy_from_slice(&bounce.bytes_mut()[..len]);
        }
        if !change(bytes)? {
            return Ok(());
        }
        for (remote, packed) in pieces() {
            let len = packed.len();
            bounce.bytes_mut()[..len].copy_from_slice(&bytes[packed]);
            window.store_bytes(call, peer, &mut bounce, remote, len)?;
        }
        Ok(())
    })
}

/// Updates elements that no atomic of the transport changes.
///
/// # Safety
/// The caller vouches for the transfer.
pub(super) unsafe fn accumulate(
    window: &Window,
    peer: &Peer,
    transfer: &Transfer<'_>,
) -> WinResult<()> {
    let (op, datatype) = (transfer.op, transfer.datatype());
    let mut operands = vec![0; transfer.origin_layout.bytes()];
    if op != Op::NoOp {
        // SAFETY: the caller vouches for the origin's buffer.
        unsafe {
            pack(
                transfer.origin_layout,
                transfer.origin,
                operands.as_mut_ptr(),
            )
        };
    }
    change(window, peer, transfer, &mut |elements| {
        if let Some(layout) = transfer.result_layout {
            // SAFETY: the caller vouches for the result's buffer, which has as many elements.
            unsafe { unpack(layout, elements.as_ptr(), transfer.result) };
        }
        if op != Op::NoOp {
            combine(datatype, op, elements, &operands);
        }
        Ok(op != Op::NoOp)
    })
}

/// Compares one element and swaps it.
///
/// # Safety
/// The caller vouches for the transfer.
pub(super) unsafe fn compare_and_swap(
    window: &Window,
    peer: &Peer,
    swap: &Transfer<'_>,
) -> WinResult<()> {
    change(window, peer, swap, &mut |element| {
        let size = element.len();
        // SAFETY: the caller vouches for one element in each buffer.
        unsafe {
            std::ptr::copy_nonoverlapping(element.as_ptr(), swap.result, size);
            let equal = std::slice::from_raw_parts(swap.compare, size) == element;
            if equal {
                std::ptr::copy_nonoverlapping(swap.origin, element.as_mut_ptr(), size);
            }
            Ok(equal)
        }
    })
}

//! Accumulates under the target's accumulate lock: read, compute here, write back. For types that
//! the transport's atomics do not serve, and for elements that are not aligned. Complete, and so in
//! order, when they return.

use crate::base::{Op, combine};
use crate::win::blocking::Remote;
use crate::win::bounce::Bounce;
use crate::win::change::Change;
use crate::win::control::ACCUMULATE_LOCK;
use crate::win::error::WinResult;
use crate::win::keeping::keeping;
use crate::win::peer::Peer;
use crate::win::pieces::{Cursor, Pieces};
use crate::win::table::Transfer;
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

/// Runs `update` under the lock. The lock is given back whatever comes of it; the first error wins.
fn under_lock(
    window: &Window,
    call: &'static str,
    peer: &Peer,
    update: impl FnOnce() -> WinResult<()>,
) -> WinResult<()> {
    // Taking the lock makes progress too.
    keeping(window.link.waiter(), || {
        acquire(window, call, peer)?;
        let updated = update();
        let released = release(window, call, peer);
        updated.and(released)
    })
}

pub(super) unsafe fn accumulate(
    window: &Window,
    peer: &Peer,
    transfer: &Transfer<'_>,
) -> WinResult<()> {
    let (call, op) = (transfer.call, transfer.op);
    let datatype = transfer.datatype();
    let hold = window.rules.now().bytes_of_a_hold(datatype);
    let chunk = CHUNK.min(transfer.target_layout.bytes()).min(hold);
    let mut bounce = Bounce::new(chunk);
    let pieces = Pieces::new(
        transfer.origin_layout,
        transfer.result_layout,
        transfer.target_layout,
        chunk,
    );
    pieces.in_groups(hold, |pieces| {
        under_lock(window, call, peer, || {
            for piece in pieces {
                let remote = Remote {
                    address: transfer.address.wrapping_add(piece.target as u64),
                    handle: transfer.handle,
                };
                window.fetch_bytes(call, peer, &mut bounce, remote, piece.len)?;
                if transfer.result_layout.is_some() {
                    // SAFETY: the piece lies in the caller's result buffer and is no longer than the
                    // bounce buffer.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            bounce.as_mut_ptr(),
                            transfer.result.wrapping_add(piece.result),
                            piece.len,
                        );
                    }
                }
                if op == Op::NoOp {
                    continue;
                }
                // SAFETY: the piece lies in the caller's origin buffer, which stays unchanged until the
                // operation is complete.
                let operands = unsafe {
                    std::slice::from_raw_parts(
                        transfer.origin.wrapping_add(piece.origin),
                        piece.len,
                    )
                };
                if let Some(elements) = bounce.bytes_mut().get_mut(..piece.len) {
                    combine(datatype, op, elements, operands);
                }
                window.store_bytes(call, peer, &mut bounce, remote, piece.len)?;
            }
            Ok(())
        })
    })
}

/// See [`Window::change`].
pub(in crate::win) fn change(
    window: &Window,
    peer: &Peer,
    transfer: &Transfer<'_>,
    change: Change<'_>,
) -> WinResult<()> {
    let call = transfer.call;
    let layout = transfer.target_layout;
    let mut bytes = vec![0; layout.bytes()];
    let mut bounce = Bounce::new(CHUNK.min(bytes.len()));
    // The pieces in the order of the layout, and where each lies among the packed bytes.
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
        if !change(&mut bytes) {
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

pub(super) unsafe fn compare_and_swap(
    window: &Window,
    peer: &Peer,
    swap: &Transfer<'_>,
) -> WinResult<()> {
    let call = swap.call;
    let size = swap.datatype().size();
    let mut bounce = Bounce::new(size);
    let remote = Remote {
        address: swap.address,
        handle: swap.handle,
    };
    let (mut compare, mut value) = ([0u8; 8], [0u8; 8]);
    // SAFETY: the caller vouches for one element in each buffer, at most 8 bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(swap.compare, compare.as_mut_ptr(), size);
        std::ptr::copy_nonoverlapping(swap.origin, value.as_mut_ptr(), size);
    }
    under_lock(window, call, peer, || {
        window.fetch_bytes(call, peer, &mut bounce, remote, size)?;
        // SAFETY: the caller vouches for one element of result.
        unsafe { std::ptr::copy_nonoverlapping(bounce.as_mut_ptr(), swap.result, size) };
        let element = &mut bounce.bytes_mut()[..size];
        if element == &compare[..size] {
            element.copy_from_slice(&value[..size]);
            window.store_bytes(call, peer, &mut bounce, remote, size)?;
        }
        Ok(())
    })
}

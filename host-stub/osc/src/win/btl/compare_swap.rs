//! Compare-and-swap, and accumulates by a compare-swap loop for each element.

use super::accumulate::{is_aligned, keep_order};
use super::apply;
use super::callbacks::done;
use crate::base::combine;
use crate::win::error::WinResult;
use crate::win::peer::Peer;
use crate::win::pieces::Pieces;
use crate::win::transfer::Transfer;
use crate::win::types::bits_of;
use crate::win::window::Window;

/// Makes an operation that the transport does not serve, on a type whose compare-swap the transport
/// serves. The operation is complete when the call returns.
#[cold]
pub(super) unsafe fn by_compare_swap(
    window: &Window,
    peer: &Peer,
    transfer: &Transfer<'_>,
) -> WinResult<()> {
    let (call, op) = (transfer.call, transfer.op);
    let datatype = transfer.datatype();
    let (size, bits) = (datatype.size(), bits_of(datatype));
    let pieces = Pieces::new(
        transfer.origin_layout,
        transfer.result_layout,
        transfer.target_layout,
        size,
    );
    for piece in pieces {
        let address = transfer.address.wrapping_add(piece.target as u64);
        let remote = (address, transfer.handle);
        let mut operand = [0u8; 8];
        if !transfer.origin.is_null() {
            // SAFETY: the piece is one element of the origin's buffer, at most 8 bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    transfer.origin.wrapping_add(piece.origin),
                    operand.as_mut_ptr(),
                    size,
                );
            }
        }
        let mut old = window.element(call, peer, remote, bits, None)?;
        loop {
            let mut new = old;
            combine(datatype, op, &mut new[..size], &operand[..size]);
            let found = window.element(call, peer, remote, bits, Some((&old, &new)))?;
            if found[..size] == old[..size] {
                break;
            }
            old = found;
        }
        if transfer.result_layout.is_some() {
            // SAFETY: the piece is one element of the result buffer.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    old.as_ptr(),
                    transfer.result.wrapping_add(piece.result),
                    size,
                );
            }
        }
    }
    Ok(())
}

pub(super) unsafe fn compare_and_swap(window: &Window, swap: &Transfer<'_>) -> WinResult<()> {
    let (call, peer) = (swap.call, swap.peer);
    let datatype = swap.datatype();
    let size = datatype.size();
    if !window.parts.types.get(datatype).native || !is_aligned(swap.address, datatype) {
        window.send_gathered(call, peer);
        // SAFETY: the caller vouches for the buffers.
        return unsafe { apply::compare_and_swap(window, swap) };
    }
    keep_order(window, peer, call)?;
    if is_aligned(swap.result as u64, datatype)
        && is_aligned(swap.origin as u64, datatype)
        && is_aligned(swap.compare as u64, datatype)
    {
        let record = swap.record;
        return window.tracked_to(call, peer, &peer.accumulates, record, |context, data| {
            // SAFETY: the endpoint is the job's; the caller vouches for the buffers; the target
            // element was checked; `done` takes this context and data.
            unsafe {
                window.link.transport.atomic_cswapv(
                    peer.endpoint,
                    (swap.compare, swap.origin),
                    (swap.result, std::ptr::null_mut()),
                    (swap.address, swap.handle),
                    datatype,
                    (Some(done), context, data),
                )
            }
        });
    }
    let (mut compare, mut value) = ([0u8; 8], [0u8; 8]);
    // SAFETY: the caller vouches for one element in each buffer, at most 8 bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(swap.compare, compare.as_mut_ptr(), size);
        std::ptr::copy_nonoverlapping(swap.origin, value.as_mut_ptr(), size);
    }
    let remote = (swap.address, swap.handle);
    let old = window.element(call, peer, remote, datatype, Some((&compare, &value)))?;
    // SAFETY: the caller vouches for one element of result.
    unsafe { std::ptr::copy_nonoverlapping(old.as_ptr(), swap.result, size) };
    Ok(())
}

//! Accumulates by a compare-swap loop for each element.

use crate::base::combine;
use crate::win::blocking::Remote;
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
        let remote = Remote {
            address: transfer.address.wrapping_add(piece.target as u64),
            handle: transfer.handle,
        };
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

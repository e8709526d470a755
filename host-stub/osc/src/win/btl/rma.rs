//! Put and get.

use std::ffi::c_void;

use plugin_api::{Handle, Status, TransferFlags};

use super::callbacks::finishing;
use super::scatter;
use super::tracked::CountedOperation;
use crate::win::error::WinResult;
use crate::win::peer::Peer;
use crate::win::pieces::{Piece, Pieces};
use crate::win::request::request_state::RequestState;
use crate::win::transfer::Transfer;
use crate::win::window::Window;

pub(in crate::win) unsafe fn put(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: the caller vouches for the transfer.
    unsafe {
        match transfer.record {
            None => transfer_pieces::<true>(window, transfer, None),
            record => transfer_counted::<true>(window, transfer, record),
        }
    }
}

pub(in crate::win) unsafe fn get(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: the caller vouches for the transfer.
    unsafe {
        match transfer.record {
            None => transfer_pieces::<false>(window, transfer, None),
            record => transfer_counted::<false>(window, transfer, record),
        }
    }
}

/// A separate function, so that the usual path knows at compile time that nothing counts its pieces.
#[inline(never)]
unsafe fn transfer_counted<const PUT: bool>(
    window: &Window,
    transfer: &Transfer<'_>,
    record: Option<&RequestState>,
) -> WinResult<()> {
    // SAFETY: the caller vouches for the transfer.
    unsafe { transfer_pieces::<PUT>(window, transfer, record) }
}

#[inline(always)]
unsafe fn transfer_pieces<const PUT: bool>(
    window: &Window,
    transfer: &Transfer<'_>,
    request: Option<&RequestState>,
) -> WinResult<()> {
    let peer = transfer.peer;
    let attributes = window.link.transport.attributes();
    let limit = match PUT {
        true => attributes.put_limit,
        false => attributes.get_limit,
    };
    if transfer.is_contiguous() && transfer.origin_layout.bytes() <= limit {
        // SAFETY: the piece is the whole transfer, for which the caller vouches.
        return unsafe {
            match request {
                None => issue_whole::<PUT>(window, || *transfer),
                Some(_) => {
                    let (piece, handle) = (transfer.whole(), transfer.local_handle);
                    issue::<PUT>(window, peer, transfer, request, piece, handle)
                }
            }
        };
    }
    // SAFETY: the caller vouches for the transfer.
    unsafe { many_pieces::<PUT>(window, transfer, request, limit) }
}

/// A transfer of several pieces.
#[inline(never)]
unsafe fn many_pieces<const PUT: bool>(
    window: &Window,
    transfer: &Transfer<'_>,
    request: Option<&RequestState>,
    limit: usize,
) -> WinResult<()> {
    // SAFETY: the caller vouches for the transfer.
    let made = unsafe { scatter::transfer::<PUT>(window, transfer, request) }?;
    let (peer, handle) = (transfer.peer, transfer.local_handle);
    let mut pieces = Pieces::new(transfer.origin_layout, None, transfer.target_layout, limit);
    pieces.pass_over(made);
    pieces.try_for_each(|piece| {
        // SAFETY: the piece lies inside both layouts; the handle, if there is one, covers the buffer.
        unsafe { issue::<PUT>(window, peer, transfer, request, piece, handle) }
    })
}

#[inline(always)]
unsafe fn issue<const PUT: bool>(
    window: &Window,
    peer: &Peer,
    transfer: &Transfer<'_>,
    request: Option<&RequestState>,
    piece: Piece,
    local_handle: *mut Handle,
) -> WinResult<()> {
    window.tracked_to(
        transfer.call,
        peer,
        &peer.transfers,
        request,
        |context, data| {
            // SAFETY: the caller vouches for the transfer, which includes this piece.
            unsafe { post::<PUT>(window, transfer, &piece, local_handle, context, data) }
        },
    )
}

/// As [`issue`] for a whole transfer without a request. `make` makes the transfer: once here, where it stays in registers,
/// and once more in memory if the transport did not take it at once.
///
/// # Safety
/// The caller vouches for the transfer.
#[inline(always)]
pub(in crate::win) unsafe fn issue_whole<'a, const PUT: bool>(
    window: &Window,
    make: impl Fn() -> Transfer<'a>,
) -> WinResult<()> {
    let transfer = make();
    let (peer, none) = (transfer.peer, std::ptr::null_mut());
    let counted = CountedOperation::begin(&peer.transfers, None);
    let (piece, handle, context) = (transfer.whole(), transfer.local_handle, counted.context());
    // SAFETY: the caller vouches for the transfer.
    let status = unsafe { post::<PUT>(window, &transfer, &piece, handle, context, none) };
    if counted.is_taken(status) {
        window.note(peer);
        return Ok(());
    }
    // SAFETY: as above; the operation was not taken.
    unsafe { issue_again::<PUT>(window, &make(), counted, status) }
}

/// Issues again a whole transfer that the transport did not take at once.
#[cold]
#[inline(never)]
unsafe fn issue_again<const PUT: bool>(
    window: &Window,
    transfer: &Transfer<'_>,
    counted: CountedOperation<'_>,
    status: Status,
) -> WinResult<()> {
    let (piece, handle) = (transfer.whole(), transfer.local_handle);
    let (call, rank) = (transfer.call, transfer.peer.rank);
    let issued = window.tracked_again(call, rank, (status, counted), |context, data| {
        // SAFETY: the caller vouches for the transfer.
        unsafe { post::<PUT>(window, transfer, &piece, handle, context, data) }
    });
    window.note(transfer.peer);
    issued
}

/// Hands a piece to the transport.
#[inline(always)]
unsafe fn post<const PUT: bool>(
    window: &Window,
    transfer: &Transfer<'_>,
    piece: &Piece,
    local_handle: *mut Handle,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    let (transport, endpoint) = (&window.link.transport, transfer.peer.endpoint);
    let local = transfer.origin.wrapping_add(piece.origin);
    let remote = transfer.address.wrapping_add(piece.target as u64);
    // SAFETY: the endpoint is the job's; the piece lies in the origin's buffer and in the memory that the handle covers,
    // for which the table's caller vouches; the callback takes this context and data, which live while they count this
    // operation.
    unsafe {
        transport.transfer(
            (PUT, TransferFlags::empty()),
            endpoint,
            (local, local_handle),
            (remote, transfer.handle),
            piece.len,
            (Some(finishing(data)), context, data),
        )
    }
}

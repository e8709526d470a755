//! Accumulates and fetching accumulates, by the transport's atomics.
//!
//! The type of an element and its alignment alone decide which path changes the element. So all paths that can meet at one
//! element are atomic with respect to each other:
//!
//! - A type whose read, replace and compare-swap the transport serves takes the transport's atomics. An operation that the
//!   transport does not serve becomes a compare-swap loop for each element. If the target's processor executes those atomics,
//!   elements in many places are one command ([`super::apply`]), which changes each by the same instructions.
//! - Any other type, and elements that are not aligned to their size, are changed by the target's processor alone, by commands.
//!   Under the hint `same_op`, an aligned operation that the transport serves takes the
//!   transport's atomics even then.
//!
//! The two never meet at one element. MPI promises atomicity only among accumulates of the same predefined type (MPI 4.1,
//! 12.7.1), and for one type every origin sees the same alignment of an address. Other overlaps have undefined results in MPI.
//!
//! Order: accumulates of one origin to one target take effect in the order of their calls. Paths that wait are in order by
//! waiting. Commands stay in order with each other and with atomics that the target executes. For other accumulates the
//! transport keeps order, or each accumulate waits for the earlier ones to its target.

use std::ffi::c_void;

use plugin_api::{Datatype, Status};

use super::apply;
use super::callbacks::finishing;
use super::compare_swap::by_compare_swap;
use super::how::How;
use super::tracked::CountedOperation;
use crate::win::bounce::Bounce;
use crate::win::copy::{pack, unpack};
use crate::win::error::WinResult;
use crate::win::layout::Layout;
use crate::win::peer::Peer;
use crate::win::pieces::{Piece, Pieces};
use crate::win::request::request_state::RequestState;
use crate::win::transfer::Transfer;
use crate::win::window::Window;

/// Runs of at most this many bytes on average travel together as commands.
const MOST_OF_A_RUN: usize = 1024;

/// Bytes of each piece of a long accumulate that messages may carry. Two pieces fill a message of the transport of 16,000
/// bytes, six a message of 49,360, and sixteen a message of 131,008. Of the longest pieces that the transport takes, one, four
/// and ten fit these messages, and one leaves a quarter of the first message empty.
const PIECE: usize = 7904;

pub(super) fn is_aligned(address: u64, datatype: Datatype) -> bool {
    address.is_multiple_of(datatype.size() as u64)
}

/// Lets an accumulate follow earlier ones to the target: waits for the earlier ones, unless the transport keeps them in order
/// or the program needs no order.
#[inline]
pub(super) fn keep_order(window: &Window, peer: &Peer, call: &'static str) -> WinResult<()> {
    match window.follows(peer) {
        true => wait_in_order(window, peer, call),
        false => Ok(()),
    }
}

#[cold]
#[inline(never)]
fn wait_in_order(window: &Window, peer: &Peer, call: &'static str) -> WinResult<()> {
    window.send_gathered(call, peer);
    if window.link.ordered || window.rules.now().unordered {
        return Ok(());
    }
    window.wait_accumulates(call, peer)
}

pub(in crate::win) unsafe fn accumulate(window: &Window, transfer: &Transfer<'_>) -> WinResult<()> {
    // SAFETY: the caller vouches for the transfer.
    unsafe {
        match transfer.record {
            None => update(window, transfer, None),
            record => update_counted(window, transfer, record),
        }
    }
}

/// A separate function, so that the usual path knows at compile time that nothing counts its pieces.
#[inline(never)]
unsafe fn update_counted(
    window: &Window,
    transfer: &Transfer<'_>,
    record: Option<&RequestState>,
) -> WinResult<()> {
    // SAFETY: the caller vouches for the transfer.
    unsafe { update(window, transfer, record) }
}

/// Updates that are not one transport atomic for each element. The target's processor changes elements that the transport's
/// atomics do not serve.
#[inline(never)]
unsafe fn otherwise(
    window: &Window,
    transfer: &Transfer<'_>,
    request: Option<&RequestState>,
    native: bool,
) -> WinResult<()> {
    let (datatype, peer) = (transfer.datatype(), transfer.peer);
    let support = window.parts.types.get(datatype);
    let aligned = is_aligned(transfer.address, datatype);
    if native && aligned {
        let fetches = transfer.result_layout.is_some();
        // SAFETY: the caller vouches for the transfer.
        return unsafe {
            match support.limit(transfer.op, fetches) {
                Some(_) => by_aligned_copies(window, peer, transfer),
                None => {
                    keep_order(window, peer, transfer.call)?;
                    by_compare_swap(window, peer, transfer)
                }
            }
        };
    }
    // SAFETY: the caller vouches for the transfer.
    match unsafe { apply::accumulate(window, transfer, &How::of(transfer), request) }? {
        true => Ok(()),
        false => Err(transfer.failed(Status::NOT_SUPPORTED)),
    }
}

/// Lets an update follow others that are outstanding: gathers the update, or sends the gathered ones and keeps the order.
/// Returns whether the update was gathered.
#[cold]
#[inline(never)]
unsafe fn behind_others(
    window: &Window,
    transfer: &Transfer<'_>,
    request: Option<&RequestState>,
) -> WinResult<bool> {
    // SAFETY: the caller vouches for the transfer.
    let gathered = unsafe { window.gather(transfer, request, How::of(transfer)) }?;
    if !gathered {
        wait_in_order(window, transfer.peer, transfer.call)?;
    }
    Ok(gathered)
}

#[inline(always)]
unsafe fn update(
    window: &Window,
    transfer: &Transfer<'_>,
    request: Option<&RequestState>,
) -> WinResult<()> {
    let (op, peer) = (transfer.op, transfer.peer);
    let datatype = transfer.datatype();
    let size = datatype.size();
    let support = window.parts.types.get(datatype);
    let native = support.native || support.serves_alone(op) && window.rules.now().same_op;
    let limit = support.limit(op, transfer.result_layout.is_some());
    // Sizes are powers of two.
    let addresses = transfer.address | transfer.origin as u64 | transfer.result as u64;
    let aligned = addresses & (size as u64 - 1) == 0;
    let (true, Some(limit)) = (native && aligned, limit) else {
        // SAFETY: the caller vouches for the transfer.
        return unsafe { otherwise(window, transfer, request, native) };
    };
    // SAFETY: the caller vouches for the transfer.
    if window.follows(peer) && unsafe { behind_others(window, transfer, request) }? {
        return Ok(());
    }
    let bytes = transfer.target_layout.bytes();
    let in_one_piece = transfer.is_contiguous()
        && transfer.result_layout.is_none_or(Layout::is_contiguous)
        && bytes <= limit;
    if !in_one_piece {
        // SAFETY: the caller vouches for the transfer.
        return unsafe { many_pieces(window, transfer, request, limit) };
    }
    // SAFETY: the caller vouches for the transfer.
    unsafe { issue_whole(window, || *transfer, request) }
}

/// Whether elements lie in so many places that one command costs less than one atomic for each, although a command's operands
/// are copied once more. False if the results lie in many places: those take another path.
fn is_scattered(transfer: &Transfer<'_>) -> bool {
    let (origin, target) = (transfer.origin_layout, transfer.target_layout);
    let runs = origin.runs().max(target.runs());
    let has_one_place = transfer.result_layout.is_none_or(Layout::is_contiguous);
    has_one_place && runs > 1 && target.bytes() / runs <= MOST_OF_A_RUN
}

/// An update of several pieces.
#[inline(never)]
unsafe fn many_pieces(
    window: &Window,
    transfer: &Transfer<'_>,
    request: Option<&RequestState>,
    limit: usize,
) -> WinResult<()> {
    if is_scattered(transfer) {
        // SAFETY: the caller vouches for the transfer.
        let done = unsafe { apply::accumulate(window, transfer, &How::of(transfer), request) }?;
        if done {
            return Ok(());
        }
    }
    let Transfer {
        origin_layout,
        result_layout,
        target_layout,
        ..
    } = transfer;
    let most = match window.link.scatters {
        true => limit.min(PIECE),
        false => limit,
    };
    let mut pieces = Pieces::new(origin_layout, *result_layout, target_layout, most);
    let (call, peer) = (transfer.call, transfer.peer);
    pieces.try_for_each(|piece| {
        window.tracked_to(call, peer, &peer.accumulates, request, |context, data| {
            // SAFETY: the piece lies inside all layouts; the caller vouches for the transfer.
            unsafe { post(window, transfer, &piece, context, data) }
        })
    })
}

/// Issues a whole transfer. `make` makes the transfer: once here, where it stays in registers, and once more in memory if the
/// transport did not take it at once.
#[inline(always)]
unsafe fn issue_whole<'a>(
    window: &Window,
    make: impl Fn() -> Transfer<'a>,
    request: Option<&RequestState>,
) -> WinResult<()> {
    let transfer = make();
    let counted = CountedOperation::begin(&transfer.peer.accumulates, request);
    let (piece, context, data) = (transfer.whole(), counted.context(), counted.data());
    // SAFETY: the caller vouches for the transfer.
    let status = unsafe { post(window, &transfer, &piece, context, data) };
    if counted.is_taken(status) {
        window.note(transfer.peer);
        return Ok(());
    }
    // SAFETY: as above; the operation was not taken.
    unsafe { issue_again(window, &make(), counted, status) }
}

/// Issues an update of contiguous elements by one atomic of the transport. None: nothing was done, because the update takes
/// another path.
///
/// # Safety
/// The caller vouches for the transfer, whose layouts are all contiguous.
#[inline(always)]
pub(in crate::win) unsafe fn issue_direct<'a>(
    window: &Window,
    make: impl Fn() -> Transfer<'a>,
) -> Option<WinResult<()>> {
    let transfer = make();
    let datatype = transfer.datatype();
    let support = window.parts.types.get(datatype);
    let limit = support.limit(transfer.op, transfer.result_layout.is_some())?;
    let addresses = transfer.address | transfer.origin as u64 | transfer.result as u64;
    // Sizes are powers of two.
    let is_aligned = addresses & (datatype.size() as u64 - 1) == 0;
    if !support.native
        || !is_aligned
        || transfer.target_layout.bytes() > limit
        || window.follows(transfer.peer)
    {
        return None;
    }
    // SAFETY: the caller vouches for the transfer.
    Some(unsafe { issue_whole(window, make, None) })
}

/// Issues again a whole transfer that the transport did not take at once.
#[cold]
#[inline(never)]
unsafe fn issue_again(
    window: &Window,
    transfer: &Transfer<'_>,
    counted: CountedOperation<'_>,
    status: Status,
) -> WinResult<()> {
    let (piece, call, rank) = (transfer.whole(), transfer.call, transfer.peer.rank);
    let issued = window.tracked_again(call, rank, (status, counted), |context, data| {
        // SAFETY: the caller vouches for the transfer.
        unsafe { post(window, transfer, &piece, context, data) }
    });
    window.note(transfer.peer);
    issued
}

/// Hands a piece to the transport.
#[inline(always)]
unsafe fn post(
    window: &Window,
    transfer: &Transfer<'_>,
    piece: &Piece,
    context: *mut c_void,
    data: *mut c_void,
) -> Status {
    let (transport, endpoint) = (&window.link.transport, transfer.peer.endpoint);
    let (datatype, op) = (transfer.datatype(), transfer.op.atomic());
    // Sizes are powers of two.
    let count = piece.len >> datatype.size().trailing_zeros();
    let address = transfer.address.wrapping_add(piece.target as u64);
    let (remote, none) = ((address, transfer.handle), std::ptr::null_mut());
    let origin: *const u8 = if transfer.origin.is_null() {
        // A read takes no operand.
        std::ptr::null()
    } else {
        transfer.origin.wrapping_add(piece.origin)
    };
    let (what, report) = ((datatype, op), (Some(finishing(data)), context, data));
    // SAFETY: the endpoint is the job's; the piece lies in the caller's buffers and in the memory that the handle covers, its
    // target elements aligned and no more than the transport takes; the callback takes this context and data, which live while they
    // count this operation.
    unsafe {
        match transfer.result_layout {
            Some(_) => {
                let result = (transfer.result.wrapping_add(piece.result), none);
                transport.atomic_fopv(
                    endpoint,
                    (origin, none),
                    result,
                    remote,
                    what,
                    count,
                    report,
                )
            }
            None => transport.atomic_opv(endpoint, (origin, none), remote, what, count, report),
        }
    }
}

/// An accumulate with buffers of the caller that are not aligned to the element. Providers compute on buffers as elements, so
/// the operation uses aligned copies. The operation is complete when this call returns.
#[cold]
unsafe fn by_aligned_copies(
    window: &Window,
    peer: &Peer,
    transfer: &Transfer<'_>,
) -> WinResult<()> {
    let call = transfer.call;
    let layout = Layout::contiguous(transfer.datatype(), transfer.target_layout.count());
    let mut operands = Bounce::new(layout.bytes());
    let mut results = Bounce::new(layout.bytes());
    let origin = if transfer.origin.is_null() {
        std::ptr::null_mut()
    } else {
        // SAFETY: the caller vouches for the origin; the copy has room for its elements.
        unsafe {
            pack(
                transfer.origin_layout,
                transfer.origin,
                operands.as_mut_ptr(),
            )
        };
        operands.as_mut_ptr()
    };
    let aligned = Transfer {
        origin,
        origin_layout: &layout,
        result: results.as_mut_ptr(),
        result_layout: transfer.result_layout.map(|_| &layout),
        ..*transfer
    };
    operands.set_in_use(true);
    results.set_in_use(true);
    // SAFETY: the copies are valid for the layout, and kept until nothing uses them.
    let issued = unsafe { update(window, &aligned, None) };
    let flushed = window.flush_accumulates(call, peer);
    let idle = peer.accumulates.is_idle() || flushed.is_ok();
    operands.set_in_use(!idle);
    results.set_in_use(!idle);
    issued?;
    flushed?;
    if let Some(layout) = transfer.result_layout {
        // SAFETY: the caller vouches for the result buffer.
        unsafe { unpack(layout, results.as_mut_ptr(), transfer.result) };
    }
    Ok(())
}

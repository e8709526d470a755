//! Accumulates as commands that the target's processor executes: for elements that are not aligned, for types that the
//! transport's atomics do not serve, and for elements that lie in many places. Only results that lie in several places make a
//! call wait here.

use plugin_api::{ApplyRequest, ApplyRun, AtomicOp, Status};

use super::command::{issue, post};
use super::how::How;
use crate::win::bounce::Bounce;
use crate::win::copy::unpack;
use crate::win::error::WinResult;
use crate::win::layout::Layout;
use crate::win::request::request_state::RequestState;
use crate::win::transfer::Transfer;
use crate::win::window::Window;

/// Makes an accumulate by commands. False: nothing was done, because only the transport's atomics may change the elements.
///
/// # Safety
/// The caller vouches for the transfer.
pub(in crate::win) unsafe fn accumulate(
    window: &Window,
    transfer: &Transfer<'_>,
    how: &How,
    request: Option<&RequestState>,
) -> WinResult<bool> {
    // SAFETY: the caller vouches for the transfer.
    if window.follows(transfer.peer) && unsafe { window.gather(transfer, request, *how) }? {
        return Ok(true);
    }
    match transfer.result_layout {
        Some(layout) if !layout.is_contiguous() => {
            // SAFETY: the caller vouches for the transfer.
            unsafe { to_several_places(window, transfer, how, layout) }
        }
        _ => {
            // SAFETY: the caller vouches for the transfer, whose results are packed.
            let made =
                unsafe { issue(window, transfer, how, request, &transfer.peer.accumulates) }?;
            all_or_nothing(transfer, made)
        }
    }
}

/// Whether commands made a whole accumulate; `made` is the number of bytes that they made. No other path may make a part of it,
/// because only commands exclude each other on an element.
fn all_or_nothing(transfer: &Transfer<'_>, made: usize) -> WinResult<bool> {
    match made {
        0 => Ok(false),
        _ if made == transfer.target_layout.bytes() => Ok(true),
        _ => Err(transfer.failed(Status::NOT_SUPPORTED)),
    }
}

/// An accumulate whose results lie in several places. The accumulate is complete when the call
/// returns.
#[cold]
unsafe fn to_several_places(
    window: &Window,
    transfer: &Transfer<'_>,
    how: &How,
    layout: &Layout,
) -> WinResult<bool> {
    let mut results = Bounce::new(layout.bytes());
    let packed = Layout::contiguous(layout.datatype(), layout.count());
    let peer = transfer.peer;
    let one_place = Transfer {
        result: results.as_mut_ptr(),
        result_layout: Some(&packed),
        ..*transfer
    };
    results.set_in_use(true);
    // SAFETY: the packed results are kept until nothing uses them; the caller vouches for the rest.
    let issued = unsafe { issue(window, &one_place, how, None, &peer.accumulates) };
    let flushed = window.flush_accumulates(transfer.call, peer);
    results.set_in_use(!(peer.accumulates.is_idle() || flushed.is_ok()));
    if !all_or_nothing(transfer, issued?)? {
        return Ok(false);
    }
    flushed?;
    // SAFETY: the caller vouches for the result buffer.
    unsafe { unpack(layout, results.as_mut_ptr(), transfer.result) };
    Ok(true)
}

/// Compares one element and swaps it, as one command.
///
/// # Safety
/// The caller vouches for the transfer.
pub(super) unsafe fn compare_and_swap(window: &Window, swap: &Transfer<'_>) -> WinResult<()> {
    let datatype = swap.datatype();
    let size = datatype.size();
    let mut operands = [0u8; 16];
    // SAFETY: the caller vouches for one element in each buffer, at most 8 bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(swap.compare, operands.as_mut_ptr(), size);
        std::ptr::copy_nonoverlapping(swap.origin, operands[size..].as_mut_ptr(), size);
    }
    let run = ApplyRun {
        offset: 0,
        length: size as u64,
        stride: 0,
        count: 1,
    };
    let values = ApplyRequest {
        runs: &raw const run,
        run_count: 1,
        operands: operands.as_ptr().cast(),
        results: swap.result.cast(),
        size: size as u32,
        datatype: datatype as u32,
        op: AtomicOp::Cswap as u32,
        code: 0,
    };
    // SAFETY: run and operands are there, and the caller vouches for the result.
    unsafe { post(window, swap, swap.record, &values, &swap.peer.accumulates) }
}

//! Issues commands to the target. Each command carries up to [`MOST_APPLIED`] bytes of runs and operands. These are copied, so
//! no call waits here.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use plugin_api::{ApplyRequest, AtomicOp, CompletionFn, MOST_APPLIED, Status};

use super::callbacks::done;
use super::how::How;
use super::runs::Runs;
use crate::win::error::{WinError, WinResult};
use crate::win::layout::Segment;
use crate::win::pending::Pending;
use crate::win::pieces::Cursor;
use crate::win::request::request_state::RequestState;
use crate::win::transfer::Transfer;
use crate::win::window::Window;

/// Operands of one command that lie in several places.
struct Operands(MaybeUninit<[u8; MOST_APPLIED]>);

impl Operands {
    /// Copies the next bytes of a layout, at most as many as a command holds.
    ///
    /// # Safety
    /// The buffer is readable for the layout, which has `bytes` bytes left.
    unsafe fn fill(&mut self, cursor: &mut Cursor<'_>, buffer: *const u8, bytes: usize) {
        let mut at = 0;
        while at < bytes
            && let Some(Segment { offset, len }) = cursor.take(bytes - at)
        {
            let from = buffer.wrapping_add(offset);
            // SAFETY: the segment lies in the caller's buffer, and this array has room for it.
            unsafe {
                let to = self.0.as_mut_ptr().cast::<u8>().add(at);
                std::ptr::copy_nonoverlapping(from, to, len);
            }
            at += len;
        }
    }
}

/// Issues commands, counted by `pending`. Returns the number of bytes that the commands cover. The number is less than all
/// bytes if the transport refuses a command, possibly because of the command's runs; the refused command and later ones are
/// not done.
///
/// # Safety
/// The caller vouches for the transfer, whose results are packed.
pub(super) unsafe fn issue(
    window: &Window,
    transfer: &Transfer<'_>,
    how: &How,
    request: Option<&RequestState>,
    pending: &Pending,
) -> WinResult<usize> {
    // Commands that access whole elements take the bytes of a put or get as elements.
    let size = transfer.datatype().size().max(how.size as usize);
    let mut target = Cursor::new(transfer.target_layout);
    let mut origin = Cursor::new(transfer.origin_layout);
    let mut operands = Operands(MaybeUninit::uninit());
    let mut made = 0;
    loop {
        let runs = Runs::take(&mut target, size, how.most());
        if runs.bytes() == 0 {
            return Ok(made);
        }
        let from = if how.op == AtomicOp::Read as u32 {
            std::ptr::null()
        } else if transfer.origin_layout.is_contiguous() {
            transfer.origin.wrapping_add(made).cast_const()
        } else {
            // SAFETY: the caller vouches for the origin's buffer; both layouts have as many elements.
            unsafe { operands.fill(&mut origin, transfer.origin, runs.bytes()) };
            operands.0.as_ptr().cast()
        };
        let results = match transfer.result_layout {
            Some(_) => transfer.result.wrapping_add(made),
            None => std::ptr::null_mut(),
        };
        let values = ApplyRequest {
            results: results.cast(),
            ..how.request(&runs, from)
        };
        // SAFETY: runs and operands are local values, and the caller vouches for the results.
        let posted = unsafe { post(window, transfer, request, &values, pending) };
        match posted {
            Err(error) if is_not_supported(&error) => return Ok(made),
            posted => posted?,
        }
        made += runs.bytes();
    }
}

pub(super) fn is_not_supported(error: &WinError) -> bool {
    matches!(error, WinError::Transport { status, .. } if *status == Status::NOT_SUPPORTED)
}

/// # Safety
/// Runs and operands are readable, and the results writable until completion.
pub(super) unsafe fn post(
    window: &Window,
    transfer: &Transfer<'_>,
    request: Option<&RequestState>,
    values: &ApplyRequest,
    pending: &Pending,
) -> WinResult<()> {
    let (call, peer) = (transfer.call, transfer.peer);
    window.tracked_to(call, peer, pending, request, |context, data| {
        // SAFETY: the caller guarantees runs and buffers; `done` takes this context and data, which live while they count this operation.
        unsafe { apply(window, transfer, values, done, (context, data)) }
    })
}

/// Hands a command to the transport.
///
/// # Safety
/// Runs and operands are readable, and the results writable until completion. `callback` takes the context and the data.
pub(super) unsafe fn apply(
    window: &Window,
    transfer: &Transfer<'_>,
    values: &ApplyRequest,
    callback: CompletionFn,
    (context, data): (*mut c_void, *mut c_void),
) -> Status {
    // SAFETY: the endpoint is the job's; the runs lie in the memory that the handle covers; the caller guarantees the rest.
    unsafe {
        window.link.transport.apply(
            transfer.peer.endpoint,
            (transfer.address, transfer.handle),
            values,
            (Some(callback), context, data),
        )
    }
}

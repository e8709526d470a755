//! Accumulates as commands to the target, whose processor makes them: elements that are not aligned, types that the transport's
//! atomics do not serve, and elements that lie in many places. A command has up to [`MOST_APPLIED`] bytes of runs and operands, which
//! are copied, so nothing waits here but for results that lie in several places.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use plugin_api::{
    APPLY_BYTES, APPLY_OTHER, ApplyRequest, ApplyRun, AtomicOp, CompletionFn, MOST_APPLIED, Status,
};

use super::runs::Runs;
use super::tracked::done;
use crate::base::apply_code;
use crate::win::bounce::Bounce;
use crate::win::copy::unpack;
use crate::win::error::{WinError, WinResult};
use crate::win::layout::{Layout, Segment};
use crate::win::pending::Pending;
use crate::win::pieces::Cursor;
use crate::win::request::request_state::RequestState;
use crate::win::table::Transfer;
use crate::win::window::Window;

/// Most bytes of a command that is a put or get. Four of them fill a message of the transport, which has 16,000 bytes, and leave less of it empty
/// than one of [`MOST_APPLIED`] bytes does.
const MOST_OF_BYTES: usize = 3952;

/// Operands of one command that lie in several places.
struct Gathered(MaybeUninit<[u8; MOST_APPLIED]>);

impl Gathered {
    /// Copies the next bytes of a layout, no more than a command has.
    ///
    /// # Safety
    /// The buffer is readable for the layout, which has so many bytes left.
    unsafe fn fill(&mut self, cursor: &mut Cursor<'_>, buffer: *const u8, bytes: usize) {
        let mut at = 0;
        while at < bytes
            && let Some(Segment { offset, len }) = cursor.take(bytes - at)
        {
            let from = buffer.wrapping_add(offset);
            // SAFETY: the segment lies in the caller's buffer, and in the memory here there is room for it.
            unsafe {
                let to = self.0.as_mut_ptr().cast::<u8>().add(at);
                std::ptr::copy_nonoverlapping(from, to, len);
            }
            at += len;
        }
    }
}

/// What commands do to an element, as [`ApplyRequest`] says it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::win) struct How {
    size: u32,
    datatype: u32,
    op: u32,
    code: u32,
    /// Whether the transport's atomics have the type, and the address is aligned. Commands may be refused for such elements alone.
    has_atomics: bool,
}

impl How {
    /// See the field.
    pub(super) fn has_atomics(&self) -> bool {
        self.has_atomics
    }

    /// Of a type that the engine knows.
    pub(super) fn of(transfer: &Transfer<'_>) -> How {
        let (datatype, op) = (transfer.datatype(), transfer.op.atomic());
        How {
            size: datatype.size() as u32,
            datatype: datatype as u32,
            op: op as u32,
            code: apply_code(datatype, op),
            has_atomics: transfer.address.is_multiple_of(datatype.size() as u64),
        }
    }

    /// An operation that needs no type.
    pub(in crate::win) fn without_type(size: usize, op: AtomicOp) -> How {
        How {
            op: op as u32,
            ..How::by_code(size, 0)
        }
    }

    /// The bytes of a put or get.
    pub(super) fn bytes(op: AtomicOp) -> How {
        How {
            datatype: APPLY_BYTES,
            ..How::without_type(1, op)
        }
    }

    /// Bytes of a command at most.
    pub(super) fn most(&self) -> usize {
        match self.datatype {
            APPLY_BYTES => MOST_OF_BYTES,
            _ => MOST_APPLIED,
        }
    }

    /// A command that fetches nothing.
    pub(super) fn request(&self, runs: &Runs, operands: *const u8) -> ApplyRequest {
        ApplyRequest {
            runs: runs.all().as_ptr(),
            run_count: runs.all().len(),
            operands: operands.cast(),
            results: std::ptr::null_mut(),
            size: self.size,
            datatype: self.datatype,
            op: self.op,
            code: self.code,
        }
    }

    /// What the function of the target does with a code.
    pub(in crate::win) fn by_code(size: usize, code: u32) -> How {
        How {
            size: size as u32,
            datatype: APPLY_OTHER,
            op: APPLY_OTHER,
            code,
            has_atomics: false,
        }
    }
}

/// Makes an accumulate by commands. False, and nothing is done, where the transport's atomics alone may change the elements.
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

/// Whether commands made an accumulate, of which they made so many bytes. A part of it cannot be made otherwise: those alone who change
/// an element exclude each other.
fn all_or_nothing(transfer: &Transfer<'_>, made: usize) -> WinResult<bool> {
    match made {
        0 => Ok(false),
        _ if made == transfer.target_layout.bytes() => Ok(true),
        _ => Err(transfer.failed(Status::NOT_SUPPORTED)),
    }
}

/// An accumulate whose results lie in several places. Complete when it returns.
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

/// Issues commands that `pending` counts. Returns for how many bytes: less than all where the transport refuses one, which may depend
/// on its runs. Nothing is done from there on.
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
    // The bytes of a put or get are elements to those who look at them.
    let size = transfer.datatype().size().max(how.size as usize);
    let mut target = Cursor::new(transfer.target_layout);
    let mut origin = Cursor::new(transfer.origin_layout);
    let mut gathered = Gathered(MaybeUninit::uninit());
    let mut made = 0;
    loop {
        let runs = Runs::take(&mut target, size, how.most());
        if runs.bytes() == 0 {
            return Ok(made);
        }
        let operands = if how.op == AtomicOp::Read as u32 {
            std::ptr::null()
        } else if transfer.origin_layout.is_contiguous() {
            transfer.origin.wrapping_add(made).cast_const()
        } else {
            // SAFETY: the caller vouches for the origin's buffer; both layouts have as many elements.
            unsafe { gathered.fill(&mut origin, transfer.origin, runs.bytes()) };
            gathered.0.as_ptr().cast()
        };
        let results = match transfer.result_layout {
            Some(_) => transfer.result.wrapping_add(made),
            None => std::ptr::null_mut(),
        };
        let values = ApplyRequest {
            results: results.cast(),
            ..how.request(&runs, operands)
        };
        // SAFETY: runs and operands are there, and the caller vouches for the results.
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

/// # Safety
/// Runs and operands are readable, and the results writable until completion.
unsafe fn post(
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
            transfer.address,
            transfer.handle,
            values,
            Some(callback),
            context,
            data,
        )
    }
}

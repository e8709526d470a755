//! Accumulates as commands to the target, whose processor makes them: elements that are not aligned, types that the transport's
//! atomics do not serve, and elements that lie in many places. A command has up to [`MOST_APPLIED`] bytes of runs and operands, which
//! are copied, so nothing waits here but for results that lie in several places.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use plugin_api::{
    APPLY_BYTES, APPLY_HEAD, APPLY_OTHER, APPLY_RUN, ApplyRequest, ApplyRun, AtomicOp,
    CompletionFn, MOST_APPLIED, Status,
};

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

/// Most runs of a command.
const RUNS: usize = 128;

/// Most bytes of a command that is a put or get. Four of them fill a message of the transport, which has 16,000 bytes, and leave less of it empty
/// than one of [`MOST_APPLIED`] bytes does.
const MOST_OF_BYTES: usize = 3952;

/// The runs of one command.
pub(super) struct Runs {
    all: [MaybeUninit<ApplyRun>; RUNS],
    count: usize,
    /// Bytes of their elements.
    bytes: usize,
    /// Bytes of the command at most.
    most: usize,
}

impl Runs {
    /// Of a command of so many bytes at most.
    pub(super) const fn new(most: usize) -> Runs {
        Runs {
            all: [const { MaybeUninit::uninit() }; RUNS],
            count: 0,
            bytes: 0,
            most,
        }
    }

    /// The next runs of a layout, for a command of so many bytes at most.
    fn take(cursor: &mut Cursor<'_>, size: usize, most: usize) -> Runs {
        let mut runs = Runs::new(most);
        while let Some(segment) = cursor.take(runs.room() / size * size) {
            runs.push(segment);
        }
        runs
    }

    /// Bytes that one run more can have.
    #[inline]
    pub(super) fn room(&self) -> usize {
        let used = APPLY_HEAD + (self.count + 1) * APPLY_RUN + self.bytes;
        match self.count < RUNS {
            true => self.most.saturating_sub(used),
            false => 0,
        }
    }

    /// Bytes of all elements.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn clear(&mut self) {
        (self.count, self.bytes) = (0, 0);
    }

    /// The runs.
    pub(super) fn all(&self) -> &[ApplyRun] {
        // SAFETY: the first `count` runs were written.
        unsafe { std::slice::from_raw_parts(self.all.as_ptr().cast(), self.count) }
    }

    /// Adds elements, for which there is room. Those in a row and those at equal distances are one run.
    pub(super) fn push(&mut self, Segment { offset, len }: Segment) {
        self.bytes += len;
        let (offset, length) = (offset as u64, len as u64);
        if let Some(last) = self.newest()
            && let Some(stride) = offset.checked_sub(last.offset)
        {
            if last.count == 1 && stride == last.length {
                last.length += length;
                return;
            }
            if last.length == length && last.count == 1 {
                (last.stride, last.count) = (stride, 2);
                return;
            }
            if last.length == length && stride == last.count * last.stride {
                last.count += 1;
                return;
            }
        }
        self.all[self.count].write(ApplyRun {
            offset,
            length,
            stride: 0,
            count: 1,
        });
        self.count += 1;
    }

    fn newest(&mut self) -> Option<&mut ApplyRun> {
        let last = self.count.checked_sub(1)?;
        // SAFETY: the first `count` runs were written.
        Some(unsafe { self.all[last].assume_init_mut() })
    }
}

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
            runs: runs.all.as_ptr().cast(),
            run_count: runs.count,
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
        // SAFETY: the caller vouches for the transfer, whose results are packed.
        _ => unsafe { issue(window, transfer, how, request, &transfer.peer.accumulates) },
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
    if !issued? {
        return Ok(false);
    }
    flushed?;
    // SAFETY: the caller vouches for the result buffer.
    unsafe { unpack(layout, results.as_mut_ptr(), transfer.result) };
    Ok(true)
}

/// Issues commands that `pending` counts. False, and nothing is done, where the transport refuses them.
///
/// # Safety
/// The caller vouches for the transfer, whose results are packed.
pub(super) unsafe fn issue(
    window: &Window,
    transfer: &Transfer<'_>,
    how: &How,
    request: Option<&RequestState>,
    pending: &Pending,
) -> WinResult<bool> {
    // The bytes of a put or get are elements to those who look at them.
    let size = transfer.datatype().size().max(how.size as usize);
    let mut target = Cursor::new(transfer.target_layout);
    let mut origin = Cursor::new(transfer.origin_layout);
    let mut gathered = Gathered(MaybeUninit::uninit());
    let mut made = 0;
    loop {
        let runs = Runs::take(&mut target, size, how.most());
        if runs.bytes == 0 {
            return Ok(true);
        }
        let operands = if how.op == AtomicOp::Read as u32 {
            std::ptr::null()
        } else if transfer.origin_layout.is_contiguous() {
            transfer.origin.wrapping_add(made).cast_const()
        } else {
            // SAFETY: the caller vouches for the origin's buffer; both layouts have as many elements.
            unsafe { gathered.fill(&mut origin, transfer.origin, runs.bytes) };
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
            Err(error) if made == 0 && is_not_supported(&error) => return Ok(false),
            posted => posted?,
        }
        made += runs.bytes;
    }
}

fn is_not_supported(error: &WinError) -> bool {
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

#[cfg(test)]
mod tests {
    use plugin_api::Datatype;

    use super::*;
    use crate::win::layout::Block;

    const I16: Datatype = Datatype::Int16;

    fn runs(layout: &Layout) -> Vec<Vec<(u64, u64, u64, u64)>> {
        let mut cursor = Cursor::new(layout);
        let mut all = Vec::new();
        loop {
            let runs = Runs::take(&mut cursor, 2, MOST_APPLIED);
            if runs.bytes == 0 {
                return all;
            }
            let written = runs.all().iter();
            all.push(
                written
                    .map(|run| (run.offset, run.length, run.stride, run.count))
                    .collect(),
            );
        }
    }

    #[test]
    fn equal_distances_are_one_run() {
        let one = Layout::contiguous(I16, 5);
        assert_eq!(runs(&one), [[(0, 10, 0, 1)]]);
        let strided = Layout::strided(I16, 512, 1, 3).unwrap();
        assert_eq!(runs(&strided), [[(0, 2, 6, 512)]]);
        let at = |displacement, length| Block {
            displacement,
            length,
        };
        let blocks = [at(1, 1), at(4, 1), at(7, 1), at(9, 1), at(11, 2), at(5, 1)];
        let indexed = Layout::indexed(I16, &blocks).unwrap();
        assert_eq!(
            runs(&indexed),
            [[(2, 2, 6, 3), (18, 2, 0, 1), (22, 4, 0, 1), (10, 2, 0, 1)]]
        );
    }

    /// A run of several blocks stays what it is: what follows its last block is a run of its own.
    #[test]
    fn what_lies_in_a_row_is_one_run() {
        let of = |segments: &[(usize, usize)]| {
            let mut runs = Runs::new(MOST_APPLIED);
            for (offset, len) in segments {
                runs.push(Segment {
                    offset: *offset,
                    len: *len,
                });
            }
            let runs = runs.all().iter();
            let parts = runs.map(|run| (run.offset, run.length, run.stride, run.count));
            parts.collect::<Vec<_>>()
        };
        assert_eq!(of(&[(8, 8), (16, 8), (24, 4)]), [(8, 20, 0, 1)]);
        assert_eq!(
            of(&[(0, 8), (16, 8), (24, 8)]),
            [(0, 8, 16, 2), (24, 8, 0, 1)]
        );
        assert_eq!(of(&[(8, 8), (0, 8)]), [(8, 8, 0, 1), (0, 8, 0, 1)]);
        assert_eq!(of(&[(8, 8), (8, 8)]), [(8, 8, 0, 2)]);
    }

    /// Whole elements, as many as there is room for.
    #[test]
    fn what_is_larger_goes_in_several_commands() {
        let room = MOST_APPLIED - APPLY_HEAD - APPLY_RUN;
        let large = Layout::contiguous(I16, MOST_APPLIED);
        let (first, rest) = (room as u64, (2 * MOST_APPLIED - 2 * room) as u64);
        let expected = [
            [(0, first, 0, 1)],
            [(first, first, 0, 1)],
            [(2 * first, rest, 0, 1)],
        ];
        assert_eq!(runs(&large), expected);
        let blocks: Vec<Block> = (0..300)
            .map(|i| Block {
                displacement: i * i,
                length: 1 + i % 2,
            })
            .filter(|block| block.displacement > 1)
            .collect();
        let counts: Vec<usize> = runs(&Layout::indexed(I16, &blocks).unwrap())
            .iter()
            .map(Vec::len)
            .collect();
        assert_eq!(counts, [RUNS, RUNS, 298 - 2 * RUNS]);
    }
}

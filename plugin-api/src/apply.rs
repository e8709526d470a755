//! Apply: any operation on elements of any size, which lie in runs of the target's memory.

use std::ffi::c_void;

use crate::Status;

/// Most bytes of one apply: 16, 24 for each run, and the operands. The results have at most this many
/// bytes, too.
pub const MOST_APPLIED: usize = 12 * 1024;
/// The bytes that an apply takes in addition to its runs and operands, and the bytes of one run.
pub const APPLY_HEAD: usize = 16;
/// See [`APPLY_HEAD`].
pub const APPLY_RUN: usize = 24;
/// Most bytes of an element.
pub const MOST_ELEMENT: usize = 64;
/// Replaces the code of a datatype or operation that the typed AMOs do not have.
pub const APPLY_OTHER: u32 = u32::MAX;

/// Replaces the code of a datatype: the runs are the bytes of a put ([`AtomicOp::Write`](crate::AtomicOp::Write) without
/// results) or of a get ([`AtomicOp::Read`](crate::AtomicOp::Read)), with a size of 1 and a code of 0. Such an apply needs the
/// rights of a put or get, and is as little atomic as a put or get. For modules with
/// [`ModuleFlags::SCATTERS`](crate::ModuleFlags::SCATTERS).
pub const APPLY_BYTES: u32 = u32::MAX - 1;

/// Blocks of elements at equal distances. Elements are changed in the order of runs and blocks: an element that is named twice
/// is changed twice. If no datatype is given, an element may lie in several blocks: the bytes between these stay as they are, and
/// only the target's processor changes the element, which may be named once only.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyRun {
    /// Bytes from the address of the operation to the first block.
    pub offset: u64,
    /// Bytes of a block. All blocks together are whole elements.
    pub length: u64,
    /// Bytes from the beginning of a block to the beginning of the next.
    pub stride: u64,
    /// Number of blocks, at least one.
    pub count: u64,
}

/// An update and the elements that it changes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ApplyRequest {
    /// The places of the elements.
    pub runs: *const ApplyRun,
    /// Number of runs.
    pub run_count: usize,
    /// The operands, packed in the order of the runs; they are copied. NULL for [`AtomicOp::Read`](crate::AtomicOp::Read). For
    /// [`AtomicOp::Cswap`](crate::AtomicOp::Cswap) the values to compare with, and behind them the new ones.
    pub operands: *const c_void,
    /// Receives the old values, packed in the same order; NULL if the caller does not want the
    /// values.
    pub results: *mut c_void,
    /// Bytes of an element, at most [`MOST_ELEMENT`].
    pub size: u32,
    /// A [`Datatype`](crate::Datatype) of this size, [`APPLY_OTHER`] or [`APPLY_BYTES`].
    pub datatype: u32,
    /// An [`AtomicOp`](crate::AtomicOp), or [`APPLY_OTHER`].
    pub op: u32,
    /// Names operation and type for the function of the target's host. The module does not interpret
    /// this name.
    pub code: u32,
}

/// Combines `count` elements of `size` bytes with their operands: each element becomes the result of the operation that `code` names.
/// A peer chose code and size: the function refuses a code of elements of another size. Both arrays are aligned for every type of the element's size. The function runs under locks of the module, on any thread that makes progress;
/// it must not call the module, nor wait. A status other than [`Status::SUCCESS`] refuses the operation with that status; the
/// contents of `elements` are then ignored.
pub type ApplyFn = unsafe extern "C" fn(
    context: *mut c_void,
    code: u32,
    size: usize,
    elements: *mut c_void,
    operands: *const c_void,
    count: usize,
) -> Status;

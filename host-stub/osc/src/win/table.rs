//! The functions of one window. Every window owns a whole table from its creation on. Public calls
//! check their arguments and the epoch, then use the table without a further check.

use super::epoch::{Assertion, FencePlan, LockKind};
use super::error::WinResult;
use super::info::Info;
use super::transfer::Transfer;
use super::window::Window;

/// A rank's memory in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPart {
    /// Its first byte.
    pub base: *mut u8,
    /// Bytes.
    pub len: usize,
    /// Bytes of that rank's displacement unit.
    pub unit: u32,
}

/// The calls of a window that need not go through its table, because their entries are the functions over the
/// transport.
#[derive(Clone, Copy, Default)]
pub(super) struct Direct {
    pub(super) put: bool,
    pub(super) get: bool,
    pub(super) accumulate: bool,
    pub(super) fetch_and_op: bool,
    pub(super) flush: bool,
}

/// An entry of a communication call.
pub(super) type Communicate = unsafe fn(&Window, &Transfer<'_>) -> WinResult<()>;

/// The entry of a flush of one rank.
pub(super) type Flush = fn(&Window, &'static str, usize) -> WinResult<()>;

/// The functions of a window. No entry can be absent. The unsafe ones need the buffers of their
/// [`Transfer`] to be valid for its layouts until the operation is complete.
///
/// Functions that need no window, such as [`alloc_mem`](super::alloc_mem), are not entries.
#[derive(Clone, Copy)]
pub struct RmaTable {
    /// Writes to the target.
    pub put: Communicate,
    /// Reads from the target.
    pub get: Communicate,
    /// Updates the target, each element atomically.
    pub accumulate: Communicate,
    /// Updates the target and fetches its old elements, each element atomically.
    pub get_accumulate: Communicate,
    /// As `get_accumulate`, for one element.
    pub fetch_and_op: Communicate,
    /// Replaces one element if it has an expected value.
    pub compare_and_swap: Communicate,
    /// As `put`, with a request, which the transfer names.
    pub rput: Communicate,
    /// As `get`, with a request, which the transfer names.
    pub rget: Communicate,
    /// As `accumulate`, with a request, which the transfer names.
    pub raccumulate: Communicate,
    /// As `get_accumulate`, with a request, which the transfer names.
    pub rget_accumulate: Communicate,
    /// Completes this rank's operations and meets the other ranks, as the plan says.
    pub fence: fn(&Window, FencePlan, Assertion) -> WinResult<()>,
    /// Takes the target's lock.
    pub lock: fn(&Window, usize, LockKind) -> WinResult<()>,
    /// Completes operations to the target and releases its lock; with `None` no lock was taken.
    pub unlock: fn(&Window, usize, Option<LockKind>) -> WinResult<()>,
    /// Takes every rank's lock, shared.
    pub lock_all: fn(&Window) -> WinResult<()>,
    /// Completes all operations and releases the locks, if they were taken.
    pub unlock_all: fn(&Window, bool) -> WinResult<()>,
    /// Completes operations to the target, at the target and at the origin.
    pub flush: Flush,
    /// Completes all operations, at the targets and at the origin.
    pub flush_all: fn(&Window, &'static str) -> WinResult<()>,
    /// Completes operations to the target, at the origin.
    pub flush_local: Flush,
    /// Completes all operations, at the origin.
    pub flush_local_all: fn(&Window, &'static str) -> WinResult<()>,
    /// Waits for the posts of a group, unless they are known to have come.
    pub start: fn(&Window, &[usize], Assertion) -> WinResult<()>,
    /// Completes operations to a group and notifies the group.
    pub complete: fn(&Window, &[usize]) -> WinResult<()>,
    /// Notifies a group that it may access this rank's memory, unless an assertion says that the
    /// group knows.
    pub post: fn(&Window, &[usize], Assertion) -> WinResult<()>,
    /// Waits until the group of the last post has completed.
    pub wait: fn(&Window) -> WinResult<()>,
    /// Whether the group of the last post has completed.
    pub test: fn(&Window) -> WinResult<bool>,
    /// Orders local accesses of the window's memory with those of others.
    pub sync: fn(&Window) -> WinResult<()>,
    /// Meets the other ranks after all operations of all of them have ended.
    pub free: fn(&Window) -> WinResult<()>,
    /// Attaches memory to a dynamic window.
    pub attach: unsafe fn(&Window, *mut u8, usize) -> WinResult<()>,
    /// Detaches memory from a dynamic window.
    pub detach: fn(&Window, *const u8) -> WinResult<()>,
    /// Returns the place of a rank's memory in this process; with `None`, of the first rank that
    /// has memory.
    pub shared_query: fn(&Window, Option<usize>) -> WinResult<SharedPart>,
    /// Changes hints of the window; collective.
    pub set_info: fn(&Window, &Info) -> WinResult<()>,
    /// Returns the hints in force for the window.
    pub get_info: fn(&Window) -> WinResult<Info>,
}

//! The functions of one window. Every window owns a whole table from its creation on; public calls
//! check their arguments and the epoch, then go through it without a further check.

use plugin_api::{Datatype, Handle, Status};

use super::epoch::{Assertion, FencePlan, LockKind};
use super::error::{WinError, WinResult};
use super::info::Info;
use super::layout::Layout;
use super::peer::Peer;
use super::request::request_state::RequestState;
use super::window::Window;
use crate::base::Op;

/// A checked communication call: both layouts hold the same elements, the target range lies in
/// memory that the target exposes, the epoch allows it, and there is at least one element.
pub struct Transfer<'a> {
    /// The call, for errors.
    pub call: &'static str,
    /// What accumulates do; [`Op::Replace`] for puts and compare-and-swap, [`Op::NoOp`] for gets.
    pub op: Op,
    /// The target's rank.
    pub target: usize,
    /// The target.
    pub(super) peer: &'a Peer,
    /// Address of the displacement: in this process for a window in one segment, else in the
    /// target's.
    pub address: u64,
    /// The target's registration of that memory, borrowed for the call.
    pub handle: *const Handle,
    /// Where elements lie from `address` on.
    pub target_layout: &'a Layout,
    /// The origin's buffer: read by all calls but gets, which write it.
    pub origin: *mut u8,
    /// Where elements lie in the origin's buffer.
    pub origin_layout: &'a Layout,
    /// The transport's handle of the origin's buffer, which is then device memory of this process
    /// that nothing here may touch; NULL for host memory. Only puts and gets without gaps have one.
    pub local_handle: *mut Handle,
    /// The element that compare-and-swap compares with; NULL for other calls.
    pub compare: *const u8,
    /// Where fetching calls put what was at the target.
    pub result: *mut u8,
    /// Where elements lie in the result buffer; none for calls that fetch nothing.
    pub result_layout: Option<&'a Layout>,
    /// Set where a call without a request uses buffers of the host in place of the program's. It counts the pieces, and the
    /// host completes the call when all have ended.
    pub(super) record: Option<&'a RequestState>,
}

/// What a request form counts with; made by the public call.
pub struct RequestRef<'a>(pub(super) &'a RequestState);

/// A rank's memory as this process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPart {
    /// Its first byte.
    pub base: *mut u8,
    /// Bytes.
    pub len: usize,
    /// Bytes of that rank's displacement unit.
    pub unit: u32,
}

/// An entry of a communication call.
pub(super) type Communicate = unsafe fn(&Window, &Transfer<'_>) -> WinResult<()>;
/// The same, with a request.
pub(super) type Requested = unsafe fn(&Window, &Transfer<'_>, RequestRef<'_>) -> WinResult<()>;

/// The functions of a window. No entry can be absent. The unsafe ones need the buffers of their
/// [`Transfer`] to be valid for its layouts until the operation is complete.
///
/// What belongs to no window (memory to be had before there is one) is not here: see
/// [`alloc_mem`](super::alloc_mem).
#[derive(Clone, Copy)]
pub struct RmaTable {
    /// Writes to the target.
    pub put: Communicate,
    /// Reads from the target.
    pub get: Communicate,
    /// Updates the target, each element atomically.
    pub accumulate: Communicate,
    /// Updates the target and fetches what was there, each element atomically.
    pub get_accumulate: Communicate,
    /// As `get_accumulate`, for one element.
    pub fetch_and_op: Communicate,
    /// Replaces one element if it has an expected value.
    pub compare_and_swap: Communicate,
    /// As `put`, with a request to count with.
    pub rput: Requested,
    /// As `get`, with a request to count with.
    pub rget: Requested,
    /// As `accumulate`, with a request to count with.
    pub raccumulate: Requested,
    /// As `get_accumulate`, with a request to count with.
    pub rget_accumulate: Requested,
    /// Completes this rank's operations and meets the other ranks, as the plan says.
    pub fence: fn(&Window, FencePlan, Assertion) -> WinResult<()>,
    /// Takes the target's lock.
    pub lock: fn(&Window, usize, LockKind) -> WinResult<()>,
    /// Completes operations to the target and gives its lock back; none was taken with `None`.
    pub unlock: fn(&Window, usize, Option<LockKind>) -> WinResult<()>,
    /// Takes every rank's lock, shared.
    pub lock_all: fn(&Window) -> WinResult<()>,
    /// Completes all operations and gives the locks back, if they were taken.
    pub unlock_all: fn(&Window, bool) -> WinResult<()>,
    /// Completes operations to the target, there and here.
    pub flush: fn(&Window, &'static str, usize) -> WinResult<()>,
    /// Completes all operations, everywhere.
    pub flush_all: fn(&Window, &'static str) -> WinResult<()>,
    /// Completes operations to the target, here.
    pub flush_local: fn(&Window, &'static str, usize) -> WinResult<()>,
    /// Completes all operations, here.
    pub flush_local_all: fn(&Window, &'static str) -> WinResult<()>,
    /// Waits for the posts of a group, unless they are known to have come.
    pub start: fn(&Window, &[usize], Assertion) -> WinResult<()>,
    /// Completes operations to a group and tells it so.
    pub complete: fn(&Window, &[usize]) -> WinResult<()>,
    /// Tells a group that this rank's memory may be accessed, unless it knows.
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
    /// Where a rank's memory is in this process; of the first rank that has any with `None`.
    pub shared_query: fn(&Window, Option<usize>) -> WinResult<SharedPart>,
    /// Changes hints of the window; collective.
    pub set_info: fn(&Window, &Info) -> WinResult<()>,
    /// What is in force for the window.
    pub get_info: fn(&Window) -> WinResult<Info>,
}

impl<'a> Transfer<'a> {
    /// The element type.
    #[inline]
    pub fn datatype(&self) -> Datatype {
        self.target_layout.datatype()
    }

    /// The error of the call with a status of the transport.
    #[cold]
    pub(super) fn failed(&self, status: Status) -> WinError {
        WinError::Transport {
            call: self.call,
            rank: self.peer.rank,
            status,
        }
    }

    /// Whether elements lie in a row at the origin and at the target.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.origin_layout.is_contiguous() && self.target_layout.is_contiguous()
    }
}

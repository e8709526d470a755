//! A communication call that passed its checks: the argument of the table's entries.

use plugin_api::{Datatype, Handle, Status};

use super::error::WinError;
use super::layout::Layout;
use super::peer::Peer;
use super::pieces::Piece;
use super::request::request_state::RequestState;
use crate::base::Op;

/// A checked communication call: both layouts hold the same elements, the target range lies in
/// memory that the target exposes, the epoch allows it, and there is at least one element.
#[derive(Clone, Copy)]
pub struct Transfer<'a> {
    /// The call, for errors.
    pub call: &'static str,
    /// The operation of an accumulate; [`Op::Replace`] for puts and compare-and-swap, [`Op::NoOp`] for gets.
    pub op: Op,
    /// The target's rank.
    pub target: usize,
    /// The target.
    pub(super) peer: &'a Peer,
    /// Address of the displacement: in this process for a window in one segment, otherwise in the
    /// target's process.
    pub address: u64,
    /// The target's registration of that memory, borrowed for the call. NULL for puts and gets of a dynamic window, which look
    /// it up themselves.
    pub handle: *const Handle,
    /// The layout of the elements from `address` on.
    pub target_layout: &'a Layout,
    /// The origin's buffer: read by all calls but gets, which write it.
    pub origin: *mut u8,
    /// The layout of the elements in the origin's buffer.
    pub origin_layout: &'a Layout,
    /// The transport's handle of the origin's buffer, which is then device memory of this process that the
    /// engine must not access; NULL for host memory. Only puts and gets without gaps, or of memory that is
    /// opened here, have one.
    pub local_handle: *mut Handle,
    /// The element that compare-and-swap compares with; NULL for other calls.
    pub compare: *const u8,
    /// The buffer into which fetching calls put the target's previous elements.
    pub result: *mut u8,
    /// The layout of the elements in the result buffer; `None` for calls that fetch nothing.
    pub result_layout: Option<&'a Layout>,
    /// Counts the pieces of a call with a request, and of a call without a request whose buffers are packed in host memory. The
    /// request or the call is complete when all pieces have ended.
    pub(super) record: Option<&'a RequestState>,
}

impl<'a> Transfer<'a> {
    /// The element type.
    #[inline]
    pub fn datatype(&self) -> Datatype {
        self.target_layout.datatype()
    }

    /// The error of the call with a status of the transport.
    #[cold]
    pub(super) fn failed(&self, status: Status) -> Box<WinError> {
        Box::new(WinError::Transport {
            call: self.call,
            rank: self.peer.rank,
            status,
        })
    }

    /// The whole call as a piece. All of its layouts are contiguous.
    #[inline(always)]
    pub(super) fn whole(&self) -> Piece {
        Piece {
            origin: 0,
            result: 0,
            target: 0,
            len: self.target_layout.bytes(),
        }
    }

    /// Whether elements are contiguous at the origin and at the target.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.origin_layout.is_contiguous() && self.target_layout.is_contiguous()
    }
}

//! The state of a large transfer in fragments over one interface.

use crate::fabric::policy::{NO_WINDOW, PACKET, in_window};
use crate::mem::handle::Target;
use crate::op::request::Op;
use plugin_api::Status;
use std::ffi::c_void;

/// Sizes of the largest and the smallest fragment. The first fragment ([`head`]) or the last one
/// may be smaller.
pub(super) const LARGEST_PIECE: usize = 4 * PACKET - PAGE;
pub(super) const SMALLEST_PIECE: usize = 16 * 1024;
/// Size of the largest transfer that may be sent whole.
pub(super) const LARGEST_WHOLE: usize = 320 * 1024;
/// Bytes that a fragment leaves free for the header in its last packet.
pub(super) const PAGE: usize = 4096;

/// A transfer in fragments.
pub(crate) struct Stream {
    pub(super) put: bool,
    pub(super) local: *mut c_void,
    pub(super) target: Target,
    pub(super) size: usize,
    /// Size of a short first fragment (0 if there is none), and size of the other fragments except
    /// the last.
    pub(super) head: usize,
    pub(super) piece: usize,
    /// Offset of the next fragment.
    pub(super) next: usize,
    /// Number of outstanding fragments.
    pub(super) pieces: u32,
    /// Whether it waits for [`Event::Room`].
    pub(super) waits: bool,
    /// The status with which the transfer will end.
    pub(super) status: Status,
}

// SAFETY: the pointer is to the caller's buffer, which is valid until completion; any thread that makes progress may post
// it.
unsafe impl Send for Stream {}

impl Stream {
    pub(super) fn new(
        (op, put, target): (&Op<'_>, bool, Target),
        (is_busy, head): (bool, usize),
        window: usize,
    ) -> Stream {
        let piece = piece_of(op.size, is_busy, window);
        Stream {
            put,
            local: op.local,
            target,
            size: op.size,
            head,
            piece,
            next: 0,
            pieces: 0,
            waits: true,
            status: Status::SUCCESS,
        }
    }

    /// Size of the next fragment; 0 if there is none.
    pub(super) fn next_size(&self) -> usize {
        let left = self.size - self.next;
        match self.next {
            0 if self.head > 0 => self.head,
            _ => self.piece.min(left),
        }
    }

    /// The room that the next fragment needs in the window.
    pub(super) fn asks(&self) -> Asked {
        let size = self.next_size();
        Asked {
            counted: in_window(size),
            is_last: self.next + size == self.size,
        }
    }

    /// Records the end of a fragment.
    pub(super) fn end_piece(&mut self, status: Status) {
        self.pieces -= 1;
        if !status.is_ok() {
            self.status = status;
        }
    }
}

/// Size of the fragments of a transfer. Two fragments fit in every window except the smallest. A transfer that is little
/// longer than a fragment is sent whole if no other transfer uses the connection.
pub(super) fn piece_of(size: usize, is_busy: bool, window: usize) -> usize {
    if window == NO_WINDOW || !is_busy && size <= LARGEST_WHOLE.min(window) {
        return size;
    }
    match window / 2 / PACKET {
        0 => (window / 2).max(SMALLEST_PIECE),
        packets => LARGEST_PIECE.min(packets * PACKET - PAGE),
    }
}

/// A fragment that needs room in the window: the bytes that it takes, and whether it is the last
/// fragment.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) counted: usize,
    pub(super) is_last: bool,
}

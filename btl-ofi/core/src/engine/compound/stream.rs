//! The state of a transfer that one interface carries in pieces.

use crate::fabric::policy::{NO_WINDOW, PACKET, in_window};
use crate::mem::handle::Target;
use crate::op::request::Op;
use plugin_api::Status;
use std::ffi::c_void;

/// Largest and smallest piece. A first piece ([`head`]) or a last piece may be smaller.
pub(super) const LARGEST_PIECE: usize = 4 * PACKET - PAGE;
pub(super) const SMALLEST_PIECE: usize = 16 * 1024;
/// Largest transfer that may be sent whole.
pub(super) const LARGEST_WHOLE: usize = 320 * 1024;
/// Bytes that a piece leaves free in its last packet for the header.
pub(super) const PAGE: usize = 4096;

/// A transfer in pieces.
pub(crate) struct Stream {
    pub(super) put: bool,
    pub(super) local: *mut c_void,
    pub(super) target: Target,
    pub(super) size: usize,
    /// Bytes of the first piece if it is a short one, else 0, and of the others but the last.
    pub(super) head: usize,
    pub(super) piece: usize,
    /// Where the next piece begins.
    pub(super) next: usize,
    /// Pieces on the way.
    pub(super) pieces: u32,
    /// Whether it waits for [`Event::Room`].
    pub(super) waits: bool,
    /// What the transfer ends with.
    pub(super) status: Status,
}

// SAFETY: the pointer is to the caller's buffer, which is valid until completion; whichever thread makes progress may post it.
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

    /// Bytes of the next piece; 0 if there is none.
    pub(super) fn next_size(&self) -> usize {
        let left = self.size - self.next;
        match self.next {
            0 if self.head > 0 => self.head,
            _ => self.piece.min(left),
        }
    }

    /// What the next piece asks of the window.
    pub(super) fn asks(&self) -> Asked {
        let size = self.next_size();
        Asked {
            counted: in_window(size),
            is_last: self.next + size == self.size,
        }
    }

    /// Notes the end of a piece.
    pub(super) fn end_piece(&mut self, status: Status) {
        self.pieces -= 1;
        if !status.is_ok() {
            self.status = status;
        }
    }
}

/// Bytes of the pieces of a transfer: two pieces fit in every window but the smallest. A transfer that is little longer than a
/// piece is sent whole if no other transfer uses the connection.
pub(super) fn piece_of(size: usize, is_busy: bool, window: usize) -> usize {
    if window == NO_WINDOW || !is_busy && size <= LARGEST_WHOLE.min(window) {
        return size;
    }
    match window / 2 / PACKET {
        0 => (window / 2).max(SMALLEST_PIECE),
        packets => LARGEST_PIECE.min(packets * PACKET - PAGE),
    }
}

/// A piece that needs room: the bytes that it counts in the window, and whether it is the last piece.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) counted: usize,
    pub(super) is_last: bool,
}

//! Queued transfers, which only the responder can make: puts and gets of any size, in fragments through the ring, to
//! a peer whose memory the kernel no longer lets this process access (`peer::reach`).
//!
//! The fragments of the oldest transfer are posted first. Answers come in the order of the ring, so they always
//! belong to the transfer at the front of the queue.

use std::ffi::c_void;
use std::ptr;

use plugin_api::Status;

use super::commands::{copy, refusal};
use super::{Done, Pending, Requester, Use, no_operation};
use crate::op::completion::Finished;
use crate::op::request::{Operands, Request};
use crate::sm::ring::{Answer, Command};

/// Largest fragment in bytes. The payload holds several fragments, so that both sides copy at the
/// same time.
const FRAGMENT: usize = 8 * 1024;
/// Maximum transfers in the queue.
const QUEUE: usize = 128;

/// A transfer that is posted in fragments.
pub(super) struct Queued {
    pub(super) finished: Finished,
    /// The command for the whole transfer.
    command: Command,
    put: bool,
    /// The caller's buffer, or NULL for a put of `bytes`.
    local: *mut u8,
    /// Data of a put that was revoked in the ring.
    bytes: Box<[u8]>,
    size: usize,
    /// Number of bytes whose fragments were posted, and number of fragments without an answer.
    asked: usize,
    unanswered: u32,
    refused: Option<Status>,
}

impl Requester {
    /// Queues a put or get.
    ///
    /// # Safety
    /// The operands of a put are readable, and the result of a get is writable, until the transfer completes.
    pub(crate) unsafe fn queue(&mut self, request: &Request, finished: Finished) {
        let (put, local) = match request.operands {
            Operands::Buffer(buffer) if request.result.is_null() => (true, buffer.cast_mut()),
            _ => (false, request.result),
        };
        self.enqueue(Queued {
            finished,
            command: Command::of(&request.command),
            put,
            local: local.cast(),
            bytes: Box::default(),
            size: request.size,
            asked: 0,
            unanswered: 0,
            refused: None,
        });
        self.post_fragments();
    }

    /// Makes room in the queue for one more transfer.
    pub(crate) fn reserve_queue(&mut self) -> Result<(), Status> {
        if self.queued.len() >= QUEUE {
            return Err(Status::TEMP_OUT_OF_RESOURCE);
        }
        let reserved = self.queued.try_reserve(1);
        reserved.map_err(|_| Status::OUT_OF_RESOURCE)
    }

    /// Queues a ring put or ring get that was revoked and that CMA then refused. Copies the data of a put, because
    /// other commands may overwrite the data in the ring. Fails if memory is exhausted.
    ///
    /// # Safety
    /// For a put, `local` is readable for `size` bytes; for a get, it is writable until the transfer completes.
    pub(super) unsafe fn queue_revoked(
        &mut self,
        put: bool,
        command: Command,
        (local, size): (*mut c_void, usize),
        finished: Finished,
    ) -> Result<(), Status> {
        if self.queued.try_reserve(1).is_err() {
            return Err(Status::OUT_OF_RESOURCE);
        }
        let mut bytes = Vec::new();
        let local = if put {
            let reserved = bytes.try_reserve_exact(size);
            reserved.map_err(|_| Status::OUT_OF_RESOURCE)?;
            // SAFETY: the caller guarantees that `local` is readable for `size` bytes for a put.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(local.cast(), size) });
            ptr::null_mut()
        } else {
            local.cast()
        };
        self.enqueue(Queued {
            finished,
            command,
            put,
            local,
            bytes: bytes.into_boxed_slice(),
            size,
            asked: 0,
            unanswered: 0,
            refused: None,
        });
        Ok(())
    }

    fn enqueue(&mut self, queued: Queued) {
        self.transfers += 1;
        self.queued.push_back(queued);
    }

    /// Posts fragments while there is room.
    #[cold]
    #[inline(never)]
    pub(super) fn post_fragments(&mut self) {
        // SAFETY: the endpoint outlives its ring, so the pointer is valid.
        if unsafe { self.endpoint.as_ref() }.failure().is_some() {
            return;
        }
        for index in 0..self.queued.len() {
            while let Some(queued) = self.queued.get(index) {
                let left = queued.size - queued.asked;
                if left == 0 {
                    break;
                }
                let mut size = left.min(FRAGMENT);
                let mut room = self.reserve(size, true);
                if room.as_ref().is_err_and(|s| *s == Status::OUT_OF_RESOURCE) {
                    // The memory for the payload is exhausted. A word needs no payload.
                    size = left.min(size_of::<u64>());
                    room = self.reserve(size, true);
                }
                let (Ok(room), Some(queued)) = (room, self.queued.get_mut(index)) else {
                    return;
                };
                let at = queued.asked;
                let command = Command {
                    address: queued.command.address.wrapping_add(at as u64),
                    count: size as u32,
                    ..queued.command
                };
                let source = match queued.bytes.as_ptr() {
                    bytes if queued.local.is_null() => bytes,
                    _ => queued.local.cast_const(),
                };
                let (from, to) = match queued.put {
                    true => (source.wrapping_add(at).cast(), ptr::null_mut()),
                    false => (ptr::null(), queued.local.wrapping_add(at).cast()),
                };
                queued.asked += size;
                queued.unanswered += 1;
                let record = no_operation(self.endpoint);
                // SAFETY: `at + size` does not exceed the transfer's size. The buffer is either the caller's, which
                // `queue` or `queue_revoked` requires until the transfer completes, or the copy in `bytes`.
                unsafe {
                    let operands = Operands::Buffer(from);
                    self.post_as(Use::QueuedFragment, command, operands, room, to, record);
                }
            }
        }
    }

    /// Handles the answer to a fragment of the transfer at the front of the queue.
    #[cold]
    #[inline(never)]
    pub(super) fn fragment_answered(
        &mut self,
        pending: &Pending,
        answer: &Answer,
        done: &mut Done,
    ) {
        let from = self.result(pending, answer);
        let Some(front) = self.queued.front_mut() else {
            return;
        };
        front.unanswered = front.unanswered.saturating_sub(1);
        match from {
            Some(from) if !pending.result.is_null() => {
                // SAFETY: the caller of `queue` or `queue_revoked` guarantees that the buffer is writable until the
                // transfer completes. `result` returned this number of bytes.
                unsafe { copy(from, pending.result.cast(), usize::from(pending.size)) };
            }
            Some(_) => {}
            None => {
                let status = refusal(answer).unwrap_or(Status::ERROR);
                front.refused.get_or_insert(status);
                // No more fragments of this transfer are posted.
                front.asked = front.size;
            }
        }
        if front.asked < front.size || front.unanswered > 0 {
            return;
        }
        let (finished, refused) = (front.finished, front.refused);
        self.queued.pop_front();
        self.transfers -= 1;
        match refused {
            None => done.push(finished),
            Some(status) => done.refused = Some((finished, status)),
        }
    }

    /// Ends the oldest queued transfer without waiting for its answers.
    pub(super) fn abandon_queued(&mut self) -> Option<Finished> {
        let queued = self.queued.pop_front()?;
        self.transfers -= 1;
        Some(queued.finished)
    }
}

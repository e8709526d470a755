//! Transfers that only the target can make: to a peer whose memory the kernel no longer lets this process
//! reach (`reach`), puts and gets of any size go through the ring, in fragments.
//!
//! They wait in a queue. The oldest has its fragments posted first, so answers, which come in the order of
//! the ring, always belong to the queue's front.

use std::ffi::c_void;
use std::ptr;

use plugin_api::Status;

use super::transfers::Direction;
use super::{Answer, Done, Operands, Pending, Requester, Use, copy, nobodys, refusal};
use crate::op::record::Finished;
use crate::sm::ring::Command;

/// Most bytes of a fragment: the payload holds several, so that both sides copy.
const FRAGMENT: usize = 8 * 1024;
/// Most transfers that wait.
const QUEUE: usize = 128;

/// A transfer, of which some fragments were posted.
pub(super) struct Queued {
    pub(super) finished: Finished,
    /// The command for all of it.
    command: Command,
    direction: Direction,
    /// The caller's buffer, or NULL for a put of `bytes`.
    local: *mut u8,
    /// What a put that was begun another way is still to write.
    bytes: Box<[u8]>,
    size: usize,
    /// Bytes for which fragments were posted, and fragments without answer.
    asked: usize,
    flying: u32,
    refused: Option<Status>,
}

impl Requester {
    /// Queues a put from `local`, or a get to it, of `size` bytes.
    ///
    /// # Safety
    /// `local` is good for so many bytes until the transfer is done.
    pub(crate) unsafe fn queue(
        &mut self,
        direction: Direction,
        command: Command,
        (local, size): (*mut c_void, usize),
        finished: Finished,
    ) {
        self.enqueue(Queued {
            finished,
            command,
            direction,
            local: local.cast(),
            bytes: Box::default(),
            size,
            asked: 0,
            flying: 0,
            refused: None,
        });
        self.post_fragments();
    }

    /// Makes room in the queue for another.
    pub(crate) fn reserve_queue(&mut self) -> Result<(), Status> {
        if self.queued.len() >= QUEUE {
            return Err(Status::TEMP_OUT_OF_RESOURCE);
        }
        let reserved = self.queued.try_reserve(1);
        reserved.map_err(|_| Status::OUT_OF_RESOURCE)
    }

    /// Queues a small transfer that was revoked, and that the kernel then refused to make. The bytes of a put
    /// are kept, since those in the ring may be written over. No when there is no memory.
    ///
    /// # Safety
    /// `local` is good for `size` bytes, for a get until the transfer is done.
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
        let (direction, local) = if put {
            let reserved = bytes.try_reserve_exact(size);
            reserved.map_err(|_| Status::OUT_OF_RESOURCE)?;
            // SAFETY: readable, as the caller vouches.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(local.cast(), size) });
            (Direction::Put, ptr::null_mut())
        } else {
            (Direction::Get, local.cast())
        };
        self.enqueue(Queued {
            finished,
            command,
            direction,
            local,
            bytes: bytes.into_boxed_slice(),
            size,
            asked: 0,
            flying: 0,
            refused: None,
        });
        Ok(())
    }

    fn enqueue(&mut self, queued: Queued) {
        self.transfers += 1;
        self.queued.push_back(queued);
    }

    /// Posts fragments as far as there is room.
    #[cold]
    #[inline(never)]
    pub(super) fn post_fragments(&mut self) {
        for index in 0..self.queued.len() {
            while let Some(queued) = self.queued.get(index) {
                let left = queued.size - queued.asked;
                if left == 0 {
                    break;
                }
                let mut size = left.min(FRAGMENT);
                let mut room = self.reserve(size, true);
                if room.as_ref().is_err_and(|s| *s == Status::OUT_OF_RESOURCE) {
                    // A word needs no payload, for which there is no memory.
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
                let (from, to) = match queued.direction {
                    Direction::Put => (source.wrapping_add(at).cast(), ptr::null_mut()),
                    Direction::Get => (ptr::null(), queued.local.wrapping_add(at).cast()),
                };
                queued.asked += size;
                queued.flying += 1;
                let nobody = nobodys(self.endpoint);
                // SAFETY: inside the buffer for which `queue`'s caller vouched, or the bytes kept.
                unsafe {
                    let operands = Operands::Buffer(from);
                    self.post_as(Use::QueuedFragment, command, operands, room, to, nobody);
                }
            }
        }
    }

    /// A fragment was answered: of the queue's front.
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
        front.flying = front.flying.saturating_sub(1);
        match from {
            Some(from) if !pending.result.is_null() => {
                // SAFETY: `queue`'s caller vouched for the buffer; the other side holds as much.
                unsafe { copy(from, pending.result.cast(), usize::from(pending.size)) };
            }
            Some(_) => {}
            None => {
                let status = refusal(answer).unwrap_or(Status::ERROR);
                front.refused.get_or_insert(status);
                // Nothing more is asked for.
                front.asked = front.size;
            }
        }
        if front.asked < front.size || front.flying > 0 {
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

    /// The oldest transfer that waits, given up.
    pub(super) fn abandon_queued(&mut self) -> Option<Finished> {
        let queued = self.queued.pop_front()?;
        self.transfers -= 1;
        Some(queued.finished)
    }
}

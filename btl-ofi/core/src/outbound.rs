//! The initiator's side of direct atomics: one ring at one peer, and what is outstanding in it.
//!
//! Whom to tell and where results go stays in memory of this process, out of the target's reach. Runs
//! under the lock of the context.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use plugin_api::Status;

use crate::endpoint::Endpoint;
use crate::params::MAX_CQ_READ;
use crate::record::Finished;
use crate::ring::Command;
use crate::segment::{Claim, ENTRIES, PAYLOAD};

/// Parts of the payload start at cache lines.
const LINE: usize = 64;

/// An operation whose answer is outstanding.
#[derive(Clone, Copy)]
struct Pending {
    finished: Finished,
    /// Where what was there before goes, or NULL.
    result: *mut c_void,
    /// Bytes of operands, and of results.
    size: u32,
    /// Where they lie in the payload, if they do not fit in the entry.
    payload: u32,
}

const _: () = assert!(size_of::<Pending>() == 64);

/// A vector's bytes, or one word.
#[derive(Clone, Copy)]
pub(crate) enum Operands {
    /// One element, in the low bytes.
    Value(u64),
    /// The caller's buffer; NULL for an operation that has no operands.
    Buffer(*const c_void),
}

/// Room for an operation: where its operands go.
pub(crate) struct Room {
    size: usize,
    /// Into the payload, and the same place in this process; 0 and NULL if they fit in the command.
    payload: u32,
    at: *mut u8,
}

/// Completed operations, gathered under the lock and delivered after it.
pub(crate) struct Done {
    finished: [MaybeUninit<Finished>; MAX_CQ_READ],
    count: usize,
    /// One that the target refused, after those in `finished`; nothing is gathered after it.
    pub(crate) refused: Option<(Finished, Status)>,
}

impl Done {
    #[inline]
    pub(crate) fn new() -> Done {
        Done {
            finished: [const { MaybeUninit::uninit() }; MAX_CQ_READ],
            count: 0,
            refused: None,
        }
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.count < MAX_CQ_READ && self.refused.is_none()
    }

    pub(crate) fn finished(&self) -> &[Finished] {
        // SAFETY: the first `count` were written by `collect`.
        unsafe { std::slice::from_raw_parts(self.finished.as_ptr().cast(), self.count) }
    }
}

/// A ring at one peer.
pub(crate) struct Outbound {
    claim: Claim,
    pub(crate) endpoint: NonNull<Endpoint>,
    /// The oldest position without answer taken, and the next to use.
    head: u32,
    tail: u32,
    /// The payload in use: a ring of bytes, by counts that only grow.
    used_from: u64,
    used_to: u64,
    has_payload: bool,
    /// Whether it is among the channel's active ones.
    pub(crate) listed: bool,
    pending: Box<[MaybeUninit<Pending>]>,
}

impl Outbound {
    pub(crate) fn new(claim: Claim, endpoint: NonNull<Endpoint>) -> Outbound {
        Outbound {
            head: claim.position,
            tail: claim.position,
            claim,
            endpoint,
            used_from: 0,
            used_to: 0,
            has_payload: false,
            listed: false,
            pending: Box::new_uninit_slice(ENTRIES as usize),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    pub(crate) fn outstanding(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Whether the target will execute nothing more.
    pub(crate) fn is_closed(&self) -> bool {
        self.claim.is_closed()
    }

    /// Makes room for an operation with `size` bytes of operands.
    #[inline]
    pub(crate) fn reserve(&mut self, size: usize) -> Result<Room, Status> {
        if self.outstanding() >= ENTRIES {
            return Err(Status::TEMP_OUT_OF_RESOURCE);
        }
        if size <= size_of::<u64>() {
            return Ok(Room {
                size,
                payload: 0,
                at: ptr::null_mut(),
            });
        }
        self.reserve_payload(size)
    }

    fn reserve_payload(&mut self, size: usize) -> Result<Room, Status> {
        if !self.has_payload {
            self.claim
                .allocate_payload()
                .map_err(|_| Status::OUT_OF_RESOURCE)?;
            self.has_payload = true;
        }
        let start = self.fitting(self.used_to, size);
        if start + size as u64 - self.used_from > PAYLOAD as u64 {
            return Err(Status::TEMP_OUT_OF_RESOURCE);
        }
        let payload = (start % PAYLOAD as u64) as u32;
        let at = self.claim.ring().payload(payload, size);
        Ok(Room {
            size,
            payload,
            at: at.ok_or(Status::VALUE_OUT_OF_BOUNDS)?,
        })
    }

    /// Where `size` bytes go when `from` is free: there, or at the start of the payload's next lap.
    fn fitting(&self, from: u64, size: usize) -> u64 {
        let at = from % PAYLOAD as u64;
        if at + size as u64 > PAYLOAD as u64 {
            from - at + PAYLOAD as u64
        } else {
            from
        }
    }

    /// The end of `size` bytes that begin where [`fitting`](Self::fitting) puts them.
    fn end(&self, from: u64, size: usize) -> u64 {
        self.fitting(from, size) + size.next_multiple_of(LINE) as u64
    }

    /// Posts a command for which `room` was just [made](Self::reserve), and adds its operands.
    ///
    /// # Safety
    /// `operands` is readable for the room's size, and `result` NULL or writable for as many until the
    /// operation is done.
    #[inline]
    pub(crate) unsafe fn post(
        &mut self,
        mut command: Command,
        operands: Operands,
        room: Room,
        result: *mut c_void,
        finished: Finished,
    ) {
        let Room { size, payload, at } = room;
        command.payload = payload;
        match operands {
            Operands::Value(value) => command.value = value,
            // A read has no operands.
            Operands::Buffer(buffer) if buffer.is_null() => {}
            Operands::Buffer(buffer) => {
                let to = if at.is_null() {
                    (&raw mut command.value).cast()
                } else {
                    at
                };
                // SAFETY: the caller vouches for the operands; `reserve` found the room, in the
                // command where they fit there.
                unsafe { ptr::copy_nonoverlapping(buffer.cast::<u8>(), to, size) };
            }
        }
        if !at.is_null() {
            self.used_to = self.end(self.used_to, size);
        }
        self.pending[(self.tail % ENTRIES) as usize].write(Pending {
            finished,
            result,
            size: size as u32,
            payload,
        });
        self.claim
            .ring()
            .entry(self.tail)
            .publish(self.tail, &command);
        self.tail = self.tail.wrapping_add(1);
        self.claim.announce();
    }

    /// Takes answers, in order, as far as there are any and `done` has room.
    #[inline]
    pub(crate) fn collect(&mut self, done: &mut Done) {
        while self.head != self.tail && done.has_room() {
            let Some(answer) = self.claim.ring().entry(self.head).answered(self.head) else {
                return;
            };
            let pending = self.take();
            if answer.status != 0 {
                // The target's word for it is not believed to mean "again".
                let status = match Status(answer.status) {
                    s if s.is_ok() || s.is_again() => Status::ERROR,
                    s => s,
                };
                done.refused = Some((pending.finished, status));
                return;
            }
            let size = pending.size as usize;
            if !pending.result.is_null() {
                let from: *const u8 = if size <= size_of::<u64>() {
                    (&raw const answer.value).cast()
                } else if let Some(at) = self.claim.ring().payload(pending.payload, size) {
                    at
                } else {
                    done.refused = Some((pending.finished, Status::ERROR));
                    return;
                };
                // SAFETY: `post`'s caller vouched for the result; the other side holds as much.
                unsafe { ptr::copy_nonoverlapping(from, pending.result.cast::<u8>(), size) };
            }
            done.finished[done.count].write(pending.finished);
            done.count += 1;
        }
    }

    /// Takes the oldest operation out; there is one. Its part of the payload is free once the next
    /// command is posted.
    #[inline]
    fn take(&mut self) -> Pending {
        // SAFETY: positions from `head` to `tail` were written by `post`.
        let pending = unsafe { self.pending[(self.head % ENTRIES) as usize].assume_init() };
        self.head = self.head.wrapping_add(1);
        if pending.size as usize > size_of::<u64>() {
            self.used_from = self.end(self.used_from, pending.size as usize);
        }
        pending
    }

    /// The oldest operation without answer, given up.
    pub(crate) fn abandon(&mut self) -> Option<Finished> {
        (!self.is_empty()).then(|| self.take().finished)
    }

    /// Lets another process have the ring. Kept from it, and from everyone, while the target might
    /// still execute commands of it.
    pub(crate) fn give_back(self, unanswered: bool) {
        if !unanswered {
            let next = self.tail;
            self.claim.give_back(next);
        }
    }
}

//! The commands in a ring: posting them, and taking the responder's answers.

use std::ffi::c_void;
use std::ptr;

use plugin_api::Status;

use super::transfers::Wait;
use super::{Done, Pending, Requester, Use};
use crate::op::apply::Carried;
use crate::op::completion::Finished;
use crate::op::request::{Operands, Request};
use crate::op::responder::{self, PUT};
use crate::sm::ring::{Answer, Command};
use crate::sm::segment::SLOTS;

/// Room for an operation's operands.
pub(crate) struct Room {
    pub(super) size: usize,
    /// Offset in the payload, and the address of this offset in this process; 0 and NULL if the operands fit in
    /// the command.
    pub(super) payload: u32,
    pub(super) at: *mut u8,
}

impl Room {
    /// Room in the command itself, for at most one word.
    #[inline(always)]
    pub(super) fn in_command(size: usize) -> Room {
        Room {
            size,
            payload: 0,
            at: ptr::null_mut(),
        }
    }
}

/// Copies operands or results. Operands and results are nearly always one word, and a call of memcpy would cost more.
///
/// # Safety
/// `from` is readable and `to` writable for `size` bytes, and the two ranges do not overlap.
#[inline(always)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, size: usize) {
    // SAFETY: the caller guarantees that `from` is readable and `to` writable for `size` bytes, without overlap.
    unsafe {
        if size == size_of::<u64>() {
            to.cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned());
        } else {
            ptr::copy_nonoverlapping(from, to, size);
        }
    }
}

/// The first `size` bytes of a word; its other bytes are zero. The word is built without a store to memory
/// that is then read as a whole.
///
/// # Safety
/// `from` is readable for `size` bytes, at most eight.
#[inline(always)]
pub(super) unsafe fn word_of(from: *const u8, size: usize) -> u64 {
    // SAFETY: the caller guarantees that `from` is readable for `size` bytes, which fit in the word.
    unsafe {
        if size == size_of::<u64>() {
            return from.cast::<u64>().read_unaligned();
        }
        let mut word = 0u64;
        ptr::copy_nonoverlapping(from, (&raw mut word).cast(), size);
        word
    }
}

/// The status with which the responder refused a command; `None` if it executed the command.
#[inline]
pub(super) fn refusal(answer: &Answer) -> Option<Status> {
    match Status(answer.status) {
        Status(0) => None,
        // A faulty responder must not make this process retry forever.
        s if s.is_ok() || s.is_again() => Some(Status::ERROR),
        s => Some(s),
    }
}

impl Command {
    /// The form that a command has in a ring, without operands.
    #[inline(always)]
    pub(crate) fn of(c: &responder::Command) -> Command {
        Command {
            what: c.what,
            count: c.count,
            payload: 0,
            address: c.address,
            key: c.key,
            cookie: c.cookie,
            value: 0,
            compare: c.compare,
        }
    }
}

impl Requester {
    /// Room for a transfer of at most a word, if the ring has a free slot.
    #[inline(always)]
    pub(crate) fn room_for_word(&self, size: usize) -> Option<Room> {
        (self.in_use() < SLOTS).then(|| Room::in_command(size))
    }

    /// Reserves room for an operation with `size` bytes of operands. `must` means that only the responder can execute
    /// the operation. Without `must`, OUT_OF_RESOURCE leaves the operation to CMA instead of allocating memory.
    #[inline]
    pub(crate) fn reserve(&mut self, size: usize, must: bool) -> Result<Room, Status> {
        if self.in_use() >= SLOTS {
            return Err(Status::TEMP_OUT_OF_RESOURCE);
        }
        if size <= size_of::<u64>() {
            return Ok(Room::in_command(size));
        }
        self.reserve_payload(size, must)
    }

    fn reserve_payload(&mut self, size: usize, must: bool) -> Result<Room, Status> {
        let (payload, at) = self.area.reserve(&mut self.claim, size, must)?;
        Ok(Room { size, payload, at })
    }

    /// Posts an atomic with its operands in `room`, which [`reserve`](Self::reserve) just returned.
    ///
    /// # Safety
    /// `operands` is readable for the room's size. `result` is NULL, or writable for the room's size until the
    /// operation completes.
    #[inline]
    pub(crate) unsafe fn post(
        &mut self,
        command: Command,
        operands: Operands,
        room: Room,
        result: *mut c_void,
        finished: Finished,
    ) {
        // SAFETY: the caller guarantees that `operands` is readable and `result` NULL or writable for the room's
        // size.
        unsafe { self.post_as(Use::Atomic, command, operands, room, result, finished) };
    }

    /// Posts an apply with its operands in `room`, which [`reserve`](Self::reserve) just returned. The room is large enough
    /// for the operands and for the results, which come back in the same place.
    ///
    /// # Safety
    /// `operands` is readable for the operands' size in `carried`. `result` is NULL, or writable for the results' size in
    /// `carried` until the operation completes.
    pub(crate) unsafe fn post_apply(
        &mut self,
        command: &responder::Command,
        (operands, carried): (*const u8, Carried),
        room: Room,
        result: *mut c_void,
        finished: Finished,
    ) {
        self.results[(self.tail % SLOTS) as usize] = carried.results as u16;
        let none = Operands::Buffer(ptr::null());
        // SAFETY: the room is in the payload, because the operands have more than a word, and it is at least as large as
        // the operands. The caller guarantees operands and result.
        unsafe {
            copy(operands, room.at, carried.operands);
            let command = Command::of(command);
            self.post_as(Use::Apply, command, none, room, result, finished);
        }
    }

    /// Posts a put from `local`, or a get to it, in `room`, which [`reserve`](Self::reserve) just returned.
    ///
    /// # Safety
    /// The operands of a put are readable for the room's size. The result of a get is writable for the room's size
    /// until the operation completes.
    #[inline(always)]
    pub(crate) unsafe fn transfer(&mut self, request: &Request, room: Room, finished: Finished) {
        let (command, operands) = (Command::of(&request.command), request.operands);
        let used = match command.what {
            PUT => Use::Put,
            _ => Use::Get,
        };
        self.transfers += 1;
        // SAFETY: the caller guarantees the buffer for the room's size: readable for a put, writable until completion
        // for a get.
        unsafe { self.post_as(used, command, operands, room, request.result, finished) };
    }

    /// Posts a command with its operands in `room`, which [`reserve`](Self::reserve) just returned.
    ///
    /// # Safety
    /// The conditions of [`post`](Self::post); an apply has its operands in the room.
    #[inline(always)]
    pub(super) unsafe fn post_as(
        &mut self,
        used: Use,
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
            Operands::Buffer(buffer) if at.is_null() => {
                // SAFETY: the caller guarantees that `operands` is readable for the room's size, here at most a word.
                command.value = unsafe { word_of(buffer.cast(), size) };
            }
            // SAFETY: the caller guarantees that `operands` is readable for the room's size, and `reserve` found this
            // much room in the payload.
            Operands::Buffer(buffer) => unsafe { copy(buffer.cast(), at, size) },
        }
        if !at.is_null() {
            self.area.begin(size);
        }
        // Read once, because the compiler assumes that the writes below may change it.
        let position = self.tail;
        self.pending[(position % SLOTS) as usize].write(Pending {
            finished,
            result,
            payload,
            size: size as u16,
            used,
        });
        self.claim.ring().slot(position).publish(position, &command);
        self.tail = position.wrapping_add(1);
        self.claim.announce();
    }

    /// Takes the answers that have arrived, in order, while `done` has room. Revokes transfers whose answers
    /// are overdue.
    #[inline]
    pub(crate) fn collect(&mut self, done: &mut Done) {
        let answered = self.take_answers(done);
        if self.transfers > 0 {
            if !answered {
                self.consider_revoking(done);
            } else if !self.queued.is_empty() {
                self.post_fragments();
            }
        }
    }

    /// Takes the answers that have arrived, in order, while `done` has room. Returns whether there was an answer.
    /// Makes no system call.
    #[inline]
    pub(crate) fn take_answers(&mut self, done: &mut Done) -> bool {
        let first = self.head;
        while self.head != self.tail && done.has_room() {
            let Some(answer) = self.claim.ring().slot(self.head).answered(self.head) else {
                break;
            };
            let pending = self.take();
            if pending.used > Use::Get {
                if pending.used == Use::QueuedFragment {
                    self.fragment_answered(&pending, &answer, done);
                }
                continue;
            }
            if pending.used <= Use::Atomic {
                self.tuning.wait = Wait::default();
            } else {
                self.answered_in_time();
            }
            if let Some(status) = refusal(&answer) {
                done.refused = Some((pending.finished, status));
                break;
            }
            if !pending.result.is_null() {
                let Some(from) = self.result(&pending, &answer) else {
                    done.refused = Some((pending.finished, Status::ERROR));
                    break;
                };
                let size = match pending.used {
                    Use::Apply => self.results[(self.head.wrapping_sub(1) % SLOTS) as usize],
                    _ => pending.size,
                };
                // SAFETY: the caller of `post_as` guarantees that the result is writable for this size until
                // completion. `result` returned the answer's word, or as many bytes of the payload.
                unsafe { copy(from, pending.result.cast(), usize::from(size)) };
            }
            done.push(pending.finished);
        }
        self.area.settle(&self.claim);
        self.head != first
    }

    /// Location of an answered operation's results: in the answer if they fit there, otherwise in the payload.
    /// `None` if the operation failed.
    #[inline]
    pub(super) fn result(&self, pending: &Pending, answer: &Answer) -> Option<*const u8> {
        if answer.status != 0 {
            return None;
        }
        let size = usize::from(pending.size);
        if size <= size_of::<u64>() {
            return Some((&raw const answer.value).cast());
        }
        let at = self.area.at(pending.payload, size)?;
        Some(at.cast_const())
    }

    /// Takes the oldest slot. At least one slot is in use. The slot's part of the payload stays valid until the next
    /// command is posted or the area is settled.
    #[inline]
    pub(super) fn take(&mut self) -> Pending {
        // SAFETY: `post_as` or `new` initialised all positions from `head` to `tail`, and `head` is one of them.
        let pending = unsafe { self.pending[(self.head % SLOTS) as usize].assume_init() };
        self.head = self.head.wrapping_add(1);
        if pending.used > Use::Get {
            self.count_down_rest(pending.used);
        } else if pending.used > Use::Atomic {
            self.transfers -= 1;
        }
        let size = usize::from(pending.size);
        if size > size_of::<u64>() {
            self.area.end(size);
        }
        pending
    }

    /// Updates the counts for the answer to a slot that is no whole operation.
    #[cold]
    fn count_down_rest(&mut self, used: Use) {
        self.spent -= u32::from(used.is_spent());
        self.held -= u32::from(used == Use::Held);
    }
}

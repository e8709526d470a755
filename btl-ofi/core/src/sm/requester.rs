//! The initiator's side of direct atomics and small transfers: one ring at one peer, and what is
//! outstanding in it.
//!
//! Whom to tell and where results go stays in memory of this process, out of the target's reach. What is
//! read back from the ring (the place at the target, for a transfer that was revoked) only ever names
//! memory of that target. Runs under the lock of the context.
//!
//! An slot may be over for this process before the target answers it: its operation was made by the kernel,
//! or reported as failed. There are two kinds. One that was *revoked* the target only passes over, so it
//! binds nobody: the ring may serve another process, which is told how many there are. One that is *held*
//! the target has begun, or may yet begin: it reads and writes its part of the payload until it answers. That part
//! is not used again before, and the ring serves no other process ([`Requester::give_back`]).

use std::collections::VecDeque;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use plugin_api::Status;

use crate::base::cma::Refused;
use crate::base::params::MAX_CQ_READ;
use crate::op::record::{Finished, Tag};
use crate::peer::endpoint::Endpoint;
use crate::peer::liveness::{ProcessId, State};
use crate::peer::reach::Probe;
use crate::sm::ring::{Answer, Command};
use crate::sm::segment::{Claim, LARGEST, SLOTS};

mod area;
mod autotune;
mod fragments;
mod transfers;

use area::Area;
use autotune::Autotune;
pub(crate) use autotune::Way as GetWay;
use fragments::Queued;
pub(crate) use transfers::Direction;
use transfers::{Backoff, Wait};

/// Parts of the payload start at cache lines.
const LINE: usize = 64;

/// What a slot of the ring is used for. Operations of their own come first, up to [`Use::Get`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Use {
    /// An operation that the target alone can execute.
    Atomic,
    /// One that the kernel can make as well.
    Put,
    Get,
    /// A part of one that waits for it.
    GetFragment,
    /// A part of one that waits in the queue.
    QueuedFragment,
    /// One that is over here, and that the target passes over.
    Revoked,
    /// One that is over here, and that the target has taken or may yet execute.
    Held,
}

impl Use {
    /// Whether only its answer is waited for, by nobody.
    #[inline]
    fn is_spent(self) -> bool {
        matches!(self, Use::Revoked | Use::Held)
    }
}

/// An operation whose answer is outstanding.
#[derive(Clone, Copy)]
struct Pending {
    finished: Finished,
    /// Where what was there before goes, or NULL.
    result: *mut c_void,
    /// Where operands and results lie in the payload, if they do not fit in the slot.
    payload: u32,
    /// Bytes of operands, and of results.
    size: u16,
    used: Use,
}

const _: () = assert!(size_of::<Pending>() == 64 && LARGEST <= u16::MAX as usize);

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

/// The status with which the target refused a command, if it did.
#[inline]
fn refusal(answer: &Answer) -> Option<Status> {
    match Status(answer.status) {
        Status(0) => None,
        // Its word for it is not believed to mean "again".
        s if s.is_ok() || s.is_again() => Some(Status::ERROR),
        s => Some(s),
    }
}

/// What stands with an slot that is no operation.
fn nobodys(endpoint: NonNull<Endpoint>) -> Finished {
    Finished {
        tag: Tag::new(endpoint, 0, 0),
        function: None,
        context: ptr::null_mut(),
        data: ptr::null_mut(),
        local_address: ptr::null_mut(),
        local_handle: ptr::null_mut(),
    }
}

/// Completed operations, gathered under the lock and delivered after it.
pub(crate) struct Done {
    finished: [MaybeUninit<Finished>; MAX_CQ_READ],
    count: usize,
    /// One that failed, after those in `finished`; nothing is gathered after it.
    pub(crate) refused: Option<(Finished, Status)>,
    /// A peer that the kernel no longer reaches, or whose memory is no longer its own.
    pub(crate) doubted: Option<(NonNull<Endpoint>, Refused)>,
}

impl Done {
    #[inline]
    pub(crate) fn new() -> Done {
        Done {
            finished: [const { MaybeUninit::uninit() }; MAX_CQ_READ],
            count: 0,
            refused: None,
            doubted: None,
        }
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.count < MAX_CQ_READ && self.refused.is_none()
    }

    fn push(&mut self, finished: Finished) {
        self.finished[self.count].write(finished);
        self.count += 1;
    }

    pub(crate) fn finished(&self) -> &[Finished] {
        // SAFETY: the first `count` were written by `collect`.
        unsafe { std::slice::from_raw_parts(self.finished.as_ptr().cast(), self.count) }
    }
}

/// Copies operands or results, which nearly always are one word: a call would cost more than that.
///
/// # Safety
/// `from` is readable and `to` writable for `size` bytes, apart from each other.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, size: usize) {
    // SAFETY: as the caller vouches.
    unsafe {
        if size == size_of::<u64>() {
            to.cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned());
        } else {
            ptr::copy_nonoverlapping(from, to, size);
        }
    }
}

/// A ring at one peer.
pub(crate) struct Requester {
    claim: Claim,
    pub(crate) endpoint: NonNull<Endpoint>,
    /// By what the peer's memory is known.
    probe: Option<Probe>,
    /// The oldest position without answer taken, and the next to use.
    head: u32,
    tail: u32,
    area: Area,
    /// Whether it is among the channel's active ones.
    pub(crate) listed: bool,
    /// Transfers in slots or queued, slots in use by what is spent, and by what is held among that.
    transfers: u32,
    spent: u32,
    held: u32,
    /// The target's process, once the peer was released with something [held](Use::Held).
    pub(crate) leaving: Option<ProcessId>,
    /// How it goes with small transfers, with large gets, and the wait for the former.
    small: Backoff,
    large: Backoff,
    autotunes: [Autotune; 3],
    wait: Wait,
    pending: Box<[MaybeUninit<Pending>]>,
    /// Transfers that only the target can make. One of them has slots in use, or there is no room for it.
    queued: VecDeque<Queued>,
}

impl Requester {
    pub(crate) fn new(
        claim: Claim,
        endpoint: NonNull<Endpoint>,
        probe: Option<Probe>,
    ) -> Requester {
        let spent = claim.spent.min(SLOTS);
        let head = claim.position.wrapping_sub(spent);
        let mut pending = Box::new_uninit_slice(SLOTS as usize);
        for before in 0..spent {
            pending[(head.wrapping_add(before) % SLOTS) as usize].write(Pending {
                finished: nobodys(endpoint),
                result: ptr::null_mut(),
                payload: 0,
                size: 0,
                used: Use::Revoked,
            });
        }
        Requester {
            head,
            tail: claim.position,
            claim,
            endpoint,
            probe,
            area: Area::new(),
            listed: false,
            transfers: 0,
            spent,
            held: 0,
            leaving: None,
            small: Backoff::default(),
            large: Backoff::default(),
            autotunes: [Autotune::default(); 3],
            wait: Wait::default(),
            pending,
            queued: VecDeque::new(),
        }
    }

    /// A peer's ring, for [`Way::Ring`](crate::peer::endpoint::Way::Ring) seen under the context's lock; to be used
    /// under it.
    #[inline]
    pub(crate) fn of(peer: &Endpoint) -> *mut Requester {
        ptr::with_exposed_provenance_mut(peer.link() as usize)
    }

    /// Whether no slot is in use.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    fn in_use(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Operations without answer.
    pub(crate) fn outstanding(&self) -> u32 {
        self.in_use() - self.spent + self.queued.len() as u32
    }

    /// Whether the target will execute nothing more.
    pub(crate) fn is_closed(&self) -> bool {
        self.claim.is_closed()
    }

    /// Whether the target of a ring that is [leaving](Self::leaving) will answer nothing more.
    pub(crate) fn has_lost_its_target(&self) -> bool {
        self.is_closed() || self.leaving.map(ProcessId::state) == Some(State::Gone)
    }

    /// Makes room for an operation with `size` bytes of operands. `must` if only the target can execute it:
    /// what the kernel may make as well is not worth more memory, and is OUT_OF_RESOURCE then.
    #[inline]
    pub(crate) fn reserve(&mut self, size: usize, must: bool) -> Result<Room, Status> {
        if self.in_use() >= SLOTS {
            return Err(Status::TEMP_OUT_OF_RESOURCE);
        }
        if size <= size_of::<u64>() {
            return Ok(Room {
                size,
                payload: 0,
                at: ptr::null_mut(),
            });
        }
        self.reserve_payload(size, must)
    }

    fn reserve_payload(&mut self, size: usize, must: bool) -> Result<Room, Status> {
        let (payload, at) = self.area.reserve(&mut self.claim, size, must)?;
        Ok(Room { size, payload, at })
    }

    /// Posts an atomic for which `shm_room` was just [made](Self::reserve), and adds its operands.
    ///
    /// # Safety
    /// `operands` is readable for the room's size, and `result` NULL or writable for as many until the
    /// operation is done.
    #[inline]
    pub(crate) unsafe fn post(
        &mut self,
        command: Command,
        operands: Operands,
        room: Room,
        result: *mut c_void,
        finished: Finished,
    ) {
        // SAFETY: as the caller vouches.
        unsafe { self.post_as(Use::Atomic, command, operands, room, result, finished) };
    }

    #[inline(always)]
    unsafe fn post_as(
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
            Operands::Buffer(buffer) => {
                let to = if at.is_null() {
                    (&raw mut command.value).cast()
                } else {
                    at
                };
                // SAFETY: the caller vouches for the operands; `reserve` found the room, in the
                // command where they fit there.
                unsafe { copy(buffer.cast(), to, size) };
            }
        }
        if !at.is_null() {
            self.area.begin(size);
        }
        self.pending[(self.tail % SLOTS) as usize].write(Pending {
            finished,
            result,
            payload,
            size: size as u16,
            used,
        });
        self.claim
            .ring()
            .slot(self.tail)
            .publish(self.tail, &command);
        self.tail = self.tail.wrapping_add(1);
        self.claim.announce();
    }

    /// Takes answers, in order, as far as there are any and `done` has room, and revokes transfers that have
    /// waited too long for one.
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

    /// Takes answers, likewise. Whether there was one. Asks nothing of the kernel.
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
            if pending.used == Use::Atomic {
                self.wait = Wait::default();
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
                // SAFETY: the caller of `post_as` vouched for the result; the other side holds as much.
                unsafe { copy(from, pending.result.cast(), usize::from(pending.size)) };
            }
            done.push(pending.finished);
        }
        self.area.settle(&self.claim);
        self.head != first
    }

    /// Where the results of an answered operation are: in the answer if they fit there, else in the payload. None if
    /// it failed.
    #[inline]
    fn result(&self, pending: &Pending, answer: &Answer) -> Option<*const u8> {
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

    /// Takes the oldest slot out; there is one. Its part of the payload is free once the next
    /// command is posted, or the area settled.
    #[inline]
    fn take(&mut self) -> Pending {
        // SAFETY: positions from `head` to `tail` were written by `post_as` or `new`.
        let pending = unsafe { self.pending[(self.head % SLOTS) as usize].assume_init() };
        self.head = self.head.wrapping_add(1);
        if pending.used > Use::Get {
            self.count_down_rest(pending.used);
        } else if pending.used != Use::Atomic {
            self.transfers -= 1;
        }
        let size = usize::from(pending.size);
        if size > size_of::<u64>() {
            self.area.end(size);
        }
        pending
    }

    /// A slot that is no operation of its own was answered.
    #[cold]
    fn count_down_rest(&mut self, used: Use) {
        self.spent -= u32::from(used.is_spent());
        self.held -= u32::from(used == Use::Held);
    }

    /// The oldest operation without answer, given up. A transfer that the target has not begun is not made any more,
    /// should it come back.
    pub(crate) fn abandon(&mut self) -> Option<Finished> {
        let mut position = self.head;
        while position != self.tail {
            let Pending { used, finished, .. } = *self.pending(position);
            self.give_up(position);
            // The transfer of a fragment is in the queue.
            if !used.is_spent() && used != Use::QueuedFragment {
                return Some(finished);
            }
            position = position.wrapping_add(1);
        }
        self.abandon_queued()
    }

    /// What stands at a position that is in use.
    fn pending(&mut self, position: u32) -> &mut Pending {
        // SAFETY: positions from `head` to `tail` were written by `post_as` or `new`.
        unsafe { self.pending[(position % SLOTS) as usize].assume_init_mut() }
    }

    /// Ends what is at a position here, without its answer. It keeps its part of the payload until the target
    /// answers.
    fn give_up(&mut self, position: u32) {
        let used = self.pending(position).used;
        let revoked = match used {
            Use::Revoked | Use::Held => return,
            // The target executes it whenever it finds it.
            Use::Atomic => false,
            Use::Put | Use::Get | Use::GetFragment | Use::QueuedFragment => {
                self.claim.ring().slot(position).revoke(position)
            }
        };
        if matches!(used, Use::Put | Use::Get) {
            self.transfers -= 1;
        }
        self.spent += 1;
        self.held += u32::from(!revoked);
        self.pending(position).used = if revoked { Use::Revoked } else { Use::Held };
    }

    /// Takes the answers to what is spent, in a ring with nothing else in it. Whether the ring may serve another
    /// process after that.
    pub(crate) fn may_be_given_back(&mut self) -> bool {
        if self.outstanding() == 0 {
            self.take_answers(&mut Done::new());
        }
        self.outstanding() == 0 && self.held == 0
    }

    /// Lets another process have the ring if it [may](Self::may_be_given_back); else it stays taken, for everyone
    /// and for ever, and only its block is found again once the target has answered.
    pub(crate) fn give_back(mut self) {
        if self.may_be_given_back() {
            // What is spent was revoked, so the target touches its part of the payload no more.
            self.area.release(&self.claim);
            let (next, spent) = (self.tail, self.spent);
            self.claim.give_back(next, spent);
        } else {
            self.claim.desert();
        }
    }
}

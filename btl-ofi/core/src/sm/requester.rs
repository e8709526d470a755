//! The requester: one ring of one peer, for direct atomics and ring puts and gets, and the commands outstanding in it.
//!
//! Callbacks and result addresses stay in this process's memory, which the responder cannot write. The requester
//! reads back only one address from the ring, the remote address of a revoked transfer; it is used only to access the
//! responder's memory. Everything here runs under the lock of the context.
//!
//! The operation of a slot may end before the responder answers: the kernel made the transfer, or the operation was
//! reported as failed. Such a slot is *spent*. There are two kinds:
//!
//! - *Revoked*: the responder only skips the command. The ring may go to another process, which learns the number
//!   of these slots.
//! - *Held*: the responder has begun the command or may still begin it, and accesses its part of the payload until it
//!   answers. The part is not reused before the answer, and the ring goes to no other process
//!   ([`Requester::give_back`]).

use std::collections::VecDeque;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use crate::op::completion::Finished;
use crate::op::tag::Tag;
use crate::peer::counters::CountersRef;
use crate::peer::endpoint::Endpoint;
use crate::peer::liveness::{ProcessId, State};
use crate::peer::reach::Probe;
use crate::sm::segment::{Claim, LARGEST, SLOTS};

mod area;
mod autotune;
mod commands;
mod done;
mod fragments;
mod transfers;

use area::Area;
pub(crate) use autotune::Way as GetWay;
pub(crate) use done::Done;
use fragments::Queued;
use transfers::Tuning;

/// Alignment of the parts of the payload: a cache line.
const LINE: usize = 64;

/// The use of a slot. Uses up to [`Use::Get`] are whole operations. Among these, only the responder can execute uses up to
/// [`Use::Atomic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Use {
    /// An apply. The results of an apply have another size than its operands ([`Requester::results`]).
    Apply,
    /// An atomic.
    Atomic,
    /// A transfer that CMA can make, too.
    Put,
    Get,
    /// A fragment of a get whose caller waits for it (`get_fragments`).
    GetFragment,
    /// A fragment of a queued transfer.
    QueuedFragment,
    /// The operation has ended here, and the responder skips the command.
    Revoked,
    /// The operation has ended here, but the responder has taken the command or may still execute
    /// it.
    Held,
}

impl Use {
    /// Whether the operation has ended, so that the slot only waits for its answer.
    #[inline]
    fn is_spent(self) -> bool {
        matches!(self, Use::Revoked | Use::Held)
    }
}

/// An operation whose answer is outstanding.
#[derive(Clone, Copy)]
struct Pending {
    finished: Finished,
    /// Destination of the old value or the data read, or NULL.
    result: *mut c_void,
    /// Location of operands and results in the payload if they do not fit in the slot.
    payload: u32,
    /// Size in bytes of the operands and of the results. An apply has its size of results
    /// elsewhere.
    size: u16,
    used: Use,
}

/// Bytes that the origin keeps for each command of a ring.
pub(crate) const RECORD: usize = size_of::<Pending>();

const _: () = assert!(RECORD == 64 && LARGEST <= u16::MAX as usize);

/// Record of a slot that holds no operation.
fn no_operation(endpoint: NonNull<Endpoint>) -> Finished {
    Finished {
        tag: Tag::new(endpoint, 0, 0),
        function: None,
        context: ptr::null_mut(),
        data: ptr::null_mut(),
        local_address: ptr::null_mut(),
        local_handle: ptr::null_mut(),
    }
}

/// A ring of one peer.
pub(crate) struct Requester {
    claim: Claim,
    pub(crate) endpoint: NonNull<Endpoint>,
    /// Identifies the peer's memory.
    probe: Option<Probe>,
    counters: CountersRef,
    /// The oldest position whose answer was not taken, and the next position to use.
    head: u32,
    tail: u32,
    area: Area,
    /// Whether the requester is in the channel's list of active rings.
    pub(crate) listed: bool,
    /// Number of transfers in slots or queued; number of spent slots; number of held slots among the spent
    /// ones.
    transfers: u32,
    spent: u32,
    held: u32,
    /// The responder's process, if the peer was released while a slot was [held](Use::Held).
    pub(crate) leaving: Option<ProcessId>,
    tuning: Tuning,
    pending: Box<[MaybeUninit<Pending>; SLOTS as usize]>,
    /// Sizes of the results of applies in slots. The sizes are stored separately, so that a record has 64 bytes.
    results: [u16; SLOTS as usize],
    /// Transfers that only the responder can make. At least one of these transfers has slots in use, unless there
    /// is room for none.
    queued: VecDeque<Queued>,
}

impl Requester {
    pub(crate) fn new(
        claim: Claim,
        endpoint: NonNull<Endpoint>,
        probe: Option<Probe>,
        counters: CountersRef,
    ) -> Requester {
        let spent = claim.spent.min(SLOTS);
        let head = claim.position.wrapping_sub(spent);
        let mut pending = Box::new([const { MaybeUninit::uninit() }; SLOTS as usize]);
        for before in 0..spent {
            pending[(head.wrapping_add(before) % SLOTS) as usize].write(Pending {
                finished: no_operation(endpoint),
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
            counters,
            area: Area::new(),
            listed: false,
            transfers: 0,
            spent,
            held: 0,
            leaving: None,
            tuning: Tuning::default(),
            pending,
            results: [0; SLOTS as usize],
            queued: VecDeque::new(),
        }
    }

    /// The ring of a peer.
    ///
    /// # Safety
    /// The peer's route is [`Atomics::Ring`](crate::peer::route::Atomics::Ring). The caller reads the route and uses the
    /// ring under the same hold of the context's lock.
    #[inline]
    pub(crate) unsafe fn of(peer: &Endpoint) -> *mut Requester {
        // SAFETY: the caller read that the peer has a ring, so it is local.
        ptr::with_exposed_provenance_mut(unsafe { peer.link_of_local() } as usize)
    }

    /// Whether no slot is in use.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    fn in_use(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Number of operations without an answer.
    pub(crate) fn outstanding(&self) -> u32 {
        self.in_use() - self.spent + self.queued.len() as u32
    }

    /// Whether the responder has stopped executing commands.
    pub(crate) fn is_closed(&self) -> bool {
        self.claim.is_closed()
    }

    /// Whether there is an answer that was not taken yet. After [`is_closed`](Self::is_closed), no more
    /// answers arrive.
    pub(crate) fn has_answer(&self) -> bool {
        let first = self.claim.ring().slot(self.head);
        !self.is_empty() && first.answered(self.head).is_some()
    }

    /// Whether the responder of a [leaving](Self::leaving) ring has stopped answering.
    pub(crate) fn has_lost_its_target(&self) -> bool {
        self.is_closed() || self.leaving.map(ProcessId::state) == Some(State::Gone)
    }

    /// Ends the oldest operation without its answer. A transfer that the responder has not begun is revoked, so
    /// that a peer that resumes later does not make it.
    pub(crate) fn abandon(&mut self) -> Option<Finished> {
        let mut position = self.head;
        // All fragments are abandoned first. An answer counts for the transfer at the front of the queue, whose own
        // fragments may be abandoned.
        while position != self.tail {
            if self.pending(position).used == Use::QueuedFragment {
                self.abandon_slot(position);
            }
            position = position.wrapping_add(1);
        }
        position = self.head;
        while position != self.tail {
            let Pending { used, finished, .. } = *self.pending(position);
            self.abandon_slot(position);
            // The operation of a queued fragment is in the queue, not in the slot.
            if !used.is_spent() && used != Use::QueuedFragment {
                return Some(finished);
            }
            position = position.wrapping_add(1);
        }
        self.abandon_queued()
    }

    /// The record of a position in use.
    fn pending(&mut self, position: u32) -> &mut Pending {
        // SAFETY: `post_as` or `new` initialised all positions from `head` to `tail`; callers pass one of these
        // positions.
        unsafe { self.pending[(position % SLOTS) as usize].assume_init_mut() }
    }

    /// Ends the operation of a position without its answer. The slot keeps its part of the payload until the
    /// responder answers.
    fn abandon_slot(&mut self, position: u32) {
        let used = self.pending(position).used;
        let revoked = match used {
            Use::Revoked | Use::Held => return,
            // The responder executes an atomic whenever it finds the command.
            Use::Apply | Use::Atomic => false,
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

    /// Takes the answers to spent slots if no operation of the ring is outstanding. Returns whether another process may
    /// have the ring.
    pub(crate) fn may_be_given_back(&mut self) -> bool {
        if self.outstanding() == 0 {
            self.take_answers(&mut Done::new());
        }
        self.outstanding() == 0 && self.held == 0
    }

    /// Frees the ring for another process if this [is possible](Self::may_be_given_back). Otherwise the ring stays taken
    /// until it is reclaimed. The ring's block becomes free after the responder has answered.
    pub(crate) fn give_back(mut self) {
        if self.may_be_given_back() {
            // All spent slots are revoked, so the responder no longer accesses the payload.
            self.area.release(&self.claim);
            let (next, spent) = (self.tail, self.spent);
            self.claim.give_back(next, spent);
        } else {
            self.claim.desert();
        }
    }
}

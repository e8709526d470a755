//! The initiator's side of one target's mailbox: takes a lane when there is something to ask, keeps up
//! to [`SLOTS`] requests under way in it, and gives it back when nothing is left.
//!
//! Here is the lane's life; `jobs` has what is asked through it.

mod jobs;
mod replies;

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::AtomicI32;

use plugin_api::Status;

use self::jobs::Job;
use super::staged::Ops;
use super::wire::{Stand, Start, best_fragment, stand};
use crate::engine::transport::Transport;
use crate::hmem::bounce::Pool;
use crate::hmem::mailbox::{Holder, LOCKED, Plan, REPLY, REQUEST, SLOTS, Words};
use crate::mem::handle::Handle;
use crate::peer::endpoint::Endpoint;

/// Requests after which a lane is given back though more is to be asked: others may wait for one. They
/// carry 16 MiB of data, beside which giving and taking does not show.
const TURN: usize = 64;

/// What the provider reads and writes for a channel: never moved, and freed after the provider.
struct Buffers {
    header: [u64; 8],
    /// What was in the owner word, or what goes there.
    word: u64,
    replies: [u64; SLOTS * REPLY],
    requests: [Words; SLOTS],
    /// Of the header and the owner word.
    flag: AtomicI32,
    /// Of the replies.
    polling: AtomicI32,
    /// Of the slots.
    slots: [AtomicI32; SLOTS],
}

/// What a channel is at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The target's plan is not known.
    Unknown,
    Reading,
    /// No lane is taken.
    Free,
    Taking,
    Taken,
    Returning,
    /// Nothing reaches the target any more.
    Dead(Status),
}

/// One target's mailbox.
pub(super) struct Channel {
    pub(super) endpoint: NonNull<Endpoint>,
    /// The mailbox, as host memory.
    pub(super) mailbox: Handle,
    buffers: NonNull<Buffers>,
    plan: Plan,
    /// Bytes of a fragment: what both sides can take.
    fragment: usize,
    state: State,
    lane: usize,
    /// This process, as the owner is told.
    holder: Holder,
    /// The owner word as it is believed to be, then the number of the last request.
    number: u64,
    /// Requests that may yet be made before others get a chance to take the lane.
    turn: usize,
    /// Operations of which fragments are to be begun.
    waiting: VecDeque<usize>,
    jobs: [Option<Job>; SLOTS],
    polling: bool,
    /// Whether it counts among what there is to drive.
    pub(super) counted: bool,
}

// SAFETY: the buffers belong to the channel; the endpoint outlives it.
unsafe impl Send for Channel {}

impl Channel {
    pub(super) fn new(endpoint: NonNull<Endpoint>, mailbox: Handle, holder: Holder) -> Channel {
        let buffers = Box::new(Buffers {
            header: [0; 8],
            word: 0,
            replies: [0; SLOTS * REPLY],
            requests: [[0; REQUEST]; SLOTS],
            flag: AtomicI32::new(0),
            polling: AtomicI32::new(0),
            slots: Default::default(),
        });
        Channel {
            endpoint,
            mailbox,
            // SAFETY: a box's pointer is not null.
            buffers: unsafe { NonNull::new_unchecked(Box::into_raw(buffers)) },
            plan: Plan::new(1, 64),
            fragment: 64,
            state: State::Unknown,
            // Initiators start their search for a lane at different ones.
            lane: holder.process.pid as usize,
            holder,
            number: 0,
            turn: 0,
            waiting: VecDeque::new(),
            jobs: Default::default(),
            polling: false,
            counted: false,
        }
    }

    pub(super) fn push(&mut self, op: usize) {
        self.waiting.push_back(op);
    }

    /// Whether it must be driven.
    pub(super) fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
            || matches!(
                self.state,
                State::Reading | State::Taking | State::Taken | State::Returning
            )
    }

    fn flag(&self) -> &AtomicI32 {
        // SAFETY: the buffers live as long as `self`; flags are only touched as atomics.
        unsafe { &(*self.buffers.as_ptr()).flag }
    }

    fn slot_flag(&self, slot: usize) -> &AtomicI32 {
        // SAFETY: as above.
        unsafe { &(*self.buffers.as_ptr()).slots[slot] }
    }

    fn at(&self, offset: usize) -> u64 {
        self.mailbox.base().wrapping_add(offset as u64)
    }

    /// Takes everything as far as it goes now; returns the steps made. Operations that are over are
    /// added to `over`.
    pub(super) fn advance(
        &mut self,
        t: &Transport,
        ops: &mut Ops,
        pool: &mut Pool,
        over: &mut Vec<usize>,
    ) -> usize {
        // SAFETY: endpoints live as long as the transport.
        if let Some(status) = unsafe { self.endpoint.as_ref() }.failure()
            && !matches!(self.state, State::Dead(_))
        {
            self.state = State::Dead(status);
        }
        let mut steps = 0;
        loop {
            let step = match self.state {
                State::Unknown => self.read_header(t),
                State::Reading => self.learn(t),
                State::Free => self.take(t),
                State::Taking => self.taken(),
                State::Taken => self.work(t, ops, pool, over),
                State::Returning => match stand(self.flag()) {
                    Stand::Pending => 0,
                    Stand::Done => {
                        self.to(State::Free);
                        // Not again at once: another may wait for it.
                        return steps + 1;
                    }
                    Stand::Failed(status) => self.to(State::Dead(status)),
                },
                State::Dead(status) => return steps + self.give_up(status, ops, pool, over),
            };
            if step == 0 {
                return steps;
            }
            steps += step;
        }
    }

    fn to(&mut self, state: State) -> usize {
        self.state = state;
        1
    }

    /// Goes on with a transfer of the header or the owner word.
    fn started(&mut self, start: Start, state: State) -> usize {
        match start {
            Start::Started => self.to(state),
            Start::Later => 0,
            Start::Failed(status) => self.to(State::Dead(status)),
        }
    }

    fn read_header(&mut self, t: &Transport) -> usize {
        if self.waiting.is_empty() {
            return 0;
        }
        // SAFETY: the buffers stay; the header is 64 bytes at the start of the mailbox.
        let start = unsafe {
            let into = (&raw mut (*self.buffers.as_ptr()).header).cast();
            t.wire_get(
                self.endpoint,
                into,
                self.mailbox.base(),
                &self.mailbox,
                64,
                self.flag(),
            )
        };
        self.started(start, State::Reading)
    }

    fn learn(&mut self, t: &Transport) -> usize {
        match stand(self.flag()) {
            Stand::Pending => return 0,
            Stand::Failed(status) => return self.to(State::Dead(status)),
            Stand::Done => {}
        }
        // SAFETY: the get is over, so nobody writes it.
        let header = unsafe { (*self.buffers.as_ptr()).header };
        let limit = t.put_limit.min(t.get_limit);
        match Plan::read(&header) {
            Some(plan) if limit >= REQUEST * 8 && plan.bytes() as u64 <= self.mailbox.length() => {
                // SAFETY: endpoints live as long as the transport.
                let best = best_fragment(unsafe { self.endpoint.as_ref() });
                self.fragment = plan.fragment.min(best).min(limit / 64 * 64);
                self.lane %= plan.lanes;
                self.plan = plan;
                self.to(State::Free)
            }
            _ => {
                tracing::warn!(
                    "the mailbox of a peer for device memory cannot be used: header {header:x?}, \
                     transfers of at most {limit} bytes"
                );
                self.to(State::Dead(Status::NOT_SUPPORTED))
            }
        }
    }

    fn take(&mut self, t: &Transport) -> usize {
        if self.waiting.is_empty() {
            return 0;
        }
        let at = self.at(self.plan.owner(self.lane));
        // SAFETY: the buffers stay; the owner word is one of the mailbox.
        let start = unsafe {
            t.wire_cswap(
                self.endpoint,
                &raw mut (*self.buffers.as_ptr()).word,
                at,
                &self.mailbox,
                self.number,
                self.holder.taken(self.number),
                self.flag(),
            )
        };
        self.started(start, State::Taking)
    }

    fn taken(&mut self) -> usize {
        match stand(self.flag()) {
            Stand::Pending => return 0,
            Stand::Failed(status) => return self.to(State::Dead(status)),
            Stand::Done => {}
        }
        // SAFETY: the atomic is over.
        let found = unsafe { (*self.buffers.as_ptr()).word };
        if found == self.number {
            self.turn = TURN;
            return self.to(State::Taken);
        }
        if found & LOCKED != 0 {
            // Another initiator has it; the next lane may be free.
            self.lane = (self.lane + 1) % self.plan.lanes;
            self.number = 0;
            // Numbers are a lane's own: the replies of this one would answer requests in the next.
            // SAFETY: no lane is taken, so no get of the replies is under way.
            unsafe { (*self.buffers.as_ptr()).replies = [0; SLOTS * REPLY] };
            self.state = State::Free;
            // Not at once: its owner may need this processor.
            return 0;
        }
        self.number = found;
        self.to(State::Free)
    }

    /// Fails everything.
    fn give_up(
        &mut self,
        status: Status,
        ops: &mut Ops,
        pool: &mut Pool,
        over: &mut Vec<usize>,
    ) -> usize {
        let mut steps = 0;
        for slot in 0..SLOTS {
            let Some(mut job) = self.jobs[slot].take() else {
                continue;
            };
            if let Some(bounce) = job.bounce.take() {
                // The provider may still use it, if the peer was given up.
                pool.lose(bounce);
            }
            if let Some(op) = ops.at(job.op) {
                op.live -= 1;
                op.fail(status, || {
                    String::from("its peer's mailbox is out of reach")
                });
                if op.is_over() {
                    over.push(job.op);
                }
            }
            steps += 1;
        }
        while let Some(index) = self.waiting.pop_front() {
            if let Some(op) = ops.at(index) {
                op.fail(status, || {
                    String::from("its peer's mailbox is out of reach")
                });
                if op.is_over() {
                    over.push(index);
                }
            }
            steps += 1;
        }
        steps
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw, and dropped once, after the provider is closed (see `state`).
        drop(unsafe { Box::from_raw(self.buffers.as_ptr()) });
    }
}

//! The origin's side of one target's mailbox. The origin's side takes a lane when there are requests, keeps up to [`SLOTS`]
//! requests in progress in it, and returns the lane when no requests are left.
//!
//! This file has the states of the lane; `waiting` has operations and fragments without a request, `jobs` and `replies`
//! have the requests, and `failed` has requests whose data cannot be moved.

mod failed;
mod jobs;
mod replies;
mod waiting;

use std::ptr::NonNull;
use std::sync::atomic::AtomicI32;

use plugin_api::{OpFlags, Status};

use self::jobs::Job;
use self::waiting::Waiting;
use super::staged::{Staged, Work};
use super::wire::{Stand, Start, best_fragment, plain, stand};
use crate::engine::transport::Transport;
use crate::hmem::mailbox::{Holder, LOCKED, Plan, REPLY, REQUEST, SLOTS, Words};
use crate::mem::handle::Handle;
use crate::op::request::Op;
use crate::peer::endpoint::Endpoint;

/// Requests after which a lane is returned even if more requests wait, because other origins may wait for a lane. These
/// requests carry 8 or 16 MiB of data, so the cost of taking a lane is negligible.
const TURN: usize = 64;

/// Memory of a channel that the provider reads and writes. The memory never moves, and is freed after the provider.
struct Buffers {
    header: [u64; 8],
    /// Value read from, or to be written to, the owner word.
    word: u64,
    replies: [u64; SLOTS * REPLY],
    requests: [Words; SLOTS],
    /// Completion flag of the header and the owner word.
    flag: AtomicI32,
    /// Completion flag of the replies.
    polling: AtomicI32,
    /// Completion flags of the slots.
    slots: [AtomicI32; SLOTS],
}

/// State of a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The header of the target's mailbox has not been read yet.
    Unknown,
    Reading,
    /// No lane is taken.
    Free,
    Taking,
    Taken,
    Returning,
    /// The target is unreachable, or its mailbox is unusable.
    Dead(Status),
}

/// One target's mailbox.
pub(super) struct Channel {
    pub(super) endpoint: NonNull<Endpoint>,
    /// The mailbox, as a handle of host memory.
    pub(super) mailbox: Handle,
    buffers: NonNull<Buffers>,
    plan: Plan,
    /// Fragment size in bytes that both sides support.
    fragment: usize,
    state: State,
    lane: usize,
    /// Identifies this process to the owner of the mailbox.
    holder: Holder,
    /// While a lane is taken, the number of the last request; otherwise the owner word that this
    /// process expects.
    number: u64,
    /// Requests left before the lane is returned for others.
    turn: usize,
    waiting: Waiting,
    jobs: [Option<Job>; SLOTS],
    /// Jobs whose results are copied to the device. These jobs need neither a slot nor the lane.
    writing: Vec<Job>,
    polling: bool,
    /// Whether this channel is included in `Hmem::awake`.
    pub(super) counted: bool,
}

// SAFETY: the channel owns the buffers; the endpoint outlives the channel.
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
            // SAFETY: the pointer of a box is not null.
            buffers: unsafe { NonNull::new_unchecked(Box::into_raw(buffers)) },
            plan: Plan::new(1, 0),
            fragment: REQUEST * 8,
            state: State::Unknown,
            // Origins start their search for a lane at different lanes.
            lane: holder.process.pid as usize,
            holder,
            number: 0,
            turn: 0,
            waiting: Waiting::default(),
            jobs: Default::default(),
            writing: Vec::new(),
            polling: false,
            counted: false,
        }
    }

    pub(super) fn push(&mut self, index: usize, op: &Staged) {
        self.waiting.push(index, op);
    }

    /// Whether operations are left.
    pub(super) fn has_operations(&self) -> bool {
        let in_slots = self.jobs.iter().any(Option::is_some);
        in_slots || !self.waiting.is_empty() || !self.writing.is_empty()
    }

    /// Whether the provider uses none of the channel's memory, and no lane is taken.
    pub(super) fn is_unused(&self) -> bool {
        matches!(self.state, State::Unknown | State::Free) && !self.has_operations()
    }

    /// Whether progress must drive the channel.
    pub(super) fn is_busy(&self) -> bool {
        self.has_operations()
            || matches!(
                self.state,
                State::Reading | State::Taking | State::Taken | State::Returning
            )
    }

    fn flag(&self) -> &AtomicI32 {
        // SAFETY: the buffers live as long as `self`; flags are accessed only as atomics.
        unsafe { &(*self.buffers.as_ptr()).flag }
    }

    fn slot_flag(&self, slot: usize) -> &AtomicI32 {
        // SAFETY: the buffers live as long as `self`; flags are accessed only as atomics.
        unsafe { &(*self.buffers.as_ptr()).slots[slot] }
    }

    fn at(&self, offset: usize) -> u64 {
        self.mailbox.base().wrapping_add(offset as u64)
    }

    /// Advances the channel as far as possible now; returns the number of steps.
    pub(super) fn advance(&mut self, t: &Transport, work: &mut Work) -> usize {
        // SAFETY: endpoints live as long as operations to them.
        if let Some(status) = unsafe { self.endpoint.as_ref() }.failure()
            && !matches!(self.state, State::Dead(_))
        {
            self.state = State::Dead(status);
        }
        let mut steps = self.end_writes(work);
        steps += self.waiting.look(work);
        loop {
            let step = match self.state {
                State::Unknown => self.read_header(t),
                State::Reading => self.learn(t),
                State::Free if self.waiting.wants_slot(&mut work.ops, self.fragment) => {
                    self.take(t)
                }
                State::Free => self.begin(t, work),
                State::Taking => self.taken(),
                State::Taken => self.work(t, work),
                State::Returning => match stand(self.flag()) {
                    Stand::Pending => 0,
                    Stand::Done => {
                        self.to(State::Free);
                        // The lane is not taken again immediately, because another origin may wait
                        // for it.
                        return steps + 1;
                    }
                    Stand::Failed(status) => self.to(State::Dead(status)),
                },
                State::Dead(status) => return steps + self.fail_all(status, work),
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

    /// Handles the start of a transfer of the header or the owner word.
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
        // SAFETY: the buffers live until the provider is closed; the header is the first 64 bytes of the
        // mailbox.
        let start = unsafe {
            let into = plain((&raw mut (*self.buffers.as_ptr()).header).cast());
            let op = Op::get(&self.mailbox, self.at(0), into, 64);
            t.wire(self.endpoint, op, self.flag())
        };
        self.started(start, State::Reading)
    }

    fn learn(&mut self, t: &Transport) -> usize {
        match stand(self.flag()) {
            Stand::Pending => return 0,
            Stand::Failed(status) => return self.to(State::Dead(status)),
            Stand::Done => {}
        }
        // SAFETY: the get is complete, so the provider no longer writes the header.
        let header = unsafe { (*self.buffers.as_ptr()).header };
        let limit = t.setup.put_limit.min(t.setup.get_limit);
        match Plan::read(&header) {
            Some(plan) if limit >= REQUEST * 8 && plan.bytes() as u64 <= self.mailbox.length() => {
                // SAFETY: endpoints live as long as operations to them.
                let best = best_fragment(unsafe { self.endpoint.as_ref() });
                self.fragment = plan.fragment.min(best).min(limit / 64 * 64);
                self.lane %= plan.lanes;
                self.plan = plan;
                self.to(State::Free)
            }
            _ => {
                tracing::warn!(
                    "a peer's mailbox for device memory cannot be used: header {header:x?}, \
                     transfers of at most {limit} bytes"
                );
                self.to(State::Dead(Status::NOT_SUPPORTED))
            }
        }
    }

    fn take(&mut self, t: &Transport) -> usize {
        let at = self.at(self.plan.owner(self.lane));
        // SAFETY: the buffers live until the provider is closed; the owner word lies in the mailbox.
        let start = unsafe {
            let old = plain((&raw mut (*self.buffers.as_ptr()).word).cast());
            let values = (self.number, self.holder.taken(self.number));
            let op = Op::swap_word(OpFlags::empty(), (&self.mailbox, at), values, old);
            t.wire(self.endpoint, op, self.flag())
        };
        self.started(start, State::Taking)
    }

    fn taken(&mut self) -> usize {
        match stand(self.flag()) {
            Stand::Pending => return 0,
            Stand::Failed(status) => return self.to(State::Dead(status)),
            Stand::Done => {}
        }
        // The peer answers, even if it has no free lane. SAFETY: endpoints live as long as
        // operations to them.
        unsafe { self.endpoint.as_ref() }.part_completed();
        // SAFETY: the atomic is complete, so the provider no longer writes the word.
        let found = unsafe { (*self.buffers.as_ptr()).word };
        if found == self.number {
            self.turn = TURN;
            return self.to(State::Taken);
        }
        if found & LOCKED != 0 {
            // Another origin holds this lane; the next one may be free.
            self.lane = (self.lane + 1) % self.plan.lanes;
            self.number = 0;
            // Request numbers are per lane, so replies of this lane could match requests of the next
            // lane. SAFETY: no lane is taken, so no get of the replies is in progress.
            unsafe { (*self.buffers.as_ptr()).replies = [0; SLOTS * REPLY] };
            self.state = State::Free;
            // The next lane is not tried immediately, because the lane's holder may need this processor.
            return 0;
        }
        self.number = found;
        self.to(State::Free)
    }

    /// Fails every operation of the channel. An operation with a transfer in progress ends together with the transfer,
    /// because the provider uses the buffers until then.
    fn fail_all(&mut self, status: Status, work: &mut Work) -> usize {
        let mut steps = 0;
        let fail = |op: &mut Staged| {
            op.fail(status, || {
                String::from("the peer's mailbox cannot be reached")
            });
        };
        // SAFETY: endpoints live as long as operations to them.
        let peer_failed = unsafe { self.endpoint.as_ref() }.failure().is_some();
        for slot in 0..SLOTS {
            let Some(mut job) = self.jobs[slot].take() else {
                continue;
            };
            let in_progress =
                job.stage.is_posted() && stand(self.slot_flag(slot)) == Stand::Pending;
            if let Some(op) = work.ops.at(job.op) {
                fail(op);
                if in_progress {
                    self.jobs[slot] = Some(job);
                    continue;
                }
                // The failed peer's transfer is reported while the provider may still use the buffer.
                if let Some(bounce) = job.bounce.take_if(|_| peer_failed) {
                    work.pool.abandon(bounce);
                }
                work.end_fragment(job.op, job.bounce);
            }
            steps += 1;
        }
        self.waiting.fail(&mut work.ops, fail);
        steps + self.waiting.look(work)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: `new` made the pointer with Box::into_raw; it is dropped once, after the provider is closed
        // (`Transport::close`).
        drop(unsafe { Box::from_raw(self.buffers.as_ptr()) });
    }
}

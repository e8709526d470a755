//! The initiator's side of one target's mailbox: takes a lane when there is something to ask, keeps up
//! to [`SLOTS`] requests under way in it, and gives it back when nothing is left.
//!
//! A piece of a put is copied out of the device, sent to its slot's data, and asked for; a piece of a
//! get is asked for, fetched from its slot's data, and copied. While one piece is on the wire another
//! is copied here and a third there.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::AtomicI32;

use plugin_api::{AtomicOp, Status};

use super::bounce::{Bounce, Pool};
use super::mailbox::{
    HEAD, INLINE, LOCKED, Plan, REPLY, REQUEST, Request, SLOTS, Task, Words, open_reply,
};
use super::staged::{Action, Op, Ops};
use super::wire::{Stand, Start, stand};
use crate::address::Handle;
use crate::endpoint::Endpoint;
use crate::transport::Transport;

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

/// What a request is at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its data is to be sent, or is on its way.
    Data { posted: bool },
    /// The request itself.
    Request { posted: bool },
    /// The target works on it.
    Reply,
    /// Its result is to be fetched, or is on its way.
    Fetch { posted: bool },
}

/// A piece of an operation in a slot.
struct Job {
    op: usize,
    offset: usize,
    len: usize,
    number: u64,
    bytes: usize,
    stage: Stage,
    bounce: Option<Bounce>,
}

/// One target's mailbox.
pub(super) struct Channel {
    pub(super) endpoint: NonNull<Endpoint>,
    /// The mailbox, as host memory.
    pub(super) mailbox: Handle,
    buffers: NonNull<Buffers>,
    plan: Plan,
    /// Bytes of a piece: what both sides can take.
    piece: usize,
    state: State,
    lane: usize,
    /// The owner word as it is believed to be, then the number of the last request.
    number: u64,
    /// Operations of which pieces are to be begun.
    waiting: VecDeque<usize>,
    jobs: [Option<Job>; SLOTS],
    polling: bool,
    /// Whether it counts among what there is to drive.
    pub(super) counted: bool,
}

// SAFETY: the buffers belong to the channel; the endpoint outlives it.
unsafe impl Send for Channel {}

impl Channel {
    pub(super) fn new(endpoint: NonNull<Endpoint>, mailbox: Handle, lane: usize) -> Channel {
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
            piece: 64,
            state: State::Unknown,
            lane,
            number: 0,
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
                    Stand::Done => self.to(State::Free),
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
                self.piece = plan.piece.min(limit / 64 * 64);
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
                self.number | LOCKED,
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
            return self.to(State::Taken);
        }
        if found & LOCKED != 0 {
            // Another initiator has it; the next lane may be free.
            self.lane = (self.lane + 1) % self.plan.lanes;
            self.number = 0;
            self.state = State::Free;
            // Not at once: its owner may need this processor.
            return 0;
        }
        self.number = found;
        self.to(State::Free)
    }

    /// Drives the jobs of a taken lane.
    fn work(
        &mut self,
        t: &Transport,
        ops: &mut Ops,
        pool: &mut Pool,
        over: &mut Vec<usize>,
    ) -> usize {
        let mut steps = self.look(t);
        for slot in 0..SLOTS {
            let Some(mut job) = self.jobs[slot].take() else {
                continue;
            };
            let Some(op) = ops.at(job.op) else { continue };
            match self.step(t, op, &mut job, slot) {
                Ok(true) => {
                    if let Some(bounce) = job.bounce.take() {
                        pool.give_back(bounce);
                    }
                    op.live -= 1;
                    steps += 1;
                    if op.is_over() {
                        over.push(job.op);
                    }
                }
                Ok(false) => self.jobs[slot] = Some(job),
                Err(status) => {
                    self.jobs[slot] = Some(job);
                    return self.to(State::Dead(status));
                }
            }
        }
        steps += self.begin(t, ops, pool, over);
        if self.waiting.is_empty() && !self.polling && self.jobs.iter().all(Option::is_none) {
            let at = self.at(self.plan.owner(self.lane));
            // SAFETY: the buffers stay; the owner word is one of the mailbox, and this initiator's.
            let start = unsafe {
                let word = &raw mut (*self.buffers.as_ptr()).word;
                word.write(self.number);
                t.wire_put(
                    self.endpoint,
                    word.cast(),
                    at,
                    &self.mailbox,
                    8,
                    self.flag(),
                )
            };
            steps += self.started(start, State::Returning);
        }
        steps
    }

    /// Begins pieces while slots are free.
    fn begin(
        &mut self,
        t: &Transport,
        ops: &mut Ops,
        pool: &mut Pool,
        over: &mut Vec<usize>,
    ) -> usize {
        let mut steps = 0;
        while let Some(&index) = self.waiting.front() {
            let Some(op) = ops.at(index) else {
                self.waiting.pop_front();
                continue;
            };
            if op.next >= op.size {
                self.waiting.pop_front();
                if op.is_over() {
                    over.push(index);
                }
                continue;
            }
            let slot = (self.number + 1) as usize % SLOTS;
            if self.jobs[slot].is_some() {
                break;
            }
            let Some(mut job) = self.prepare(op, index, slot, pool) else {
                // A copy failed, after which the operation has no further piece; or no buffer is free.
                if op.next >= op.size {
                    continue;
                }
                break;
            };
            self.number += 1;
            op.next += job.len;
            op.live += 1;
            steps += 1;
            match self.step(t, op, &mut job, slot) {
                Err(status) => {
                    self.jobs[slot] = Some(job);
                    return self.to(State::Dead(status));
                }
                // Not over: the reply has not been read.
                Ok(_) => self.jobs[slot] = Some(job),
            }
        }
        steps
    }

    /// Copies a piece to where it can be sent from, and writes its request. `None`: no buffer is free,
    /// or the copy failed, which the operation then says.
    fn prepare(&self, op: &mut Op, index: usize, slot: usize, pool: &mut Pool) -> Option<Job> {
        let task = match op.action {
            Action::Put => Task::Put,
            Action::Get => Task::Get,
            Action::Atomic {
                datatype,
                op,
                fetch,
                ..
            } => Task::Atomic {
                datatype,
                op,
                fetch,
            },
        };
        let compare = match op.action {
            Action::Atomic { compare, .. } => compare,
            _ => 0,
        };
        let len = op.piece(self.piece);
        let reads = matches!(op.action, Action::Get)
            || matches!(
                op.action,
                Action::Atomic {
                    op: AtomicOp::Read,
                    ..
                }
            );
        let inline = !reads && len <= INLINE;
        // SAFETY: the slot is free, so neither the provider nor a job uses its request.
        let words = unsafe { &mut (*self.buffers.as_ptr()).requests[slot] };
        let mut bounce = None;
        if inline {
            words[HEAD + (len - 1) / 8] = 0;
            let into = words[HEAD..].as_mut_ptr().cast();
            // SAFETY: the request has room for INLINE bytes; the source is good for the whole.
            if let Err(error) = unsafe { op.local.read(op.next, into, len) } {
                op.failed_copy(error);
                return None;
            }
        } else if !reads && op.local.host(op.next).is_none() {
            let lent = pool.lend()?;
            // SAFETY: the buffer has room for a piece.
            if let Err(error) = unsafe { op.local.read(op.next, lent.pointer(), len) } {
                op.failed_copy(error);
                pool.give_back(lent);
                return None;
            }
            bounce = Some(lent);
        }
        let fetched = match op.action {
            Action::Get => Some(&op.local),
            Action::Atomic { fetch: true, .. } => Some(&op.result),
            _ => None,
        };
        if len > 8 && bounce.is_none() && fetched.is_some_and(|side| side.host(0).is_none()) {
            bounce = Some(pool.lend()?);
        }
        let request = Request {
            number: self.number + 1,
            task,
            region: op.remote.generation(),
            address: op.address.wrapping_add(op.next as u64),
            size: len as u64,
            compare,
            inline,
        };
        Some(Job {
            op: index,
            offset: op.next,
            len,
            number: request.number,
            bytes: request.seal(words),
            stage: if inline || reads {
                Stage::Request { posted: false }
            } else {
                Stage::Data { posted: false }
            },
            bounce,
        })
    }

    /// Takes a job as far as it goes; whether it is over. An error is the channel's.
    fn step(&self, t: &Transport, op: &mut Op, job: &mut Job, slot: usize) -> Result<bool, Status> {
        let flag = self.slot_flag(slot);
        loop {
            let posted = match job.stage {
                Stage::Data { posted } | Stage::Request { posted } | Stage::Fetch { posted } => {
                    posted
                }
                Stage::Reply => match self.replied(op, job, slot) {
                    Some(true) => return Ok(true),
                    Some(false) => continue,
                    None => return Ok(false),
                },
            };
            if !posted {
                match self.post(t, op, job, slot) {
                    Start::Later => return Ok(false),
                    Start::Failed(status) => return Err(status),
                    Start::Started => {}
                }
            }
            match (stand(flag), &mut job.stage) {
                (Stand::Failed(status), _) => return Err(status),
                (Stand::Pending, Stage::Data { posted })
                | (Stand::Pending, Stage::Request { posted })
                | (Stand::Pending, Stage::Fetch { posted }) => {
                    *posted = true;
                    return Ok(false);
                }
                (Stand::Done, stage @ Stage::Data { .. }) => {
                    *stage = Stage::Request { posted: false };
                }
                (Stand::Done, stage @ Stage::Request { .. }) => *stage = Stage::Reply,
                (Stand::Done, Stage::Fetch { .. }) => {
                    if let Some(bounce) = &job.bounce {
                        let side = fetched(op);
                        // SAFETY: the piece is in the buffer; the destination is good for the whole.
                        let written = unsafe { side.write(job.offset, bounce.pointer(), job.len) };
                        if let Err(error) = written {
                            op.failed_copy(error);
                        }
                    }
                    return Ok(true);
                }
                (_, Stage::Reply) => {}
            }
        }
    }

    /// Posts what the stage sends or fetches.
    fn post(&self, t: &Transport, op: &Op, job: &Job, slot: usize) -> Start {
        let flag = self.slot_flag(slot);
        let data = self.at(self.plan.data(self.lane, slot));
        let bounce = job.bounce.as_ref().map(Bounce::pointer);
        // SAFETY: the buffers, the bounce buffer and the caller's own stay until the job is over; the
        // target's addresses are this lane's.
        unsafe {
            match job.stage {
                Stage::Data { .. } => {
                    let from = op.local.host(job.offset).or(bounce);
                    let Some(from) = from else {
                        return Start::Failed(Status::ERROR);
                    };
                    t.wire_put(self.endpoint, from, data, &self.mailbox, job.len, flag)
                }
                Stage::Request { .. } => {
                    let from = (&raw const (*self.buffers.as_ptr()).requests[slot]).cast();
                    let at = self.at(self.plan.request(self.lane, slot));
                    t.wire_put(self.endpoint, from, at, &self.mailbox, job.bytes, flag)
                }
                Stage::Fetch { .. } => {
                    let Some(into) = fetched(op).host(job.offset).or(bounce) else {
                        return Start::Failed(Status::ERROR);
                    };
                    t.wire_get(self.endpoint, into, data, &self.mailbox, job.len, flag)
                }
                Stage::Reply => Start::Started,
            }
        }
    }

    /// Looks for the reply: none yet, or whether the job is over with it.
    fn replied(&self, op: &mut Op, job: &mut Job, slot: usize) -> Option<bool> {
        if self.polling {
            // The replies are being written.
            return None;
        }
        // SAFETY: no get of the replies is under way.
        let replies = unsafe { &(*self.buffers.as_ptr()).replies };
        let (status, result) = open_reply(job.number, &replies[slot * REPLY..(slot + 1) * REPLY])?;
        if status < 0 {
            op.fail(Status(status), || {
                String::from("the owner of the device memory refused it, or could not copy")
            });
            return Some(true);
        }
        let fetches = matches!(op.action, Action::Get | Action::Atomic { fetch: true, .. });
        if !fetches {
            return Some(true);
        }
        if job.len > 8 {
            job.stage = Stage::Fetch { posted: false };
            return Some(false);
        }
        let bytes = result.to_ne_bytes();
        // SAFETY: at most 8 bytes; the destination is good for the whole.
        if let Err(error) = unsafe { fetched(op).write(job.offset, bytes.as_ptr(), job.len) } {
            op.failed_copy(error);
        }
        Some(true)
    }

    /// Reads the replies while some are waited for.
    fn look(&mut self, t: &Transport) -> usize {
        // SAFETY: flags are only touched as atomics.
        let flag = unsafe { &(*self.buffers.as_ptr()).polling };
        if self.polling {
            match stand(flag) {
                Stand::Pending => return 0,
                Stand::Done => self.polling = false,
                Stand::Failed(status) => {
                    self.polling = false;
                    return self.to(State::Dead(status));
                }
            }
            return 0;
        }
        let wanted = self
            .jobs
            .iter()
            .flatten()
            .any(|job| job.stage == Stage::Reply);
        if !wanted {
            return 0;
        }
        let at = self.at(self.plan.reply(self.lane, 0));
        // SAFETY: the buffers stay; the replies are this lane's.
        let start = unsafe {
            let into = (&raw mut (*self.buffers.as_ptr()).replies).cast();
            t.wire_get(
                self.endpoint,
                into,
                at,
                &self.mailbox,
                SLOTS * REPLY * 8,
                flag,
            )
        };
        match start {
            Start::Started => self.polling = stand(flag) == Stand::Pending,
            Start::Later => {}
            Start::Failed(status) => return self.to(State::Dead(status)),
        }
        0
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

/// Where the result of an operation goes.
fn fetched(op: &Op) -> &super::staged::Side {
    match op.action {
        Action::Atomic { .. } => &op.result,
        _ => &op.local,
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw, and dropped once, after the provider is closed (see `state`).
        drop(unsafe { Box::from_raw(self.buffers.as_ptr()) });
    }
}

//! Requests in the slots of a taken lane, each for one fragment of an operation.
//!
//! A fragment of a put is copied out of the device, sent to its slot's data area, then requested. A fragment of
//! a get is requested, fetched from its slot's data area, then copied. Copies here, transfers and copies at the
//! target overlap; copies here overlap each other if the user's functions complete them later.

use std::collections::VecDeque;

use plugin_api::{AtomicOp, Status};

use super::{Channel, State};
use crate::engine::staging::staged::{Side, Staged, StagedOps};
use crate::engine::staging::wire::{Stand, Start, stand};
use crate::engine::transport::Transport;
use crate::hmem::bounce::{Bounce, Pool};
use crate::hmem::mailbox::{FRAGMENT, HEAD, INLINE, Request, SLOTS, after};
use crate::mem::copy_error::CopyError;
use crate::op::request::Action;

/// Most bytes of fragments in progress in one lane.
const UNDER_WAY: usize = 4 * FRAGMENT;

/// Stage of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its data is being copied out of the device.
    Read,
    /// Its data is to be sent, or is being sent.
    Data { posted: bool },
    /// The request is to be sent, or is being sent.
    Request { posted: bool },
    /// The target executes it.
    Reply,
    /// Its result is to be fetched, or is being fetched.
    Fetch { posted: bool },
    /// Its result is being copied to the device.
    Write,
}

impl Stage {
    /// Whether its transfer was posted. The slot's flag says whether it is over.
    pub(super) fn is_posted(self) -> bool {
        match self {
            Stage::Data { posted } | Stage::Request { posted } | Stage::Fetch { posted } => posted,
            Stage::Read | Stage::Reply | Stage::Write => false,
        }
    }
}

/// A fragment of an operation, in a slot.
pub(super) struct Job {
    pub(super) op: usize,
    pub(super) offset: usize,
    pub(super) len: usize,
    pub(super) number: u64,
    pub(super) bytes: usize,
    pub(super) stage: Stage,
    pub(super) bounce: Option<Bounce>,
}

impl Job {
    /// The result of the copy that was started last; `None` while it is under way.
    pub(super) fn copied(&mut self) -> Option<Result<(), CopyError>> {
        self.bounce.as_mut().map_or(Some(Ok(())), Bounce::copied)
    }
}

impl Channel {
    /// Advances the jobs of a taken lane.
    pub(super) fn work(
        &mut self,
        t: &Transport,
        ops: &mut StagedOps,
        pool: &mut Pool,
        over: &mut VecDeque<usize>,
    ) -> usize {
        let mut steps = self.read_replies(t);
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
                    if op.status.is_ok() {
                        // SAFETY: endpoints live as long as operations to them.
                        unsafe { op.endpoint.as_ref() }.part_completed();
                    }
                    if op.is_over() {
                        over.push_back(job.op);
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
        let over = self.waiting.is_empty() || self.turn == 0;
        if over && !self.polling && self.jobs.iter().all(Option::is_none) {
            let at = self.at(self.plan.owner(self.lane));
            // SAFETY: the buffers live until the provider is closed; this origin holds the lane, so only it
            // writes the owner word.
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

    /// Begins fragments while slots are free.
    fn begin(
        &mut self,
        t: &Transport,
        ops: &mut StagedOps,
        pool: &mut Pool,
        over: &mut VecDeque<usize>,
    ) -> usize {
        let mut steps = 0;
        while let Some(&index) = self.waiting.front() {
            let Some(op) = ops.at(index) else {
                self.waiting.pop_front();
                continue;
            };
            // Removed even when the turn is over: once the operation completes, its index may be reused by
            // another operation, which would then begin here, ahead of earlier ones.
            if op.next >= op.size {
                self.waiting.pop_front();
                if op.is_over() {
                    over.push_back(index);
                }
                continue;
            }
            if self.turn == 0 {
                break;
            }
            let slot = self.next_slot();
            if self.jobs[slot].is_some() || self.is_full(op) {
                break;
            }
            let Some(mut job) = self.prepare(op, index, slot, pool) else {
                // Either a copy failed and the operation begins no more fragments, or no buffer is free.
                if op.next >= op.size {
                    continue;
                }
                break;
            };
            self.number = job.number;
            self.turn -= 1;
            op.next += job.len;
            op.live += 1;
            steps += 1;
            match self.step(t, op, &mut job, slot) {
                Err(status) => {
                    self.jobs[slot] = Some(job);
                    return self.to(State::Dead(status));
                }
                // Never complete here: the reply was not read yet.
                Ok(_) => self.jobs[slot] = Some(job),
            }
        }
        steps
    }

    /// Copies a fragment to host memory for sending, and writes its request. `None` if no buffer is free, or if
    /// the copy failed; the operation then has the failure.
    fn prepare(&self, op: &mut Staged, index: usize, slot: usize, pool: &mut Pool) -> Option<Job> {
        let len = op.fragment(self.fragment);
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
        let (mut bounce, mut copying) = (None, false);
        if inline {
            words[HEAD + (len - 1) / 8] = 0;
            let into = words[HEAD..].as_mut_ptr().cast();
            // SAFETY: the request has room for INLINE bytes; the source is valid for the whole operation.
            if let Err(error) = unsafe { op.local.read(op.next, into, len) } {
                op.failed_copy(error);
                return None;
            }
        } else if !reads && op.local.host(op.next).is_none() {
            let mut lent = pool.lend(op.endpoint)?;
            // SAFETY: the buffer has room for a fragment; the source is valid for the whole operation. Both stay until
            // the copy is over, since the job does.
            match unsafe { op.local.start_read(op.next, lent.pointer(), len) } {
                Ok(copy) => {
                    copying = copy.is_some();
                    lent.keep_for(copy);
                }
                Err(error) => {
                    op.failed_copy(error);
                    pool.give_back(lent);
                    return None;
                }
            }
            bounce = Some(lent);
        }
        let fetched = match op.action {
            Action::Get => Some(&op.local),
            action if action.fetches() => Some(&op.result),
            _ => None,
        };
        if len > 8 && bounce.is_none() && fetched.is_some_and(|side| side.host(0).is_none()) {
            bounce = Some(pool.lend(op.endpoint)?);
        }
        let request = Request {
            number: after(self.number, 1),
            command: op.command(op.next, len),
            inline: if inline { len } else { 0 },
        };
        Some(Job {
            op: index,
            offset: op.next,
            len,
            number: request.number,
            bytes: request.seal(words),
            stage: match copying {
                true => Stage::Read,
                false if inline || reads => Stage::Request { posted: false },
                false => Stage::Data { posted: false },
            },
            bounce,
        })
    }

    /// Advances a job as far as possible; returns whether it is complete. An error fails the channel.
    fn step(
        &self,
        t: &Transport,
        op: &mut Staged,
        job: &mut Job,
        slot: usize,
    ) -> Result<bool, Status> {
        let flag = self.slot_flag(slot);
        loop {
            let posted = match job.stage {
                Stage::Data { posted } | Stage::Request { posted } | Stage::Fetch { posted } => {
                    posted
                }
                Stage::Read | Stage::Write => {
                    let Some(copied) = job.copied() else {
                        // SAFETY: endpoints live as long as operations to them.
                        unsafe { self.endpoint.as_ref() }.waits_for_copy();
                        return Ok(false);
                    };
                    let failed = copied.map_err(|error| op.failed_copy(error)).is_err();
                    match job.stage {
                        Stage::Write => return Ok(true),
                        _ if failed => self.without_effect(op, job, slot),
                        _ => job.stage = Stage::Data { posted: false },
                    }
                    continue;
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
                    Start::Failed(status) => match self.give_up_data(op, job, slot, status) {
                        Some(over) if over => return Ok(true),
                        Some(_) => continue,
                        None => return Err(status),
                    },
                    Start::Started => {}
                }
            }
            match (stand(flag), &mut job.stage) {
                (Stand::Failed(status), _) => match self.give_up_data(op, job, slot, status) {
                    Some(over) if over => return Ok(true),
                    Some(_) => continue,
                    None => return Err(status),
                },
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
                    let side = fetched(op);
                    // A host buffer was fetched to directly; the bounce buffer may hold the operands.
                    if side.host(job.offset).is_none()
                        && let Some(bounce) = &mut job.bounce
                    {
                        // SAFETY: the bounce buffer has the fragment; the destination is valid for the whole
                        // operation. Both stay until the copy is over, since the job does.
                        match unsafe { side.start_write(job.offset, bounce.pointer(), job.len) } {
                            Ok(None) => {}
                            Ok(copy) => {
                                bounce.keep_for(copy);
                                job.stage = Stage::Write;
                                continue;
                            }
                            Err(error) => op.failed_copy(error),
                        }
                    }
                    return Ok(true);
                }
                (_, Stage::Read | Stage::Reply | Stage::Write) => {}
            }
        }
    }

    /// Posts the transfer of the job's stage.
    fn post(&self, t: &Transport, op: &Staged, job: &Job, slot: usize) -> Start {
        let flag = self.slot_flag(slot);
        let data = self.at(self.plan.data(self.lane, slot));
        let bounce = job.bounce.as_ref().map(Bounce::pointer);
        // SAFETY: the channel's buffers, the bounce buffer and the caller's buffer live until the job
        // completes; the target's addresses belong to this origin's lane.
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
                Stage::Read | Stage::Reply | Stage::Write => Start::Started,
            }
        }
    }

    fn next_slot(&self) -> usize {
        after(self.number, 1) as usize % SLOTS
    }

    /// Whether another fragment would only evict fragments in progress from the cache.
    fn is_full(&self, op: &Staged) -> bool {
        let under_way: usize = self.jobs.iter().flatten().map(|job| job.len).sum();
        under_way > 0 && under_way + op.fragment(self.fragment) > UNDER_WAY
    }
}

/// The destination of an operation's result.
pub(super) fn fetched(op: &Staged) -> &Side {
    match op.action {
        Action::Atomic { .. } => &op.result,
        _ => &op.local,
    }
}

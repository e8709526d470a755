//! Requests in the slots of a taken lane, each for one fragment of an operation.
//!
//! A fragment of a put was copied out of the device (`waiting`); it is sent to its slot's data area, then requested. A fragment of
//! a get is requested, fetched from its slot's data area, then copied. Copies here, transfers and copies at the
//! target overlap; copies here overlap each other if the user's functions complete them later.

use plugin_api::Status;

use super::waiting::{Draft, InSlots, is_inline, reads};
use super::{Channel, State};
use crate::engine::staging::staged::{Side, Staged, Work};
use crate::engine::staging::wire::{Stand, Start, plain, stand};
use crate::engine::transport::Transport;
use crate::hmem::bounce::Bounce;
use crate::hmem::mailbox::{HEAD, Request, SLOTS, after};
use crate::op::request::{Action, Op};

/// Stage of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The data is still to be sent, or is being sent.
    Data { posted: bool },
    /// The request is still to be sent, or is being sent.
    Request { posted: bool },
    /// The target executes the command.
    Reply,
    /// The result is still to be fetched, or is being fetched.
    Fetch { posted: bool },
    /// The result is being copied to the device. The job no longer needs its slot.
    Write,
}

impl Stage {
    /// Whether the transfer of this stage was posted. The slot's flag says whether the transfer is
    /// over.
    pub(super) fn is_posted(self) -> bool {
        match self {
            Stage::Data { posted } | Stage::Request { posted } | Stage::Fetch { posted } => posted,
            Stage::Reply | Stage::Write => false,
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

impl Channel {
    /// Advances the jobs of a taken lane.
    pub(super) fn work(&mut self, t: &Transport, work: &mut Work) -> usize {
        let mut steps = self.read_replies(t);
        for slot in 0..SLOTS {
            let Some(mut job) = self.jobs[slot].take() else {
                continue;
            };
            let Some(op) = work.ops.at(job.op) else {
                continue;
            };
            match self.step(t, op, &mut job, slot) {
                Ok(true) => {
                    self.end_job(job, work);
                    steps += 1;
                }
                Ok(false) if job.stage == Stage::Write => {
                    self.writing.push(job);
                    steps += 1;
                }
                Ok(false) => self.jobs[slot] = Some(job),
                Err(status) => {
                    self.jobs[slot] = Some(job);
                    return self.to(State::Dead(status));
                }
            }
        }
        steps += self.begin(t, work);
        // The lane is returned even while data for the next requests is copied, because other origins wait
        // for a lane.
        let over = self.turn == 0 || !self.waiting.wants_slot(&mut work.ops, self.fragment);
        if over && !self.polling && self.jobs.iter().all(Option::is_none) {
            let at = self.at(self.plan.owner(self.lane));
            // SAFETY: the buffers live until the provider is closed; this origin holds the lane, so only it
            // writes the owner word.
            let start = unsafe {
                let word = &raw mut (*self.buffers.as_ptr()).word;
                word.write(self.number);
                let op = Op::put(&self.mailbox, at, plain(word.cast()), 8);
                t.wire(self.endpoint, op, self.flag())
            };
            steps += self.started(start, State::Returning);
        }
        steps
    }

    /// Ends a completed job.
    fn end_job(&self, job: Job, work: &mut Work) {
        if work.ops.at(job.op).is_some_and(|op| op.status.is_ok()) {
            // SAFETY: endpoints live as long as operations to them.
            unsafe { self.endpoint.as_ref() }.part_completed();
        }
        work.end_fragment(job.op, job.bounce);
    }

    /// Ends the jobs whose results were copied to the device.
    pub(super) fn end_writes(&mut self, work: &mut Work) -> usize {
        let (mut steps, mut at) = (0, 0);
        while let Some(job) = self.writing.get_mut(at) {
            let Some(copied) = job.bounce.as_mut().map_or(Some(Ok(())), Bounce::copied) else {
                // SAFETY: endpoints live as long as operations to them.
                unsafe { self.endpoint.as_ref() }.waits_for_copy();
                at += 1;
                continue;
            };
            let job = self.writing.swap_remove(at);
            if let Err(error) = copied
                && let Some(op) = work.ops.at(job.op)
            {
                op.failed_copy(error);
            }
            self.end_job(job, work);
            steps += 1;
        }
        steps
    }

    /// Begins fragments. Fragments get requests while slots are free; for further fragments, only the
    /// data is copied.
    pub(super) fn begin(&mut self, t: &Transport, work: &mut Work) -> usize {
        let mut steps = 0;
        loop {
            self.waiting.settle(work);
            let (most, in_slots) = (self.fragment, self.in_slots());
            let draft = match self.has_slot() {
                true => self.waiting.take(work, most, in_slots),
                false => None,
            };
            if let Some(draft) = draft {
                if let Err(status) = self.request(t, work, draft) {
                    return self.to(State::Dead(status));
                }
            } else if !self.waiting.fetch(work, most, in_slots) {
                return steps;
            }
            steps += 1;
        }
    }

    /// Gives a fragment the next request of the lane, and posts the first transfer: the data or the
    /// request.
    fn request(&mut self, t: &Transport, work: &mut Work, draft: Draft) -> Result<(), Status> {
        let Some(op) = work.ops.at(draft.op) else {
            return Ok(());
        };
        let (slot, offset, len) = (self.next_slot(), draft.offset, draft.len);
        let inline = is_inline(op, len);
        // SAFETY: the slot is free, so neither the provider nor a job uses its request.
        let words = unsafe { &mut (*self.buffers.as_ptr()).requests[slot] };
        if inline {
            words[HEAD + (len - 1) / 8] = 0;
            let into = words[HEAD..].as_mut_ptr().cast();
            // SAFETY: the request has room for INLINE bytes; the source is valid for the whole operation.
            if let Err(error) = unsafe { op.local.read(offset, into, len) } {
                op.failed_copy(error);
                work.end_fragment(draft.op, draft.bounce);
                return Ok(());
            }
        }
        let request = Request {
            number: after(self.number, 1),
            command: op.command(offset, len),
            inline: if inline { len } else { 0 },
        };
        let mut job = Job {
            op: draft.op,
            offset,
            len,
            number: request.number,
            bytes: request.seal(words),
            stage: match inline || reads(op) {
                true => Stage::Request { posted: false },
                false => Stage::Data { posted: false },
            },
            bounce: draft.bounce,
        };
        self.number = job.number;
        self.turn -= 1;
        // The job is never complete here, because its reply was not read yet.
        let stepped = self.step(t, op, &mut job, slot).map(drop);
        self.jobs[slot] = Some(job);
        stepped
    }

    /// Advances a job as far as possible. Returns whether the job is complete. An error fails the
    /// channel.
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
                Stage::Write => return Ok(false),
                Stage::Reply => match self.replied(op, job, slot) {
                    Some(true) => return Ok(true),
                    Some(false) => continue,
                    None => return Ok(false),
                },
            };
            if !posted {
                match self.post(t, op, job, slot) {
                    Start::Later => return Ok(false),
                    Start::Failed(status) => match self.fail_data(op, job, slot, status) {
                        Some(over) if over => return Ok(true),
                        Some(_) => continue,
                        None => return Err(status),
                    },
                    Start::Started => {}
                }
            }
            match (stand(flag), &mut job.stage) {
                (Stand::Failed(status), _) => match self.fail_data(op, job, slot, status) {
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
                    // A host buffer received the fetched data directly, and the bounce buffer may still
                    // hold the operands.
                    if side.host(job.offset).is_none()
                        && let Some(bounce) = &mut job.bounce
                    {
                        // SAFETY: the bounce buffer holds the fragment; the destination is valid for the
                        // whole operation. The job keeps both until the copy is complete.
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
                (_, Stage::Reply | Stage::Write) => {}
            }
        }
    }

    /// Posts the transfer of the job's stage.
    fn post(&self, t: &Transport, op: &Staged, job: &Job, slot: usize) -> Start {
        let flag = self.slot_flag(slot);
        let data = self.at(self.plan.data(self.lane, slot));
        let bounce = job.bounce.as_ref().map(Bounce::pointer);
        let transfer = match job.stage {
            Stage::Data { .. } => {
                let Some(from) = op.local.host(job.offset).or(bounce) else {
                    return Start::Failed(Status::ERROR);
                };
                Op::put(&self.mailbox, data, plain(from), job.len)
            }
            Stage::Request { .. } => {
                // SAFETY: the buffers live as long as `self`.
                let from = unsafe { &raw mut (*self.buffers.as_ptr()).requests[slot] };
                let at = self.at(self.plan.request(self.lane, slot));
                Op::put(&self.mailbox, at, plain(from.cast()), job.bytes)
            }
            Stage::Fetch { .. } => {
                let Some(into) = fetched(op).host(job.offset).or(bounce) else {
                    return Start::Failed(Status::ERROR);
                };
                Op::get(&self.mailbox, data, plain(into), job.len)
            }
            Stage::Reply | Stage::Write => return Start::Started,
        };
        // SAFETY: the channel's buffers, the bounce buffer and the caller's buffer live until the job
        // completes; the target's addresses belong to this origin's lane.
        unsafe { t.wire(self.endpoint, transfer, flag) }
    }

    fn next_slot(&self) -> usize {
        after(self.number, 1) as usize % SLOTS
    }

    /// Whether the next request has a slot.
    fn has_slot(&self) -> bool {
        self.state == State::Taken && self.turn > 0 && self.jobs[self.next_slot()].is_none()
    }

    fn in_slots(&self) -> InSlots {
        let jobs = self.jobs.iter().flatten();
        (jobs.clone().count(), jobs.map(|job| job.len).sum())
    }
}

/// The destination of an operation's result.
pub(super) fn fetched(op: &Staged) -> &Side {
    match op.action {
        Action::Atomic { .. } => &op.result,
        _ => &op.local,
    }
}

//! The replies of a lane: when this process reads them, and how they advance a job.

use plugin_api::Status;

use super::jobs::{Job, Stage, fetched};
use super::{Channel, State};
use crate::engine::staging::staged::Staged;
use crate::engine::staging::wire::{Stand, Start, plain, stand};
use crate::engine::transport::Transport;
use crate::hmem::mailbox::{REPLY, SLOTS, open_reply};
use crate::op::request::{Action, Op};

impl Channel {
    /// Whether to read the replies. A read costs the target as much as a small request, so it is done only if
    /// no fragment can begin before a reply arrives, or if every job waits for its reply.
    fn wants_replies(&self) -> bool {
        let waits = |job: &Job| job.stage == Stage::Reply;
        let mut jobs = self.jobs.iter().flatten();
        let oldest = jobs.clone().min_by_key(|job| job.number);
        let blocked = !self.waiting.is_empty() && oldest.is_some_and(waits);
        blocked || (oldest.is_some() && jobs.all(waits))
    }

    /// Checks a job's reply. Returns `None` without a reply; otherwise whether the job is complete.
    pub(super) fn replied(&self, op: &mut Staged, job: &mut Job, slot: usize) -> Option<bool> {
        if self.polling {
            // The provider is writing the replies.
            return None;
        }
        // SAFETY: no get of the replies is in progress.
        let replies = unsafe { &(*self.buffers.as_ptr()).replies };
        let (status, result) = open_reply(job.number, &replies[slot * REPLY..(slot + 1) * REPLY])?;
        if status < 0 {
            op.fail(Status(status), || {
                String::from("the owner of the device memory refused it, or its copy failed")
            });
            return Some(true);
        }
        if !op.status.is_ok() {
            // The operation failed meanwhile, and the request may have had no effect.
            return Some(true);
        }
        if !matches!(op.action, Action::Get) && !op.action.fetches() {
            return Some(true);
        }
        if job.len > 8 {
            job.stage = Stage::Fetch { posted: false };
            return Some(false);
        }
        let bytes = result.to_ne_bytes();
        // SAFETY: `bytes` has 8 bytes and `len` is at most 8; the destination is valid for the whole operation.
        if let Err(error) = unsafe { fetched(op).write(job.offset, bytes.as_ptr(), job.len) } {
            op.failed_copy(error);
        }
        Some(true)
    }

    /// Reads the replies while jobs wait for them.
    pub(super) fn read_replies(&mut self, t: &Transport) -> usize {
        // SAFETY: the buffers live as long as `self`; flags are accessed only as atomics.
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
        if !self.wants_replies() {
            return 0;
        }
        let at = self.at(self.plan.reply(self.lane, 0));
        // SAFETY: the buffers live until the provider is closed; the replies belong to this origin's lane.
        let start = unsafe {
            let into = plain((&raw mut (*self.buffers.as_ptr()).replies).cast());
            let op = Op::get(&self.mailbox, at, into, SLOTS * REPLY * 8);
            t.wire(self.endpoint, op, flag)
        };
        match start {
            Start::Started => self.polling = stand(flag) == Stand::Pending,
            Start::Later => {}
            Start::Failed(status) => return self.to(State::Dead(status)),
        }
        0
    }
}

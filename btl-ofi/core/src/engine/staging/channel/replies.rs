//! The replies of a lane: when they are worth reading, and what they make of a job.

use plugin_api::Status;

use super::jobs::{Job, Stage, fetched};
use super::{Channel, State};
use crate::engine::staging::staged::{Action, Op};
use crate::engine::staging::wire::{Stand, Start, stand};
use crate::engine::transport::Transport;
use crate::hmem::mailbox::{REPLY, SLOTS, open_reply};

impl Channel {
    /// Whether replies are worth a get, which costs the target as much as a small request: where no
    /// fragment can be begun before one has come, or nothing else is left to wait for.
    fn wants_replies(&self) -> bool {
        let waits = |job: &Job| job.stage == Stage::Reply;
        let mut jobs = self.jobs.iter().flatten();
        let oldest = jobs.clone().min_by_key(|job| job.number);
        let blocked = !self.waiting.is_empty() && oldest.is_some_and(waits);
        blocked || (oldest.is_some() && jobs.all(waits))
    }

    /// Looks for the reply: none yet, or whether the job is over with it.
    pub(super) fn replied(&self, op: &mut Op, job: &mut Job, slot: usize) -> Option<bool> {
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
        if !op.status.is_ok() {
            // It failed meanwhile, and what it asked for may not have been done.
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
    pub(super) fn look(&mut self, t: &Transport) -> usize {
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
        if !self.wants_replies() {
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
}

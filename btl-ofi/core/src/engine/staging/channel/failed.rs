//! Requests whose data cannot be moved: their operation fails, and the lane continues.

use plugin_api::Status;

use super::Channel;
use super::jobs::{Job, Stage};
use crate::engine::staging::staged::Staged;
use crate::hmem::mailbox::Request;
use crate::op::responder::{Command, PUT};

impl Channel {
    /// Handles a failed transfer between the caller's buffer and the slot. The buffer may be the cause, so the
    /// operation fails and the lane continues. Returns whether the job is complete, or `None` if the failed
    /// transfer is the channel's own.
    pub(super) fn fail_data(
        &self,
        op: &mut Staged,
        job: &mut Job,
        slot: usize,
        status: Status,
    ) -> Option<bool> {
        // SAFETY: endpoints live as long as operations to them.
        if unsafe { self.endpoint.as_ref() }.failure().is_some() {
            return None;
        }
        let what = || format!("the transfer of its data failed with {status}");
        match job.stage {
            Stage::Data { .. } => {
                op.fail(status, what);
                self.without_effect(op, job, slot);
                Some(false)
            }
            Stage::Fetch { .. } => {
                op.fail(status, what);
                Some(true)
            }
            Stage::Request { .. } | Stage::Reply | Stage::Write => None,
        }
    }

    /// Replaces the request of a job whose data is not sent by a request without effect. The owner executes requests in
    /// the order of their numbers, so this number must have a request.
    pub(super) fn without_effect(&self, op: &Staged, job: &mut Job, slot: usize) {
        let nothing = Request {
            number: job.number,
            command: Command {
                what: PUT,
                ..op.command(0, 0)
            },
            inline: 0,
        };
        // SAFETY: the slot belongs to this job, and its request is not posted.
        let words = unsafe { &mut (*self.buffers.as_ptr()).requests[slot] };
        job.bytes = nothing.seal(words);
        job.stage = Stage::Request { posted: false };
    }
}

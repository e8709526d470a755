//! The origin's side of the host's sends. A send is copied into a batch. The send has left when the provider needs no more
//! progress for it. A send that has not left does not arrive while the host computes.

use std::ptr::NonNull;

use plugin_api::Status;

use super::current::NONE;
use super::{Origin, is_before};
use crate::fabric::msg::batch::Batch;
use crate::fabric::msg::line::{Asker, Line};
use crate::fabric::msg::port::Port;
use crate::fabric::msg::wire::{Form, Header, UNKNOWN};
use crate::peer::endpoint::Endpoint;

/// The provider passes this many unanswered bytes to the socket when they are posted, although it reports the completion
/// later: an empty socket buffer has room for them.
pub(crate) const HANDED_ON: usize = 16 * 1024;

/// The time at which a send must leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// Before the call returns. If the send cannot leave by then, the call sends nothing and returns
    /// [`Status::TEMP_OUT_OF_RESOURCE`].
    Now,
    /// As soon as the line to the peer has room.
    Later,
}

/// The state of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The provider has the send, and delivers it without progress.
    Left,
    /// The send leaves during later progress. Contains the line's cookie and the number of the
    /// batch.
    In(u64, u32),
}

impl Origin {
    /// [`Messages::leaves_at_once`](crate::fabric::msg::Messages::leaves_at_once).
    pub(in crate::fabric::msg) fn leaves_at_once(&self, endpoint: NonNull<Endpoint>) -> bool {
        let number = self.by_endpoint.get(&endpoint);
        let line = number.and_then(|number| self.lines[*number as usize].as_ref());
        line.is_some_and(|line| {
            let batch = |number: u32| &self.batches[number as usize];
            let gathered = line.current.map_or(0, |n| size_of_val(&*batch(n).words));
            !line.stuck
                && line.client != UNKNOWN
                && line.may_send_early(false, Asker::Progress)
                && line.unanswered_bytes() + gathered <= HANDED_ON
                && !line.batches().any(|number| batch(number).has_results())
        })
    }

    /// [`Messages::send`](crate::fabric::msg::Messages::send).
    ///
    /// # Safety
    /// The conditions of [`Messages::send`](crate::fabric::msg::Messages::send).
    pub(in crate::fabric::msg) unsafe fn send(
        &mut self,
        port: &Port,
        endpoint: NonNull<Endpoint>,
        (tag, size, leaves): (u8, usize, Leaves),
        is_alone: bool,
        fill: impl FnOnce(*mut u8),
    ) -> Result<Sent, Status> {
        let form = Form::of_send(size);
        if leaves == Leaves::Now {
            let bytes = size_of::<u64>() * (Header::WORDS + form.words());
            let number = self.line_to(endpoint);
            let line = self.lines[number as usize].as_ref();
            if !line.is_some_and(|line| is_alone && line.may_send_now(bytes)) {
                return Err(Status::TEMP_OUT_OF_RESOURCE);
            }
        }
        let has_room = |batch: &Batch, _: &Line| batch.has_room_for_send(&form);
        let (batch, _) = self.batch_for(port, endpoint, has_room)?;
        // SAFETY: the batch has room, and the caller guarantees that `fill` writes its bytes.
        unsafe { self.batches[batch as usize].push_send(tag, size, fill) };
        let number = self.batches[batch as usize].line;
        self.send_line(port, number, Asker::Send, None);
        let Some(line) = &self.lines[number as usize] else {
            return Ok(Sent::Left);
        };
        if self.batches[batch as usize].held {
            return Ok(match is_alone && line.unanswered_bytes() <= HANDED_ON {
                true => Sent::Left,
                false => Sent::In(line.cookie, self.batches[batch as usize].sequence),
            });
        }
        let is_broken = self.broken.iter().any(|(broken, _)| *broken == endpoint);
        if leaves == Leaves::Now && !is_broken {
            self.take_back(number, batch);
            return Err(Status::TEMP_OUT_OF_RESOURCE);
        }
        let ahead = line.waiting.iter().position(|waiting| *waiting == batch);
        let ahead = ahead.unwrap_or(line.waiting.len());
        let batch = line.sequence.wrapping_add(ahead as u32);
        Ok(Sent::In(line.cookie, batch))
    }

    /// Removes the batch of a send that did not leave. The batch is the only one on its line.
    #[cold]
    fn take_back(&mut self, number: u32, batch: u32) {
        if let Some(line) = &mut self.lines[number as usize] {
            line.waiting.retain(|waiting| *waiting != batch);
            line.current.take_if(|current| *current == batch);
            line.stuck = false;
        }
        self.last.batch = NONE;
        self.end_batch(batch);
    }

    /// Whether a send to a peer has left.
    pub(crate) fn has_sent(&self, endpoint: NonNull<Endpoint>, sent: Sent) -> bool {
        let Sent::In(cookie, batch) = sent else {
            return true;
        };
        let line = self.by_endpoint.get(&endpoint);
        let line = line.and_then(|line| self.lines[*line as usize].as_ref());
        // The line may have been removed, and another line may have its number.
        let line = line.filter(|line| line.cookie == cookie);
        line.is_none_or(|line| is_before(batch, self.first_held(line)))
    }

    /// The number of the first batch of a line that has not left.
    pub(super) fn first_held(&self, line: &Line) -> u32 {
        let unanswered = line.unanswered.iter();
        let mut batches = unanswered.map(|number| &self.batches[*number as usize]);
        let held = batches.find(|batch| batch.held);
        held.map_or(line.sequence, |batch| batch.sequence)
    }
}

impl Line {
    /// Whether a batch with one send, of `bytes` bytes, is likely to leave at once: nothing waits on the line, and the
    /// target and the provider have room. A first batch may have to wait for a connection, so it is not likely to leave.
    fn may_send_now(&self, bytes: usize) -> bool {
        let idle = !self.has_more() && !self.stuck && self.client != UNKNOWN;
        let handed_on = self.unanswered_bytes().saturating_add(bytes) <= HANDED_ON;
        idle && handed_on && self.may_send_early(true, Asker::Send)
    }
}

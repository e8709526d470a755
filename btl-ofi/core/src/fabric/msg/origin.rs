//! The origin's side of messages: the lines to targets, the batches, and the operations that answers complete.

mod current;
mod heartbeat;
mod knock;
mod sends;
mod spare;

use current::{Last, NONE};
pub(crate) use heartbeat::Heard;
use knock::is_before;
pub(super) use sends::HANDED_ON;
pub use sends::{Leaves, Sent};

use std::collections::HashMap;
use std::hash::RandomState;
use std::ptr::NonNull;
use std::sync::Arc;

use plugin_api::Status;

use crate::fabric::addresses::Addresses;
use crate::fabric::msg::batch::{Batch, Ended, Memory};
use crate::fabric::msg::line::{Asker, Line, MOST_WAITING};
use crate::fabric::msg::port::{EAGAIN, Port};
use crate::fabric::msg::target::Target;
use crate::fabric::msg::wire::{Form, Header, Introduction, Kind, UNKNOWN};
use crate::op::marked::Message;
use crate::op::request::Request;
use crate::peer::counters::{CountersRef, add};
use crate::peer::endpoint::Endpoint;

/// The line number of a message whose failure concerns no line.
const NOBODY: u32 = u32::MAX;

/// The reason why nothing more is sent to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A message could not be sent; the code comes from the provider.
    Code(isize),
    /// A batch left but did not arrive, or its answer did not arrive.
    Lost,
}

/// A transport's state as an origin.
pub(crate) struct Origin {
    /// This process.
    own: Introduction,
    /// The addresses of targets, with their keys.
    addresses: Arc<Addresses>,
    /// Words of the longest answer and of most batches; words of the longest batch.
    lengths: (usize, usize),
    lines: Vec<Option<Line>>,
    free_lines: Vec<u32>,
    by_endpoint: HashMap<NonNull<Endpoint>, u32>,
    /// The line that the next command probably uses.
    pub(super) last: Last,
    /// Lines with something to send.
    listed: Vec<u32>,
    pub(super) batches: Vec<Batch>,
    /// Unused batches, and memory for at most [`SPARE`](super::places::SPARE) batches.
    free_batches: Vec<u32>,
    spare: Vec<Memory>,
    /// The batches that an answer covers, while this process handles the answer.
    answered: Vec<u32>,
    random: RandomState,
    cookies: u64,
    /// Operations that are over and that the caller has not taken yet.
    pub(crate) ended: Ended,
    /// Peers to which a message could not be sent, or to which a message was lost.
    pub(crate) broken: Vec<(NonNull<Endpoint>, Broken)>,
    counters: CountersRef,
}

impl Origin {
    pub(super) fn new(
        own: Introduction,
        addresses: Arc<Addresses>,
        lengths: (usize, usize),
        counters: CountersRef,
    ) -> Origin {
        Origin {
            counters,
            own,
            addresses,
            lengths,
            lines: Vec::new(),
            free_lines: Vec::new(),
            by_endpoint: HashMap::new(),
            last: Last::NOBODY,
            listed: Vec::new(),
            batches: Vec::new(),
            free_batches: Vec::new(),
            spare: Vec::new(),
            answered: Vec::new(),
            random: RandomState::new(),
            cookies: 0,
            ended: Ended::default(),
            broken: Vec::new(),
        }
    }

    /// [`Messages::gather_notified`](super::Messages::gather_notified).
    ///
    /// # Safety
    /// The conditions of [`Messages::gather_notified`](super::Messages::gather_notified).
    pub(super) unsafe fn gather_notified(
        &mut self,
        port: &Port,
        endpoint: NonNull<Endpoint>,
        (put, form): (&Request, &Form),
        notice: &Request,
    ) -> Result<(&mut Batch, bool), Status> {
        let both = form.with_notice();
        let (number, full) = self.batch_for(port, endpoint, |batch, _| batch.has_room(&both))?;
        let batch = &mut self.batches[number as usize];
        // SAFETY: the caller guarantees the operands, and the batch has room for both.
        unsafe { batch.push_notified((put, form), notice) };
        Ok((batch, full))
    }

    /// Completes the line's current batch, if there is one, and begins another batch.
    fn next_batch(&mut self, port: &Port, number: u32) -> Result<u32, Status> {
        if port.closed {
            return Err(Status::FATAL);
        }
        let line = self.lines[number as usize].as_mut().ok_or(Status::ERROR)?;
        if let Some(full) = line.current {
            if line.waiting.len() >= MOST_WAITING {
                return Err(Status::TEMP_OUT_OF_RESOURCE);
            }
            line.current = None;
            line.waiting.push_back(full);
            if self.last.line == number {
                self.last.batch = NONE;
            }
        }
        self.send_line(port, number, Asker::Progress, None);
        let batch = self.take_batch();
        let Some(line) = &mut self.lines[number as usize] else {
            return Err(Status::ERROR);
        };
        let introduced = line.client != UNKNOWN || line.sequence > 0 || !line.waiting.is_empty();
        let own = (!introduced).then_some(&self.own);
        self.batches[batch as usize].begin((number, line.cookie), own, self.lengths);
        line.current = Some(batch);
        if !line.listed {
            line.listed = true;
            self.listed.push(number);
        }
        Ok(batch)
    }

    /// Whether a line has something to send.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        !self.listed.is_empty()
    }

    /// Sends everything that may be sent.
    pub(super) fn send_waiting(
        &mut self,
        port: &Port,
        asker: Asker,
        mut target: Option<&mut Target>,
    ) {
        for at in (0..self.listed.len()).rev() {
            let number = self.listed[at];
            self.send_line(port, number, asker, target.as_deref_mut());
            if let Some(line) = &mut self.lines[number as usize] {
                line.listed = line.has_more();
                if line.listed {
                    continue;
                }
            }
            self.listed.swap_remove(at);
        }
    }

    /// Ends all sends. The caller has closed the endpoints.
    pub(super) fn close(&mut self) {
        self.listed.clear();
    }

    /// Handles a batch that could not be sent.
    #[cold]
    pub(super) fn failed(&mut self, number: u32, code: i32) {
        let batch = &self.batches[number as usize];
        let line = self.lines.get(batch.line as usize).and_then(Option::as_ref);
        if let Some(line) = line.filter(|line| line.cookie == batch.cookie) {
            self.broken
                .push((line.endpoint, Broken::Code(-(code as isize))));
        }
        self.sent(number);
    }

    /// Whether sends to a peer, or to any peer, wait to be sent, or the provider still reads them. These sends are
    /// in no count of operations.
    pub(super) fn is_sending(&self, endpoint: Option<NonNull<Endpoint>>) -> bool {
        let is_read = |n: &u32| self.batches[*n as usize].held;
        let sends = |line: &Line| line.has_more() || line.unanswered.iter().any(is_read);
        let Some(endpoint) = endpoint else {
            return self.lines.iter().flatten().any(sends);
        };
        let number = self.by_endpoint.get(&endpoint);
        let line = number.and_then(|number| self.lines[*number as usize].as_ref());
        line.is_some_and(sends)
    }

    /// Number of operations to a peer that travel as messages and are not over.
    #[cold]
    pub(crate) fn operations_to(&self, endpoint: NonNull<Endpoint>) -> u32 {
        let number = self.by_endpoint.get(&endpoint);
        let line = number.and_then(|number| self.lines[*number as usize].as_ref());
        let batches = line.map(Line::batches).into_iter().flatten();
        batches
            .map(|number| self.batches[number as usize].operations())
            .sum()
    }

    /// Nobody waits for the answer to the batch that gathers for a peer, unless commands are added to the batch.
    #[cold]
    pub(crate) fn leave_unawaited(&mut self, endpoint: NonNull<Endpoint>) {
        let number = self.by_endpoint.get(&endpoint);
        let line = number.and_then(|number| self.lines[*number as usize].as_ref());
        if let Some(current) = line.and_then(|line| line.current) {
            self.batches[current as usize].leave_unawaited();
        }
    }

    /// Sends the batches of a line that may be sent now, with answers of `target` behind them.
    fn send_line(
        &mut self,
        port: &Port,
        number: u32,
        asker: Asker,
        mut target: Option<&mut Target>,
    ) {
        loop {
            let Some(line) = &mut self.lines[number as usize] else {
                return;
            };
            if let Some(current) = line.current
                && let gathered = &self.batches[current as usize]
                && line.may_send_early(gathered.has_only_sends(), asker)
            {
                line.current = None;
                line.waiting.push_back(current);
                if self.last.line == number {
                    self.last.batch = NONE;
                }
            }
            let Some(&batch) = line.waiting.front() else {
                return;
            };
            let message = &mut self.batches[batch as usize];
            if !line.may_send() {
                return;
            }
            let is_awaited = message.is_empty() || !message.has_only_sends();
            let kind = match line.kind(is_awaited) {
                Kind::Batch if message.is_unawaited() => Kind::Patient,
                kind => kind,
            };
            let to = (line.key, line.cookie, line.client);
            message.seal(kind, to, line.sequence);
            let sent = Message::Batch(batch);
            let rc = match &mut target {
                Some(target) => {
                    let to = (&mut message.words, line.address);
                    target.send_with_answers(port, to, sent)
                }
                None => port.send(&message.words, line.address, sent),
            };
            line.stuck = rc == EAGAIN;
            match rc {
                0 => {
                    let message = &mut self.batches[batch as usize];
                    (message.held, message.bytes) = (true, size_of_val(&*message.words));
                    line.is_sent(kind, message.bytes);
                    // SAFETY: the line of a peer is removed before its endpoint is.
                    let peer = unsafe { line.endpoint.as_ref() };
                    add(&self.counters.of_first(peer).messages, 1, false);
                }
                EAGAIN => return,
                rc => {
                    self.broken.push((line.endpoint, Broken::Code(rc)));
                    return;
                }
            }
        }
    }

    /// Ends the operations that an answer covers.
    pub(super) fn answered(&mut self, header: Header, words: &[u64]) -> Result<(), &'static str> {
        let line = self
            .lines
            .get_mut(header.line as usize)
            .and_then(Option::as_mut);
        let Some(line) = line.filter(|line| line.cookie == header.cookie) else {
            // The answer's line was removed.
            return Ok(());
        };
        let batches = &self.batches;
        // Only these batches have an answer of their own.
        let is_answered = |n: &u32| {
            let batch = &batches[*n as usize];
            batch.sequence == header.sequence && !batch.unanswered
        };
        let Some(position) = line.unanswered.iter().position(is_answered) else {
            return Ok(());
        };
        let number = line.unanswered[position];
        self.answered.push(number);
        if line.has_covered() {
            let is_unanswered = |n: u32| batches[n as usize].unanswered;
            line.take_covered(position, is_unanswered, &mut self.answered);
        }
        line.unanswered.retain(|n| *n != number);
        line.is_answered(header.client);
        for number in &self.answered {
            line.has_arrived(self.batches[*number as usize].bytes);
        }
        let batch = &mut self.batches[number as usize];
        if header.kind == Kind::Refusal {
            batch.fail(line.endpoint, Status::BAD_PARAM, &mut self.ended);
        } else if batch.is_answered_by(&header, words) {
            let (failures, results) = words[Header::WORDS..].split_at(header.entries as usize);
            batch.answer(line.endpoint, failures, results, &mut self.ended);
        } else {
            batch.fail(line.endpoint, Status::ERROR, &mut self.ended);
        }
        while let Some(number) = self.answered.pop() {
            self.end_batch(number);
        }
        Ok(())
    }

    /// Whether operations or peers failed that the caller has not taken yet.
    #[inline]
    pub(crate) fn has_failures(&self) -> bool {
        !self.ended.refused.is_empty() || !self.ended.lost.is_empty() || !self.broken.is_empty()
    }

    /// Ends all operations to a peer as failed, and returns them.
    #[cold]
    pub(crate) fn abandon(&mut self, endpoint: NonNull<Endpoint>, status: Status) -> Ended {
        let mut ended = Ended::default();
        self.last = Last::NOBODY;
        let number = self.by_endpoint.get(&endpoint);
        let line = number.and_then(|number| self.lines[*number as usize].as_mut());
        let Some(line) = line else {
            return ended;
        };
        for number in line.take_all() {
            self.batches[number as usize].fail(endpoint, status, &mut ended);
            self.end_batch(number);
        }
        ended
    }

    /// Removes the line to a released peer. Returns its unfinished operations, which fail.
    pub(super) fn remove(
        &mut self,
        port: &Port,
        endpoint: NonNull<Endpoint>,
        status: Status,
    ) -> Ended {
        let ended = self.abandon(endpoint, status);
        self.broken.retain(|(broken, _)| *broken != endpoint);
        let Some(number) = self.by_endpoint.remove(&endpoint) else {
            return ended;
        };
        let Some(line) = self.lines[number as usize].take() else {
            return ended;
        };
        if line.listed {
            self.listed.retain(|listed| *listed != number);
        }
        self.free_lines.push(number);
        if line.client != UNKNOWN {
            self.send_empty(port, &line, (number, NOBODY), Kind::Farewell);
        }
        ended
    }
}

#[cfg(test)]
mod tests;

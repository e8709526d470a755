//! The progress of schedules: their steps, and the messages that they send.

use plugin_api::Access;

use super::engine::State;
use super::error::CommError;
use super::fetch::{Offer, Offered};
use super::matching::{Early, Expected, Key, Outgoing};
use super::plan::Step;
use crate::base::combine_into;
use crate::mailbox::{Header, Kind};

impl State {
    /// Moves all schedules as far as possible now. True if something moved.
    pub(super) fn advance(&mut self) -> bool {
        let mut moved = false;
        loop {
            let mut again = self.advance_fetches();
            for rank in 0..self.queues.len() {
                if !self.queues[rank].outgoing.is_empty() {
                    again |= self.send_queued(rank);
                }
                if self.queues[rank].listens() {
                    again |= self.listen(rank);
                }
            }
            let mut at = 0;
            while let Some(index) = self.running.get(at).copied() {
                again |= self.run(index);
                // Otherwise the schedule was removed, and the next schedule has its index; a
                // further round visits all that are left.
                at += usize::from(self.running.get(at) == Some(&index));
            }
            if !again {
                return moved;
            }
            moved = true;
        }
    }

    /// Runs the steps of one schedule until a step has to wait.
    fn run(&mut self, index: usize) -> bool {
        let mut moved = false;
        loop {
            let Some(schedule) = self.schedule(index) else {
                return moved;
            };
            if schedule.outcome.is_some() {
                return moved;
            }
            let Some(step) = schedule.plan.steps.get(schedule.next) else {
                if schedule.outstanding == 0 {
                    let outcome = schedule.failed.take().map_or(Ok(()), Err);
                    self.close(index, outcome);
                    return true;
                }
                return moved;
            };
            let failed = schedule.failed.is_some();
            match *step {
                // The memory of a failed schedule holds no valid data.
                Step::Copy { .. } | Step::Combine { .. } if failed => {}
                Step::Round => {
                    if schedule.outstanding > 0 {
                        return moved;
                    }
                }
                Step::Copy { from, to, len } => {
                    // SAFETY: the maker of the plan guarantees that both ranges are valid; they may
                    // overlap.
                    unsafe { std::ptr::copy(from, to, len) };
                }
                Step::Combine {
                    op,
                    datatype,
                    left,
                    right,
                    into,
                    count,
                } => {
                    // SAFETY: the maker of the plan guarantees that the ranges are valid.
                    unsafe { combine_into(datatype, op, left, right, into, count) };
                }
                Step::Send { to, .. } if failed => {
                    let header = header(Kind::Failed, schedule.key, 0);
                    self.note(to, header, Vec::new());
                }
                Step::Send { to, at, len } => {
                    let key = schedule.key;
                    if let Err(error) = self.begin_send(index, key, to, at, len) {
                        self.finish(index, error);
                        return true;
                    }
                }
                Step::Receive { from, at, len } => {
                    let expected = Expected {
                        key: schedule.key,
                        at,
                        len,
                        schedule: index,
                    };
                    schedule.outstanding += 1;
                    self.begin_receive(from, expected);
                }
            }
            moved = true;
            if let Some(schedule) = self.schedule(index) {
                schedule.next += 1;
            }
        }
    }

    /// Takes a message that came early from a rank, or waits for the message.
    fn begin_receive(&mut self, from: usize, expected: Expected) {
        match self.queues[from].take_early(expected.key) {
            None => self.queues[from].expected.push(expected),
            Some(Early::Payload(bytes)) if bytes.len() == expected.len => {
                // SAFETY: a receive's buffer has the receive's length.
                unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), expected.at, expected.len);
                }
                self.done(expected.schedule);
            }
            Some(Early::Payload(bytes)) => self.wrong_length(from, &expected, bytes.len()),
            Some(Early::Offer(offer)) => self.accept(from, expected, offer),
            Some(Early::Failed) => self.miss(from, &expected),
        }
    }

    /// Records that a send or receive of a schedule is done.
    pub(super) fn done(&mut self, index: usize) {
        if let Some(schedule) = self.schedule(index) {
            schedule.outstanding = schedule.outstanding.saturating_sub(1);
        }
    }

    fn begin_send(
        &mut self,
        index: usize,
        key: Key,
        to: usize,
        at: *const u8,
        len: usize,
    ) -> Result<(), CommError> {
        if len > self.mailbox.capacity() {
            return self.offer(index, key, to, at, len);
        }
        if self.queues[to].outgoing.is_empty() {
            // SAFETY: a send's buffer has the send's length.
            let payload = unsafe { std::slice::from_raw_parts(at, len) };
            match self
                .mailbox
                .send(to, header(Kind::Eager, key, len), payload)
            {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(status) => return Err(self.peer_failed(index, to, status)),
            }
        }
        self.queues[to].outgoing.push_back(Outgoing::Payload {
            key,
            at,
            len,
            schedule: index,
        });
        if let Some(schedule) = self.schedule(index) {
            schedule.outstanding += 1;
        }
        Ok(())
    }

    /// Offers a payload to a peer, which fetches it.
    fn offer(
        &mut self,
        index: usize,
        key: Key,
        to: usize,
        at: *const u8,
        len: usize,
    ) -> Result<(), CommError> {
        // SAFETY: a send's buffer stays until its round is done, which is after the end of the
        // offer; peers only read the buffer.
        let registered = unsafe {
            self.transport
                .register(at.cast_mut(), len, Access::REMOTE_READ)
        };
        let registration = match registered {
            Ok(registration) => registration,
            Err(error) => return Err(self.not_registered(index, len, error.status)),
        };
        let free = self.offers.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.offers.push(None);
            self.offers.len() - 1
        });
        // The name is unique among present and recent offers, so that a late answer to one offer cannot end another
        // offer.
        self.offered = self.offered.wrapping_add(1);
        let name = u64::from(self.offered) << 32 | slot as u64;
        let payload = Offer::encode(name, at as u64, len, registration.handle_bytes());
        self.offers[slot] = Some(Offered {
            schedule: index,
            name,
            to,
            _registration: registration,
        });
        self.queues[to].offered += 1;
        if let Some(schedule) = self.schedule(index) {
            schedule.outstanding += 1;
        }
        self.note(to, header(Kind::Offer, key, payload.len()), payload);
        Ok(())
    }

    /// Sends a message of the engine, now or when there is room.
    pub(super) fn note(&mut self, to: usize, header: Header, payload: Vec<u8>) {
        if self.queues[to].outgoing.is_empty() {
            // A failure here occurs again at the next look, which has a schedule to report it to.
            if let Ok(true) = self.mailbox.send(to, header, &payload) {
                return;
            }
        }
        let outgoing = Outgoing::Note { header, payload };
        self.queues[to].outgoing.push_back(outgoing);
    }

    fn send_queued(&mut self, to: usize) -> bool {
        let mut moved = false;
        while let Some(first) = self.queues[to].outgoing.front() {
            let sent = match first {
                Outgoing::Payload { key, at, len, .. } => {
                    // SAFETY: a send's buffer has the send's length until the schedule is done or
                    // was forgotten; the latter removes the send from the queue.
                    let payload = unsafe { std::slice::from_raw_parts(*at, *len) };
                    self.mailbox
                        .send(to, header(Kind::Eager, *key, *len), payload)
                }
                Outgoing::Note { header, payload } => self.mailbox.send(to, *header, payload),
            };
            match sent {
                Ok(false) => break,
                Ok(true) => {
                    moved = true;
                    if let Some(Outgoing::Payload { schedule, .. }) =
                        self.queues[to].outgoing.pop_front()
                    {
                        self.done(schedule);
                    }
                }
                Err(status) => {
                    self.lost(to, status);
                    break;
                }
            }
        }
        moved
    }
}

pub(super) fn header(kind: Kind, key: Key, len: usize) -> Header {
    Header {
        kind,
        len,
        context: key.context,
        sequence: key.sequence,
    }
}

//! How schedules move: steps, messages, fetches.

use plugin_api::{Access, Status};

use super::engine::State;
use super::fetch::{Fetch, Offer, Offered};
use super::kernels::combine_into;
use super::matching::{Early, Expected, Key, Outgoing};
use super::plan::Step;
use super::scope::Scope;
use super::signature::Signature;
use crate::comm::CommError;
use crate::job::Job;
use crate::mailbox::{Header, Kind};

impl State {
    /// Moves everything as far as it goes now. True when something moved.
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
                // Whatever was removed was this one.
                at += usize::from(self.running.get(at) == Some(&index));
            }
            if !again {
                return moved;
            }
            moved = true;
        }
    }

    /// Does the steps of one schedule up to the next that has to wait.
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
                    self.finish(index, Ok(()));
                    return true;
                }
                return moved;
            };
            match *step {
                Step::Round => {
                    if schedule.outstanding > 0 {
                        return moved;
                    }
                }
                Step::Copy { from, to, len } => {
                    // SAFETY: the plan's maker vouches for both ranges; they may overlap.
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
                    // SAFETY: the plan's maker vouches for the ranges.
                    unsafe { combine_into(datatype, op, left, right, into, count) };
                }
                Step::Compare {
                    all,
                    count,
                    describe,
                } => {
                    // SAFETY: scratch of the plan, filled by the round before.
                    let all = unsafe { std::slice::from_raw_parts(all, count) };
                    if let Some(reason) = Signature::differences(all, describe) {
                        let call = schedule.call;
                        self.finish(index, Err(CommError::Mismatch { call, reason }));
                        return true;
                    }
                }
                Step::Send { to, at, len } => {
                    let key = schedule.key;
                    if let Err(error) = self.begin_send(index, key, to, at, len) {
                        self.finish(index, Err(error));
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
                    match self.queues[from].take_early(expected.key) {
                        None => self.queues[from].expected.push(expected),
                        Some(Early::Payload(bytes)) => {
                            if bytes.len() == len {
                                // SAFETY: a receive's buffer holds its length.
                                unsafe {
                                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, len);
                                }
                                self.done(index);
                            } else {
                                self.wrong_length(from, &expected, bytes.len());
                            }
                        }
                        Some(Early::Offer(offer)) => self.accept(from, expected, offer),
                    }
                }
            }
            moved = true;
            if let Some(schedule) = self.schedule(index) {
                schedule.next += 1;
            }
        }
    }

    /// One send or receive of a schedule is done.
    fn done(&mut self, index: usize) {
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
            // SAFETY: a send's buffer holds its length.
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

    /// Lets a peer fetch a payload.
    fn offer(
        &mut self,
        index: usize,
        key: Key,
        to: usize,
        at: *const u8,
        len: usize,
    ) -> Result<(), CommError> {
        // SAFETY: a send's buffer stays until its round is done, which is after the offer ends;
        // peers only read it.
        let registered = unsafe {
            self.transport
                .register(at.cast_mut(), len, Access::REMOTE_READ)
        };
        let registration = match registered {
            Ok(registration) => registration,
            Err(error) => return Err(self.peer_failed(index, to, error.status)),
        };
        let free = self.offers.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.offers.push(None);
            self.offers.len() - 1
        });
        let generation = self.places[index].generation;
        let name = u64::from(generation) << 32 | slot as u64;
        let payload = Offer::encode(name, at as u64, len, registration.handle_bytes());
        self.offers[slot] = Some(Offered {
            schedule: index,
            generation,
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
    fn note(&mut self, to: usize, header: Header, payload: Vec<u8>) {
        if self.queues[to].outgoing.is_empty() {
            // What fails here fails again, with a schedule to tell of it, when that looks around.
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
                    // SAFETY: a send's buffer holds its length until the schedule is done or was
                    // forgotten, which takes it out of the queue.
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

    /// Takes what a rank has sent.
    fn listen(&mut self, from: usize) -> bool {
        let mut moved = false;
        if self.mailbox.owes(from) {
            self.mailbox.tell(from);
        }
        while let Some(found) = self.mailbox.poll(from) {
            let header = match found {
                Ok(header) => header,
                Err(status) => {
                    self.lost(from, status);
                    return true;
                }
            };
            moved = true;
            match header.kind {
                Kind::Eager => self.take_payload(from, header),
                Kind::Offer => self.take_offer(from, header),
                Kind::Fetched => self.take_fetched(from, header),
            }
            if !self.queues[from].listens() {
                break;
            }
        }
        moved
    }

    fn take_payload(&mut self, from: usize, header: Header) {
        let key = Key::of(&header);
        match self.queues[from].take_expected(key) {
            Some(expected) if expected.len == header.len => {
                // SAFETY: a receive's buffer holds its length.
                let into = unsafe { std::slice::from_raw_parts_mut(expected.at, header.len) };
                self.mailbox.take(from, header, into);
                self.done(expected.schedule);
            }
            Some(expected) => {
                self.mailbox.take(from, header, &mut []);
                self.wrong_length(from, &expected, header.len);
            }
            None => {
                let mut bytes = vec![0; header.len];
                self.mailbox.take(from, header, &mut bytes);
                let early = (key, Early::Payload(bytes));
                self.queues[from].early.push_back(early);
            }
        }
    }

    fn take_offer(&mut self, from: usize, header: Header) {
        let key = Key::of(&header);
        let mut bytes = vec![0; header.len];
        self.mailbox.take(from, header, &mut bytes);
        let handle_size = self.transport.attributes().handle_size;
        let Some(offer) = Offer::decode(&bytes, handle_size) else {
            self.lost(from, Status::TYPE_MISMATCH);
            return;
        };
        match self.queues[from].take_expected(key) {
            Some(expected) => self.accept(from, expected, offer),
            None => self.queues[from]
                .early
                .push_back((key, Early::Offer(offer))),
        }
    }

    /// Begins to fetch what a receive waits for.
    fn accept(&mut self, from: usize, expected: Expected, offer: Offer) {
        if offer.len != expected.len {
            // The sender is not made to wait for ever.
            self.say_fetched(from, expected.key, offer.name);
            self.wrong_length(from, &expected, offer.len);
            return;
        }
        let track = self.tracks.take();
        let names = (expected.schedule, track);
        let fetch = Fetch::new(
            &self.transport,
            from,
            expected.key,
            offer,
            names,
            expected.at,
        );
        match fetch {
            Ok(fetch) => self.fetches.push(fetch),
            Err(error) => {
                self.tracks.give_back(track);
                let error = self.peer_failed(expected.schedule, from, error.status);
                self.finish(expected.schedule, Err(error));
            }
        }
    }

    fn say_fetched(&mut self, to: usize, key: Key, name: u64) {
        let payload = name.to_ne_bytes().to_vec();
        self.note(to, header(Kind::Fetched, key, payload.len()), payload);
    }

    fn take_fetched(&mut self, from: usize, header: Header) {
        let mut bytes = [0; 8];
        self.mailbox.take(from, header, &mut bytes);
        let name = u64::from_ne_bytes(bytes);
        let slot = (name & 0xffff_ffff) as usize;
        let Some(place) = self.offers.get_mut(slot) else {
            return;
        };
        let Some(offered) = place.take_if(|o| o.generation == (name >> 32) as u32) else {
            // Of a schedule that was given up.
            return;
        };
        self.queues[from].offered = self.queues[from].offered.saturating_sub(1);
        self.done(offered.schedule);
    }

    fn advance_fetches(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(fetch) = self.fetches.get_mut(at) {
            let asked = fetch.ask(&self.transport, &self.mailbox, &self.tracks);
            let track = fetch.track;
            let failure = match asked {
                Ok(asked) => {
                    moved |= asked;
                    if !fetch.is_done(&self.tracks) {
                        at += 1;
                        continue;
                    }
                    self.tracks.track(track).take_failure()
                }
                Err(status) => Some(status),
            };
            moved = true;
            let fetch = self.fetches.swap_remove(at);
            let (from, schedule) = (fetch.from, fetch.schedule);
            match (failure, schedule) {
                (None, Some(index)) => {
                    self.say_fetched(from, fetch.key, fetch.offer.name);
                    self.done(index);
                }
                (Some(status), Some(index)) => {
                    let error = self.peer_failed(index, from, status);
                    self.finish(index, Err(error));
                }
                (_, None) => {}
            }
            self.tracks.give_back(track);
        }
        moved
    }

    /// Ends a schedule.
    pub(super) fn finish(&mut self, index: usize, outcome: Result<(), CommError>) {
        let failed = outcome.is_err();
        let Some(schedule) = self.schedule(index) else {
            return;
        };
        if schedule.outcome.is_some() {
            return;
        }
        let key = schedule.key;
        schedule.outcome = Some(outcome);
        schedule.scope.leave();
        let waker = schedule.waker.take();
        let detached = schedule.detached;
        self.ended = self.ended.wrapping_add(1);
        self.running.retain(|running| *running != index);
        self.woken.extend(waker);
        if failed {
            self.forget(index, key);
        }
        if detached {
            self.vacate(index);
        }
    }

    /// Takes a schedule that failed out of everything.
    fn forget(&mut self, index: usize, key: Key) {
        for queue in &mut self.queues {
            queue.forget(index, key);
        }
        for place in &mut self.offers {
            if let Some(offered) = place.take_if(|o| o.schedule == index) {
                let queue = &mut self.queues[offered.to];
                queue.offered = queue.offered.saturating_sub(1);
            }
        }
        for fetch in &mut self.fetches {
            if fetch.schedule == Some(index) {
                fetch.schedule = None;
            }
        }
    }

    fn wrong_length(&mut self, from: usize, expected: &Expected, found: usize) {
        let Some(schedule) = self.schedule(expected.schedule) else {
            return;
        };
        let error = CommError::Length {
            call: schedule.call,
            rank: schedule.scope.rank_of(from).unwrap_or(from),
            sent: found,
            wanted: expected.len,
        };
        self.finish(expected.schedule, Err(error));
    }

    /// The error of a schedule that cannot reach a job rank. Its scope is of no use any more.
    fn peer_failed(&mut self, index: usize, job_rank: usize, status: Status) -> CommError {
        let Some(schedule) = self.schedule(index) else {
            return CommError::Peer {
                call: "collective",
                rank: job_rank,
                reason: status.to_string(),
            };
        };
        let error = CommError::Peer {
            call: schedule.call,
            rank: schedule.scope.rank_of(job_rank).unwrap_or(job_rank),
            reason: status.to_string(),
        };
        schedule.scope.break_off(&error.to_string());
        error
    }

    /// Ends every schedule that a job rank takes part in.
    fn lost(&mut self, job_rank: usize, status: Status) {
        for index in self.running.clone() {
            let takes_part = self
                .schedule(index)
                .is_some_and(|schedule| schedule.scope.rank_of(job_rank).is_some());
            if takes_part {
                let error = self.peer_failed(index, job_rank, status);
                self.finish(index, Err(error));
            }
        }
        self.queues[job_rank].outgoing.clear();
    }

    /// Looks after the ranks of a scope for someone who waits outside of schedules.
    pub(super) fn check(
        &mut self,
        call: &'static str,
        job: &Job,
        scope: &Scope,
    ) -> Result<(), CommError> {
        if let Some(failure) = concerned(job, scope) {
            scope.break_off(&failure);
            let reason = failure;
            return Err(CommError::Job { call, reason });
        }
        for rank in (0..scope.size()).filter(|rank| *rank != scope.rank()) {
            let job_rank = scope.job_rank(rank);
            if let Some(Err(status)) = self.mailbox.look(job_rank) {
                let reason = status.to_string();
                let error = CommError::Peer { call, rank, reason };
                scope.break_off(&error.to_string());
                self.lost(job_rank, status);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Looks after every rank that a running schedule needs.
    pub(super) fn look(&mut self, job: &Job) {
        let mut ranks: Vec<usize> = Vec::new();
        for index in self.running.clone() {
            let Some(schedule) = self.schedule(index) else {
                continue;
            };
            let me = schedule.scope.rank();
            let members = schedule.scope.members();
            let others = members.iter().enumerate().filter(|(rank, _)| *rank != me);
            ranks.extend(others.map(|(_, job_rank)| *job_rank as usize));
            if let Some(reason) = concerned(job, &schedule.scope) {
                let call = schedule.call;
                schedule.scope.break_off(&reason);
                self.finish(index, Err(CommError::Job { call, reason }));
            }
        }
        ranks.sort_unstable();
        ranks.dedup();
        for rank in ranks {
            if let Some(Err(status)) = self.mailbox.look(rank) {
                self.lost(rank, status);
            }
        }
    }
}

/// What the job reports that a scope cannot live with.
fn concerned(job: &Job, scope: &Scope) -> Option<String> {
    let failure = job.failed()?;
    let member = |proc: u64| scope.members().iter().any(|m| u64::from(*m) == proc);
    failure.proc.is_none_or(member).then(|| failure.to_string())
}

fn header(kind: Kind, key: Key, len: usize) -> Header {
    Header {
        kind,
        len,
        context: key.context,
        sequence: key.sequence,
    }
}

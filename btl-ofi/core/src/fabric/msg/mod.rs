//! Messages: the carrier of commands between nodes.
//!
//! Providers that execute RMA and atomics in software send a request and an acknowledgement for each operation. Here
//! many operations share one message, and one answer covers them all. An origin has a [`Line`] to each target. Commands
//! gather in its current [`Batch`]. The batch is sent when it is full, or by the next progress call while few batches
//! are unanswered: an operation that comes alone leaves at once, and the more there is to send, the more gathers. The
//! target's progress hands the commands to its responder (`op::responder`), which also serves the rings.
//!
//! **Complete means visible**: the answer is sent after the target's processor has executed the batch.
//!
//! **Order.** Batches are numbered. The target executes them in the order of their numbers, and keeps one that comes too
//! early until its turn. So the commands of one origin are executed in the order in which they were issued. Providers are
//! not asked for `FI_ORDER_SAS`: rxm offers it, and lets a short message pass one that it sends in parts (1.17).
//!
//! **Room.** A line has at most [`WINDOW`](line::WINDOW) batches unanswered and [`MOST_WAITING`](line::MOST_WAITING)
//! more that wait; then commands are refused for the moment. The provider keeps messages for which no receive is posted
//! (`FI_RM_ENABLED`), and says `FI_EAGAIN` to its sender when it cannot; what was not sent is sent by a later progress.
//!
//! **Introduction.** A target answers origins that it did not connect itself: an origin's first batch carries the
//! address of its endpoint, and goes alone; the answer tells the origin its client number.
//!
//! **Buffers.** Results are copied from the answer by this process, so the operations of a failed peer can be reported at
//! once. Only the message itself stays until the provider has sent it.
//!
//! Used under the lock of the first context.

mod batch;
mod client;
#[cfg(test)]
mod hostile;
mod line;
mod wire;

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::hash::{BuildHasher, RandomState};
use std::ptr::{self, NonNull};

use libfabric_sys as ffi;
use plugin_api::Status;

use self::batch::Batch;
pub(crate) use self::batch::Ended;
use self::client::Client;
use self::line::{Line, MOST_WAITING, WINDOW};
pub(crate) use self::wire::LARGEST;
use self::wire::{Form, Header, Kind, MOST_WORDS, UNKNOWN};
use crate::base::error::{CallError, check, describe, peer_is_gone};
use crate::base::lock::Lock;
use crate::mem::regions::Regions;
use crate::op::record::{Finished, Message};
use crate::op::request::Operands;
use crate::op::responder::{Command, Responder};
use crate::peer::address::check_form;
use crate::peer::endpoint::Endpoint;

type Send = unsafe extern "C" fn(
    *mut ffi::fid_ep,
    *const c_void,
    usize,
    *mut c_void,
    ffi::fi_addr_t,
    *mut c_void,
) -> isize;
type Receive = unsafe extern "C" fn(
    *mut ffi::fid_ep,
    *mut c_void,
    usize,
    *mut c_void,
    ffi::fi_addr_t,
    *mut c_void,
) -> isize;

/// The line of a message whose failure concerns no line.
const NOBODY: u32 = u32::MAX;
const EAGAIN: isize = -(ffi::FI_EAGAIN as isize);
/// Bytes of the longest message.
pub(crate) const LONGEST: usize = 8 * MOST_WORDS;
/// Failures after which an answer is sent no more.
const MOST_FAILURES: u32 = 16;

/// The endpoints of the first context, and what else messages need of the provider.
pub(crate) struct Provider {
    pub(crate) tx: *mut ffi::fid_ep,
    pub(crate) rx: *mut ffi::fid_ep,
    pub(crate) av: *mut ffi::fid_av,
    /// The address of this process's endpoint.
    pub(crate) address: Vec<u8>,
    /// The format of addresses (`FI_ADDR_*`, `FI_SOCKADDR*`).
    pub(crate) format: u32,
    /// Number of receives to keep posted.
    pub(crate) receives: usize,
}

/// An answer that the provider has not sent yet.
#[derive(Default)]
struct Answer {
    words: Vec<u64>,
    /// Its receiver: the client's number and cookie.
    client: (u32, u64),
    /// How often it could not be sent.
    failures: u32,
}

/// The messages of one transport.
pub(crate) struct Messages {
    provider: Provider,
    send: Send,
    receive: Receive,
    responder: Responder,
    buffers: Vec<Box<[u64]>>,
    /// Buffers whose receive the provider had no room for.
    unposted: Vec<u32>,
    batches: Vec<Batch>,
    free_batches: Vec<u32>,
    answers: Vec<Answer>,
    free_answers: Vec<u32>,
    /// Answers that the provider had no room for.
    unsent: VecDeque<u32>,
    lines: Vec<Option<Line>>,
    by_endpoint: HashMap<NonNull<Endpoint>, u32>,
    /// The line that was used last.
    last: Option<(NonNull<Endpoint>, u32)>,
    /// Lines with something to send.
    listed: Vec<u32>,
    clients: Vec<Option<Client>>,
    random: RandomState,
    cookies: u64,
    closed: bool,
    ended: Ended,
    /// Peers to which a message could not be sent, with the provider's code.
    broken: Vec<(NonNull<Endpoint>, isize)>,
}

// SAFETY: the pointers are the provider's objects and the endpoints of peers, which are tied to no thread. They are used
// only under the context's lock.
unsafe impl std::marker::Send for Messages {}

impl Messages {
    /// Posts the receives.
    ///
    /// # Safety
    /// The endpoints are live and enabled, and outlive the carrier; so does the address vector.
    pub(crate) unsafe fn open(provider: Provider) -> Result<Messages, CallError> {
        let missing = || CallError {
            call: "fi_send",
            code: ffi::FI_ENOSYS as i32,
        };
        // SAFETY: the caller guarantees live endpoints, which keep their tables valid.
        let (tx, rx) = unsafe { ((*provider.tx).msg.as_ref(), (*provider.rx).msg.as_ref()) };
        let send = tx.and_then(|table| table.send).ok_or_else(missing)?;
        let receive = rx.and_then(|table| table.recv).ok_or_else(missing)?;
        let count = provider.receives;
        let mut messages = Messages {
            provider,
            send,
            receive,
            responder: Responder::default(),
            buffers: Vec::new(),
            unposted: Vec::new(),
            batches: Vec::new(),
            free_batches: Vec::new(),
            answers: Vec::new(),
            free_answers: Vec::new(),
            unsent: VecDeque::new(),
            lines: Vec::new(),
            by_endpoint: HashMap::new(),
            last: None,
            listed: Vec::new(),
            clients: Vec::new(),
            random: RandomState::new(),
            cookies: 0,
            closed: false,
            ended: Ended::default(),
            broken: Vec::new(),
        };
        for number in 0..count {
            messages
                .buffers
                .push(vec![0; MOST_WORDS].into_boxed_slice());
            match messages.post_receive(number as u32) {
                0 => {}
                EAGAIN => messages.unposted.push(number as u32),
                rc => return check("fi_recv", rc as i32).map(|_| messages),
            }
        }
        Ok(messages)
    }

    fn post_receive(&mut self, number: u32) -> isize {
        if self.closed {
            return EAGAIN;
        }
        let buffer = &mut self.buffers[number as usize];
        let (at, size) = (buffer.as_mut_ptr().cast(), size_of_val(&**buffer));
        let context = Message::Receive(number).context();
        // SAFETY: the endpoint is live, because it was not closed, and the buffer lives until it is.
        unsafe {
            (self.receive)(
                self.provider.rx,
                at,
                size,
                ptr::null_mut(),
                ffi::FI_ADDR_UNSPEC,
                context,
            )
        }
    }

    /// Sends words that stay as they are until the send completes.
    fn post_send(&self, words: &[u64], to: ffi::fi_addr_t, context: Message) -> isize {
        if self.closed {
            return EAGAIN;
        }
        let (at, size) = (words.as_ptr().cast(), size_of_val(words));
        // SAFETY: the endpoint is live, because it was not closed; the callers keep the words until the completion.
        unsafe {
            (self.send)(
                self.provider.tx,
                at,
                size,
                ptr::null_mut(),
                to,
                context.context(),
            )
        }
    }

    /// Adds a command to the batch for a peer. Returns whether that began another batch because one was full. An error
    /// comes before side effects: [`Status::TEMP_OUT_OF_RESOURCE`] if there is no room at the moment.
    ///
    /// # Safety
    /// `endpoint` is live until [`remove`](Self::remove); the operands are readable for `size` bytes, and `result` is NULL
    /// or writable for as many until the operation is over.
    #[inline]
    pub(crate) unsafe fn gather(
        &mut self,
        endpoint: NonNull<Endpoint>,
        command: &Command,
        (operands, size): (Operands, usize),
        result: *mut u8,
        finished: impl FnOnce() -> Finished,
    ) -> Result<bool, Status> {
        let form = Form::of(command.what, command.count).ok_or(Status::NOT_SUPPORTED)?;
        let number = match self.last {
            Some((last, number)) if last == endpoint => number,
            _ => self.line_to(endpoint),
        };
        let line = self.lines[number as usize].as_mut().ok_or(Status::ERROR)?;
        let (current, full) = match line.current {
            Some(current) if self.batches[current as usize].has_room(&form) => (current, false),
            before => (self.next_batch(number)?, before.is_some()),
        };
        // SAFETY: the caller guarantees the buffers.
        unsafe {
            self.batches[current as usize].push(
                (command, &form),
                (operands, size),
                result,
                finished(),
            )
        };
        Ok(full)
    }

    /// The line to a peer, made if there is none.
    #[cold]
    fn line_to(&mut self, endpoint: NonNull<Endpoint>) -> u32 {
        let number = match self.by_endpoint.get(&endpoint) {
            Some(number) => *number,
            None => {
                self.cookies += 1;
                let cookie = self.random.hash_one((
                    std::process::id(),
                    self.cookies,
                    &self.provider.address,
                ));
                // SAFETY: the callers guarantee a live endpoint.
                let address = unsafe { endpoint.as_ref() }.address;
                let number = vacant(&mut self.lines);
                self.lines[number as usize] = Some(Line::new(endpoint, address, cookie));
                self.by_endpoint.insert(endpoint, number);
                number
            }
        };
        self.last = Some((endpoint, number));
        number
    }

    /// Completes the line's current batch, if it has one, and begins another.
    #[cold]
    #[inline(never)]
    fn next_batch(&mut self, number: u32) -> Result<u32, Status> {
        if self.closed {
            return Err(Status::FATAL);
        }
        let line = self.lines[number as usize].as_mut().ok_or(Status::ERROR)?;
        if let Some(full) = line.current {
            if line.waiting.len() >= MOST_WAITING {
                return Err(Status::TEMP_OUT_OF_RESOURCE);
            }
            line.current = None;
            line.waiting.push_back(full);
        }
        self.send_line(number);
        let batch = self.free_batches.pop().unwrap_or_else(|| {
            self.batches.push(Batch::default());
            self.batches.len() as u32 - 1
        });
        let Some(line) = &mut self.lines[number as usize] else {
            return Err(Status::ERROR);
        };
        let introduced = line.client != UNKNOWN || line.sequence > 0 || !line.waiting.is_empty();
        let address = (!introduced).then_some(&*self.provider.address);
        self.batches[batch as usize].begin(number, address);
        line.current = Some(batch);
        if !line.listed {
            line.listed = true;
            self.listed.push(number);
        }
        Ok(batch)
    }

    /// Whether something is to be sent or posted.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.listed.is_empty() || !self.unsent.is_empty() || !self.unposted.is_empty()
    }

    /// Sends what may be sent, and posts receives that had no room before.
    #[inline(never)]
    pub(crate) fn send_waiting(&mut self) {
        for _ in 0..self.unposted.len() {
            let Some(number) = self.unposted.pop() else {
                break;
            };
            if self.post_receive(number) != 0 {
                self.unposted.push(number);
                break;
            }
        }
        for _ in 0..self.unsent.len() {
            let Some(number) = self.unsent.pop_front() else {
                break;
            };
            self.send_answer(number);
        }
        for at in (0..self.listed.len()).rev() {
            let number = self.listed[at];
            self.send_line(number);
            if let Some(line) = &mut self.lines[number as usize] {
                line.listed = line.has_more();
                if line.listed {
                    continue;
                }
            }
            self.listed.swap_remove(at);
        }
    }

    /// Sends the batches of a line that may be sent now.
    fn send_line(&mut self, number: u32) {
        loop {
            let Some(line) = &mut self.lines[number as usize] else {
                return;
            };
            if line.waiting.is_empty()
                && line.may_send_early()
                && let Some(current) = line.current.take()
            {
                line.waiting.push_back(current);
            }
            let Some(&batch) = line.waiting.front().filter(|_| line.may_send()) else {
                return;
            };
            let message = &mut self.batches[batch as usize];
            message.seal(line.cookie, line.client, line.sequence);
            let rc = {
                let (words, to) = (&self.batches[batch as usize].words, line.address);
                self.post_send(words, to, Message::Batch(batch))
            };
            let Some(line) = &mut self.lines[number as usize] else {
                return;
            };
            line.stuck = rc == EAGAIN;
            match rc {
                0 => {
                    self.batches[batch as usize].held = true;
                    line.waiting.pop_front();
                    line.unanswered.push_back(batch);
                    line.sequence = line.sequence.wrapping_add(1);
                }
                EAGAIN => return,
                rc => {
                    self.broken.push((line.endpoint, rc));
                    return;
                }
            }
        }
    }

    fn send_answer(&mut self, number: u32) {
        let answer = &self.answers[number as usize];
        let (client, cookie) = answer.client;
        let client = self.clients.get(client as usize).and_then(Option::as_ref);
        let Some(client) = client.filter(|c| c.cookie == cookie) else {
            // Its origin left without waiting for it, and the address is no longer in the address vector.
            self.free_answers.push(number);
            return;
        };
        match self.post_send(&answer.words, client.address, Message::Answer(number)) {
            0 => {}
            EAGAIN => self.unsent.push_back(number),
            rc => self.answer_failed(number, i32::try_from(-rc).unwrap_or(ffi::FI_EOTHER as i32)),
        }
    }

    /// Sends an answer again later, unless its origin is gone: the origin waits for it, and ignores a second one.
    #[cold]
    fn answer_failed(&mut self, number: u32, code: i32) {
        let answer = &mut self.answers[number as usize];
        answer.failures += 1;
        if peer_is_gone(code) || answer.failures >= MOST_FAILURES {
            tracing::warn!("an answer could not be sent: {}", describe(code));
            self.free_answers.push(number);
        } else {
            self.unsent.push_back(number);
        }
    }

    /// Handles the completion of a message. Executes the commands of a batch, or ends the operations that an answer
    /// covers; the caller then [takes](Self::ended) them.
    pub(crate) fn completed(&mut self, message: Message, regions: &Lock<Regions>) {
        match message {
            Message::Receive(number) => {
                self.received(number, regions);
                if self.post_receive(number) != 0 {
                    self.unposted.push(number);
                }
            }
            Message::Batch(number) => self.sent(number),
            Message::Answer(number) => self.free_answers.push(number),
        }
    }

    /// Handles the failure of a message.
    #[cold]
    pub(crate) fn failed(&mut self, message: Message, code: i32) {
        match message {
            Message::Receive(number) => {
                tracing::warn!("a message could not be received: {}", describe(code));
                // It may have come in part.
                self.buffers[number as usize][..Header::WORDS].fill(0);
                self.unposted.push(number);
            }
            Message::Batch(number) => {
                let line = self.lines.get(self.batches[number as usize].line as usize);
                if let Some(Some(line)) = line {
                    self.broken.push((line.endpoint, -(code as isize)));
                }
                self.sent(number);
            }
            Message::Answer(number) => self.answer_failed(number, code),
        }
    }

    /// The provider no longer reads a batch.
    fn sent(&mut self, number: u32) {
        let batch = &mut self.batches[number as usize];
        batch.held = false;
        if batch.over {
            self.free_batches.push(number);
        }
    }

    fn received(&mut self, number: u32, regions: &Lock<Regions>) {
        let mut buffer = std::mem::take(&mut self.buffers[number as usize]);
        let handled = match Header::read(&mut buffer) {
            Err(why) => Err(why),
            Ok((header, words)) => match header.kind {
                Kind::Batch => self.execute(header, words, regions),
                Kind::Answer | Kind::Refusal => self.answered(header, words),
                Kind::Farewell => self.leave(&header),
                Kind::Alive => Ok(()),
            },
        };
        // A stale header must not be read again if a later message is shorter than one.
        buffer[..Header::WORDS].fill(0);
        self.buffers[number as usize] = buffer;
        if let Err(why) = handled {
            tracing::warn!("a message of another process is ignored: {why}");
        }
    }

    /// Executes a batch when its turn comes, and those that waited for it.
    fn execute(
        &mut self,
        header: Header,
        words: &mut [u64],
        regions: &Lock<Regions>,
    ) -> Result<(), &'static str> {
        let (number, first) = match header.client {
            UNKNOWN => self.introduce(&header, words)?,
            known => (known, Header::WORDS),
        };
        let client = self
            .clients
            .get_mut(number as usize)
            .and_then(Option::as_mut);
        let client = client.filter(|c| c.cookie == header.cookie && c.line == header.line);
        let client = client.ok_or("it is of an unknown client")?;
        match header.sequence.wrapping_sub(client.sequence) {
            0 => {}
            ahead if (ahead as usize) < WINDOW => {
                client.early.push((header, words.to_vec()));
                return Ok(());
            }
            _ => return Err("it is not one of the next ones of its client"),
        }
        self.execute_next((number, header), (words, first), regions);
        while let Some(client) = &mut self.clients[number as usize]
            && let Some(at) = client
                .early
                .iter()
                .position(|(h, _)| h.sequence == client.sequence)
        {
            let (header, mut words) = client.early.swap_remove(at);
            let batch = (&mut words[..], Header::WORDS);
            self.execute_next((number, header), batch, regions);
        }
        Ok(())
    }

    /// Executes the batch that is a client's next one, and sends its answer.
    fn execute_next(
        &mut self,
        (number, header): (u32, Header),
        (words, first): (&mut [u64], usize),
        regions: &Lock<Regions>,
    ) {
        let Some(client) = &mut self.clients[number as usize] else {
            return;
        };
        client.sequence = client.sequence.wrapping_add(1);
        let cookie = client.cookie;
        let reply = self.free_answers.pop().unwrap_or_else(|| {
            self.answers.push(Answer::default());
            self.answers.len() as u32 - 1
        });
        let answer = &mut self.answers[reply as usize];
        (answer.client, answer.failures) = ((number, cookie), 0);
        let header = Header {
            client: number,
            ..header
        };
        if let Err(why) = client::check(&header, words, first) {
            tracing::warn!("the operations of a message are refused: {why}");
            answer.words.clear();
            answer.words.resize(Header::WORDS, 0);
            let refusal = Header {
                kind: Kind::Refusal,
                entries: 0,
                results: 0,
                ..header
            };
            refusal.write(&mut answer.words);
        } else {
            client::execute(
                &mut self.responder,
                regions,
                (words, first),
                &mut answer.words,
                header,
            );
        }
        self.send_answer(reply);
    }

    /// Makes an origin known, whose first batch this is. Returns its number, and the word at which the entries begin.
    #[cold]
    fn introduce(&mut self, header: &Header, words: &[u64]) -> Result<(u32, usize), &'static str> {
        let (name, used) = wire::take_address(&words[Header::WORDS..])?;
        let own = &self.provider.address;
        if check_form(self.provider.format, &name, own).is_err() {
            return Err("the address of its endpoint is of another kind");
        }
        if header.sequence != 0 {
            return Err("it introduces its sender, but is not its first one");
        }
        let mut address = ffi::FI_ADDR_NOTAVAIL;
        // SAFETY: the address vector is live; the name has the length of this provider's addresses.
        let inserted = unsafe {
            ffi::fi_av_insert(self.provider.av, name.as_ptr().cast(), 1, &mut address, 0)
        };
        if inserted != 1 || address == ffi::FI_ADDR_NOTAVAIL {
            return Err("the provider did not accept the address of its endpoint");
        }
        let number = vacant(&mut self.clients);
        self.clients[number as usize] = Some(Client {
            address,
            line: header.line,
            cookie: header.cookie,
            sequence: 0,
            early: Vec::new(),
        });
        Ok((number, Header::WORDS + used))
    }

    /// Forgets a client that sends no more batches.
    fn leave(&mut self, header: &Header) -> Result<(), &'static str> {
        let slot = self
            .clients
            .get_mut(header.client as usize)
            .ok_or("it is of an unknown client")?;
        if let Some(client) = slot.take_if(|c| c.cookie == header.cookie && c.line == header.line) {
            let mut address = client.address;
            // SAFETY: the address vector is live, and `introduce` inserted the address for this client.
            unsafe { ffi::fi_av_remove(self.provider.av, &mut address, 1) };
        }
        Ok(())
    }

    /// Ends the operations that an answer covers.
    fn answered(&mut self, header: Header, words: &[u64]) -> Result<(), &'static str> {
        let line = self
            .lines
            .get_mut(header.line as usize)
            .and_then(Option::as_mut);
        let Some(line) = line.filter(|line| line.cookie == header.cookie) else {
            // Its line was given up.
            return Ok(());
        };
        let position = line
            .unanswered
            .iter()
            .position(|n| self.batches[*n as usize].sequence == header.sequence);
        let Some(number) = position.and_then(|at| line.unanswered.remove(at)) else {
            return Ok(());
        };
        line.is_answered(header.client);
        let batch = &mut self.batches[number as usize];
        if header.kind == Kind::Refusal {
            batch.fail(line.endpoint, Status::BAD_PARAM, &mut self.ended);
        } else if batch.is_answered_by(&header, words) {
            let (failures, results) = words[Header::WORDS..].split_at(header.entries as usize);
            batch.answer(line.endpoint, failures, results, &mut self.ended);
        } else {
            batch.fail(line.endpoint, Status::ERROR, &mut self.ended);
        }
        self.end_batch(number);
        Ok(())
    }

    fn end_batch(&mut self, number: u32) {
        let batch = &mut self.batches[number as usize];
        batch.over = true;
        if !batch.held {
            self.free_batches.push(number);
        }
    }

    /// Operations that are over and were not taken yet.
    #[inline]
    pub(crate) fn ended(&mut self) -> &mut Ended {
        &mut self.ended
    }

    /// Whether operations or peers failed that were not taken yet.
    #[inline]
    pub(crate) fn has_failures(&self) -> bool {
        !self.ended.refused.is_empty() || !self.ended.lost.is_empty() || !self.broken.is_empty()
    }

    /// The endpoints are closed: nothing is sent or posted any more.
    #[cold]
    pub(crate) fn shut(&mut self) {
        self.closed = true;
        self.listed.clear();
        self.unsent.clear();
        self.unposted.clear();
    }

    /// A peer to which a message could not be sent, with the provider's code.
    pub(crate) fn take_broken(&mut self) -> Option<(NonNull<Endpoint>, isize)> {
        self.broken.pop()
    }

    /// Ends all operations to a peer as failed, and returns them.
    #[cold]
    pub(crate) fn abandon(&mut self, endpoint: NonNull<Endpoint>, status: Status) -> Ended {
        let mut ended = Ended::default();
        let number = self.by_endpoint.get(&endpoint);
        let line = number.and_then(|number| self.lines[*number as usize].as_mut());
        let Some(line) = line else {
            return ended;
        };
        let mut all: Vec<u32> = line.unanswered.drain(..).collect();
        all.extend(line.waiting.drain(..));
        all.extend(line.current.take());
        for number in all {
            self.batches[number as usize].fail(endpoint, status, &mut ended);
            self.end_batch(number);
        }
        ended
    }

    /// Removes the line to a peer that is released. Returns the operations that were not over, which fail.
    pub(crate) fn remove(&mut self, endpoint: NonNull<Endpoint>, status: Status) -> Ended {
        let ended = self.abandon(endpoint, status);
        self.broken.retain(|(broken, _)| *broken != endpoint);
        self.last = None;
        let Some(number) = self.by_endpoint.remove(&endpoint) else {
            return ended;
        };
        self.listed.retain(|listed| *listed != number);
        let Some(line) = self.lines[number as usize].take() else {
            return ended;
        };
        for batch in &mut self.batches {
            if batch.line == number {
                batch.line = NOBODY;
            }
        }
        if line.client != UNKNOWN {
            self.send_empty(&line, (number, NOBODY), Kind::Farewell);
        }
        ended
    }

    /// Sends a message without entries to each peer from which an answer is due, to learn whether the connection still
    /// stands: its error then names the line.
    #[cold]
    pub(crate) fn send_alive(&mut self) {
        for number in 0..self.lines.len() {
            if let Some(mut line) = self.lines[number].take() {
                // One at a time: a target that takes nothing leaves the provider's queue to others.
                let sent = |b: &Batch| b.held && b.is_empty() && b.line == number as u32;
                if line.is_to_knock() && !self.batches.iter().any(sent) {
                    let rc = self.send_empty(&line, (number as u32, number as u32), Kind::Alive);
                    line.stuck = rc == EAGAIN;
                }
                self.lines[number] = Some(line);
            }
        }
    }

    /// Peers for which the provider took no message when it was asked last.
    pub(crate) fn stuck(&self) -> impl Iterator<Item = NonNull<Endpoint>> {
        let stuck = self.lines.iter().flatten().filter(|line| line.stuck);
        stuck.map(|line| line.endpoint)
    }

    /// Sends a message without entries, and returns the provider's code. An error is told to the line `to_tell`.
    fn send_empty(&mut self, line: &Line, (number, to_tell): (u32, u32), kind: Kind) -> isize {
        let batch = self.free_batches.pop().unwrap_or_else(|| {
            self.batches.push(Batch::default());
            self.batches.len() as u32 - 1
        });
        let message = &mut self.batches[batch as usize];
        message.begin(to_tell, None);
        Header {
            kind,
            cookie: line.cookie,
            line: number,
            client: line.client,
            sequence: 0,
            entries: 0,
            results: 0,
        }
        .write(&mut message.words);
        let rc = self.post_send(
            &self.batches[batch as usize].words,
            line.address,
            Message::Batch(batch),
        );
        match rc {
            0 => {
                self.batches[batch as usize].held = true;
                self.batches[batch as usize].over = true;
            }
            rc => {
                self.free_batches.push(batch);
                if rc != EAGAIN && kind == Kind::Alive {
                    self.broken.push((line.endpoint, rc));
                }
            }
        }
        rc
    }

    /// Whether answers wait to be sent.
    pub(crate) fn owes_answers(&self) -> bool {
        !self.closed && self.free_answers.len() < self.answers.len()
    }
}

/// The number of a place that is free, made if there is none.
fn vacant<T>(places: &mut Vec<Option<T>>) -> u32 {
    let free = places.iter().position(Option::is_none);
    free.unwrap_or_else(|| {
        places.push(None);
        places.len() - 1
    }) as u32
}

//! The target's side of messages: the origins that send batches here, and the answers to them.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use libfabric_sys as ffi;
use libfabric_sys::fi_addr_t;

use crate::base::error::{describe, peer_is_gone};
use crate::base::lock::Lock;
use crate::fabric::addresses::Addresses;
use crate::fabric::msg::execute::{check, execute};
use crate::fabric::msg::inbox::{Buffer, Inbox, Sender};
use crate::fabric::msg::line::WINDOW;
use crate::fabric::msg::origin::SPARE;
use crate::fabric::msg::port::{EAGAIN, Port};
use crate::fabric::msg::vacant;
use crate::fabric::msg::wire::{Header, Kind, MOST_WORDS, UNKNOWN, take_address};
use crate::mem::regions::Regions;
use crate::op::marked::Message;
use crate::op::responder::Responder;
use crate::peer::address::check_form;
use crate::peer::endpoint::Endpoint;

/// An origin that sends batches here. It stays until its farewell. That of an origin that died, or whose farewell its
/// provider did not take, stays until the transport closes: some hundred bytes, and an entry of the address vector.
pub(super) struct Client {
    pub(super) address: fi_addr_t,
    /// What identifies its line at the origin.
    pub(super) line: u32,
    pub(super) cookie: u64,
    /// The connected peer that has its address, if the host takes sends.
    sender: Sender,
    /// The number of the batch that comes next.
    pub(super) sequence: u32,
    /// Batches that came before their turn.
    pub(super) early: Vec<(Header, Vec<u64>)>,
}

/// Failures after which an answer is sent again only when its origin asks whether the connection stands, and how many answers
/// are kept for that.
const MOST_FAILURES: u32 = 16;
const MOST_PARKED: usize = 64;

/// An answer that the provider has not sent yet.
#[derive(Default)]
struct Answer {
    words: Vec<u64>,
    /// Its receiver: the client's number and cookie.
    client: (u32, u64),
    /// How often it could not be sent.
    failures: u32,
}

/// What a transport keeps as a target.
pub(super) struct Target {
    addresses: Arc<Addresses>,
    /// The format of addresses (`FI_ADDR_*`, `FI_SOCKADDR*`), and the address of this process's endpoint.
    format: u32,
    address: Vec<u8>,
    /// Words of the longest answer.
    most_answered: usize,
    responder: Responder,
    /// Sends of peers, if the host takes them.
    pub(super) inbox: Option<Box<Inbox>>,
    /// Batches that were executed.
    pub(super) served: u64,
    clients: Vec<Option<Client>>,
    free_clients: Vec<u32>,
    answers: Vec<Answer>,
    free_answers: Vec<u32>,
    /// Answers that the provider had no room for.
    unsent: VecDeque<u32>,
    /// Answers that could not be sent.
    parked: Vec<u32>,
}

impl Target {
    pub(super) fn new(
        addresses: Arc<Addresses>,
        (format, address): (u32, Vec<u8>),
        most_answered: usize,
    ) -> Target {
        Target {
            addresses,
            format,
            address,
            most_answered,
            responder: Responder::default(),
            inbox: None,
            served: 0,
            clients: Vec::new(),
            free_clients: Vec::new(),
            answers: Vec::new(),
            free_answers: Vec::new(),
            unsent: VecDeque::new(),
            parked: Vec::new(),
        }
    }

    /// The addresses of the origins that send batches here.
    pub(super) fn origins(&self) -> impl Iterator<Item = fi_addr_t> {
        self.clients.iter().flatten().map(|client| client.address)
    }

    /// Whether sends wait for the host.
    #[inline]
    pub(super) fn has_sends(&self) -> bool {
        self.inbox.as_ref().is_some_and(|inbox| inbox.has_sends())
    }

    /// Whether sends of the message that came last are still in the buffer of this receive.
    #[inline]
    pub(super) fn keeps(&self, receive: u32) -> bool {
        let inbox = self.inbox.as_ref();
        inbox.is_some_and(|inbox| inbox.keeps(receive))
    }

    /// Whether answers wait for room at the provider.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Whether answers are not sent yet, or the provider still reads them.
    pub(super) fn owes_answers(&self) -> bool {
        self.free_answers.len() + self.parked.len() < self.answers.len()
    }

    /// An origin asks whether the connection stands: its answers that could not be sent are sent again.
    #[cold]
    pub(super) fn asked(&mut self, header: &Header) {
        for at in (0..self.parked.len()).rev() {
            let number = self.parked[at];
            let answer = &mut self.answers[number as usize];
            if answer.client.1 == header.cookie {
                answer.failures = 0;
                self.unsent.push_back(number);
                self.parked.swap_remove(at);
            }
        }
    }

    /// The endpoints are closed: nothing is sent any more.
    pub(super) fn shut(&mut self) {
        self.unsent.clear();
    }

    /// Sends the answers that the provider had no room for.
    pub(super) fn send_waiting(&mut self, port: &Port) {
        for _ in 0..self.unsent.len() {
            let Some(number) = self.unsent.pop_front() else {
                break;
            };
            self.send_answer(port, number);
        }
    }

    /// The provider no longer reads an answer.
    #[inline]
    pub(super) fn sent(&mut self, number: u32) {
        if self.free_answers.len() >= SPARE {
            self.answers[number as usize].words.shrink_to(MOST_WORDS);
        }
        self.free_answers.push(number);
    }

    /// Executes a batch, which is in this buffer, when its turn comes, and those that waited for it.
    pub(super) fn execute(
        &mut self,
        port: &Port,
        (header, words): (Header, &mut [u64]),
        buffer: Buffer,
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
                let mut early = client.early.iter();
                if early.any(|(h, _)| h.sequence == header.sequence) {
                    return Err("one with its number waits already");
                }
                client.early.push((header, words.to_vec()));
                return Ok(());
            }
            _ => return Err("it is not one of the next ones of its client"),
        }
        let batch = (words, first, Some(buffer));
        self.execute_next(port, (number, header), batch, regions);
        while let Some(client) = &mut self.clients[number as usize]
            && let Some(at) = client
                .early
                .iter()
                .position(|(h, _)| h.sequence == client.sequence)
        {
            let (header, mut words) = client.early.swap_remove(at);
            let batch = (&mut words[..], Header::WORDS, None);
            self.execute_next(port, (number, header), batch, regions);
        }
        Ok(())
    }

    /// Executes the batch that is a client's next one, and sends its answer.
    fn execute_next(
        &mut self,
        port: &Port,
        (number, header): (u32, Header),
        (words, first, buffer): (&mut [u64], usize, Option<Buffer>),
        regions: &Lock<Regions>,
    ) {
        let Some(client) = &mut self.clients[number as usize] else {
            return;
        };
        client.sequence = client.sequence.wrapping_add(1);
        self.served += 1;
        let cookie = client.cookie;
        let inbox = self.inbox.as_deref();
        let peer = inbox.and_then(|inbox| inbox.peer(client.address, &mut client.sender));
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
        let checked = check(
            &header,
            (words, first),
            self.inbox.is_some(),
            self.most_answered,
        );
        if let Err(why) = checked {
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
            let inbox = self.inbox.as_deref_mut();
            let inbox = inbox.map(|inbox| (inbox, peer, buffer));
            execute(
                (&mut self.responder, inbox),
                regions,
                (words, first),
                &mut answer.words,
                header,
            );
        }
        if header.kind == Kind::Unanswered {
            self.free_answers.push(reply);
        } else {
            self.send_answer(port, reply);
        }
    }

    /// Makes an origin known, whose first batch this is. Returns its number, and the word at which the entries begin.
    #[cold]
    fn introduce(&mut self, header: &Header, words: &[u64]) -> Result<(u32, usize), &'static str> {
        let (name, used) = take_address(&words[Header::WORDS..])?;
        let own = &self.address;
        if check_form(self.format, &name, own).is_err() {
            return Err("the address of its endpoint is of another kind");
        }
        if header.sequence != 0 {
            return Err("it introduces its sender, but is not its first one");
        }
        // SAFETY: `check_form` verified that the name has the form of this provider's addresses.
        let address = unsafe { self.addresses.insert(&name) };
        let address = address.ok().flatten();
        let address = address.ok_or("the provider did not accept the address of its endpoint")?;
        let number = vacant(&mut self.clients, &mut self.free_clients);
        self.clients[number as usize] = Some(Client {
            address,
            line: header.line,
            cookie: header.cookie,
            sender: Sender::default(),
            sequence: 0,
            early: Vec::new(),
        });
        Ok((number, Header::WORDS + used))
    }

    /// Forgets a client that sends no more batches.
    pub(super) fn leave(&mut self, header: &Header) -> Result<(), &'static str> {
        let slot = self
            .clients
            .get_mut(header.client as usize)
            .ok_or("it is of an unknown client")?;
        if let Some(client) = slot.take_if(|c| c.cookie == header.cookie && c.line == header.line) {
            self.free_clients.push(header.client);
            if let Err(e) = self.addresses.remove(client.address) {
                tracing::warn!("the address of an origin that leaves stays: {e}");
            }
        }
        Ok(())
    }

    /// Notes the address of a connected peer's endpoint, so that its sends name it.
    pub(super) fn connect(&mut self, endpoint: NonNull<Endpoint>) {
        if let Some(inbox) = &mut self.inbox {
            // SAFETY: the caller has just connected the peer.
            inbox.connect(unsafe { endpoint.as_ref() }.address, endpoint);
        }
    }

    /// Forgets a peer that is released.
    pub(super) fn disconnect(&mut self, endpoint: NonNull<Endpoint>) {
        if let Some(inbox) = &mut self.inbox {
            // SAFETY: the caller releases the peer, which is live until then.
            inbox.disconnect(unsafe { endpoint.as_ref() }.address, endpoint);
        }
    }

    fn send_answer(&mut self, port: &Port, number: u32) {
        let answer = &self.answers[number as usize];
        let (client, cookie) = answer.client;
        let client = self.clients.get(client as usize).and_then(Option::as_ref);
        let Some(client) = client.filter(|c| c.cookie == cookie) else {
            // Its origin left without waiting for it, and the address is no longer in the address vector.
            self.free_answers.push(number);
            return;
        };
        match port.send(&answer.words, client.address, Message::Answer(number)) {
            0 => {}
            EAGAIN => self.unsent.push_back(number),
            rc => self.answer_failed(number, i32::try_from(-rc).unwrap_or(ffi::FI_EOTHER as i32)),
        }
    }

    /// Sends an answer again later: the origin waits for it, and ignores a second one. One whose origin cannot be reached is
    /// kept until the origin asks.
    #[cold]
    pub(super) fn answer_failed(&mut self, number: u32, code: i32) {
        let answer = &mut self.answers[number as usize];
        answer.failures += 1;
        if peer_is_gone(code) || answer.failures >= MOST_FAILURES {
            tracing::warn!("an answer could not be sent: {}", describe(code));
            match self.parked.len() < MOST_PARKED {
                true => self.parked.push(number),
                false => self.free_answers.push(number),
            }
        } else {
            self.unsent.push_back(number);
        }
    }
}

#[cfg(test)]
mod tests;

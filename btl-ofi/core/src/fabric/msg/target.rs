//! The target's side of messages: the origins that send batches here, and the answers to them.

mod answers;
mod deferred;
mod held;
mod pauses;
mod receipts;

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use libfabric_sys::fi_addr_t;

use crate::base::lock::Lock;
use crate::fabric::addresses::Addresses;
use crate::fabric::msg::execute::{check, execute};
use crate::fabric::msg::inbox::{Buffer, Inbox, Sender};
use crate::fabric::msg::line::WINDOW;
use crate::fabric::msg::places::vacant;
use crate::fabric::msg::port::Port;
use crate::fabric::msg::target::answers::{Answer, Free, Parked, Receiver};
use crate::fabric::msg::target::held::Held;
use crate::fabric::msg::target::pauses::Pauses;
use crate::fabric::msg::wire::{Header, Kind, UNKNOWN, take_introduction};
use crate::mem::regions::Regions;
use crate::op::responder::Responder;
use crate::peer::address::check_form;
use crate::peer::endpoint::Endpoint;

/// Maximum number of origins at a time. This exceeds the ranks of any job, and each rank has one line.
const MOST_CLIENTS: usize = 1 << 20;

/// An origin that sends batches here. The origin's state is kept until its farewell. If no farewell arrives (the origin
/// died, or its provider could not send it), it is kept until the transport closes: some hundred bytes, an entry of the
/// address vector, and its parked answers (at most [`MOST_DUE`](crate::fabric::msg::line::MOST_DUE)).
pub(super) struct Client {
    pub(super) address: fi_addr_t,
    /// The origin's key: the first word of every message to it.
    pub(super) key: u64,
    /// The number and the cookie that identify the line at the origin.
    pub(super) line: u32,
    pub(super) cookie: u64,
    /// The connected peer with this address, if the host receives sends.
    sender: Sender,
    /// The number of the next batch.
    pub(super) sequence: u32,
    /// Batches that wait for their turn ([`held`]).
    early: Vec<(Header, Vec<u64>)>,
    /// Whether the client is in [`Held::clients`], because its next batch waits.
    is_held: bool,
    /// Number of its answers that were made and have not left, and how many of these are
    /// [parked](Target::parked).
    due: u8,
    parked: u8,
    /// Whether nothing is sent to the client for the moment.
    paused: bool,
    /// Whether the latest executed batch has no answer that covers it.
    has_covered: bool,
}

impl Client {
    fn is_of(&self, header: &Header) -> bool {
        self.cookie == header.cookie && self.line == header.line
    }
}

/// A transport's state as a target.
pub(super) struct Target {
    addresses: Arc<Addresses>,
    /// The format of addresses (`FI_ADDR_*`, `FI_SOCKADDR*`), and the address of this process's endpoint.
    own: (u32, Vec<u8>),
    /// Words of the longest answer.
    most_answered: usize,
    responder: Responder,
    /// Sends of peers, if the host receives them.
    pub(super) inbox: Option<Box<Inbox>>,
    /// Number of executed batches.
    #[cfg(test)]
    pub(super) served: u64,
    clients: Vec<Option<Client>>,
    free_clients: Vec<u32>,
    answers: Vec<Answer>,
    free_answers: Free,
    /// Answers that wait for a batch to their origin's process, and since when the first one does.
    deferred: Vec<u32>,
    deferred_since: u64,
    /// Answers that the next progress sends.
    unsent: VecDeque<u32>,
    /// Origins for which the provider had no room, and the answers to them.
    pauses: Pauses,
    /// Answers whose send failed. An origin has at most `MOST_DUE` answers here.
    parked: Parked,
    /// Batches that wait for their turn.
    held: Held,
    /// Number of receipts that have not left.
    receipts: usize,
    /// Words of the answers that were made and have not left.
    owed_words: usize,
}

impl Target {
    pub(super) fn new(
        addresses: Arc<Addresses>,
        own: (u32, Vec<u8>),
        most_answered: usize,
    ) -> Target {
        Target {
            addresses,
            own,
            most_answered,
            responder: Responder::default(),
            inbox: None,
            #[cfg(test)]
            served: 0,
            clients: Vec::new(),
            free_clients: Vec::new(),
            answers: Vec::new(),
            free_answers: Free::default(),
            deferred: Vec::new(),
            deferred_since: 0,
            unsent: VecDeque::new(),
            pauses: Pauses::default(),
            parked: Parked::default(),
            held: Held::default(),
            receipts: 0,
            owed_words: 0,
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

    /// Whether the buffer of this receive still holds sends of the latest message.
    #[inline]
    pub(super) fn keeps(&self, receive: u32) -> bool {
        let inbox = self.inbox.as_ref();
        inbox.is_some_and(|inbox| inbox.keeps(receive))
    }

    /// Ends all sends. The caller has closed the endpoints.
    pub(super) fn close(&mut self) {
        self.unsent.clear();
        self.deferred.clear();
        self.pauses.clear();
    }

    /// Executes the batch in this buffer when its turn comes, and then the batches that waited for
    /// it.
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
        let client = client.filter(|client| client.is_of(&header));
        let client = client.ok_or("it is of an unknown client")?;
        let ahead = header.sequence.wrapping_sub(client.sequence);
        if ahead as usize >= WINDOW {
            return Err("it is not one of the next ones of its client");
        }
        if ahead > 0 || client.is_held || !client.may_execute(header.kind, self.owed_words) {
            return self.keep_batch(number, (header, words));
        }
        let has_more = !client.early.is_empty();
        let batch = (words, first, Some(buffer));
        self.execute_next(port, (number, header), batch, regions);
        if has_more {
            self.execute_waiting(port, number, regions);
        }
        Ok(())
    }

    /// Executes the next batch of a client, and sends its answer.
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
        client.has_covered = header.kind == Kind::Unanswered;
        client.due += u8::from(!client.has_covered);
        #[cfg(test)]
        {
            self.served += 1;
        }
        let (key, cookie, address) = (client.key, client.cookie, client.address);
        let inbox = self.inbox.as_deref();
        let peer = inbox.and_then(|inbox| inbox.peer(client.address, &mut client.sender));
        let reply = self.take_answer(Receiver::Client(number, cookie));
        let answer = &mut self.answers[reply as usize];
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
            refusal.write(key, &mut answer.words);
        } else {
            let inbox = self.inbox.as_deref_mut();
            let inbox = inbox.map(|inbox| (inbox, peer, buffer));
            execute(
                (&mut self.responder, inbox),
                regions,
                (words, first),
                &mut answer.words,
                (header, key),
            );
        }
        if header.kind == Kind::Unanswered {
            self.free_answer(reply);
        } else {
            self.answers[reply as usize].is_due = true;
            self.owe(reply, true);
            self.send_or_defer(port, (header.kind, address), reply);
        }
    }

    /// Adds the origin of a first batch as a client. Returns the client's number, and the word at which the batch's
    /// entries begin.
    #[cold]
    fn introduce(&mut self, header: &Header, words: &[u64]) -> Result<(u32, usize), &'static str> {
        if header.sequence != 0 {
            return Err("it introduces its sender, but is not its first one");
        }
        if self.clients.len() - self.free_clients.len() >= MOST_CLIENTS {
            return Err("there are too many origins");
        }
        let (address, key, used) = self.insert_origin(words)?;
        let number = vacant(&mut self.clients, &mut self.free_clients);
        self.clients[number as usize] = Some(Client {
            address,
            key,
            line: header.line,
            cookie: header.cookie,
            sender: Sender::default(),
            sequence: 0,
            early: Vec::new(),
            is_held: false,
            due: 0,
            parked: 0,
            paused: false,
            has_covered: false,
        });
        Ok((number, Header::WORDS + used))
    }

    /// Inserts the address that an origin sends behind the header. Returns the address, the origin's key, and the number of
    /// words that the address and the key took.
    fn insert_origin(&self, words: &[u64]) -> Result<(fi_addr_t, u64, usize), &'static str> {
        let (origin, used) = take_introduction(&words[Header::WORDS..])?;
        let (key, name) = (origin.key, origin.address);
        if check_form(self.own.0, &name, &self.own.1).is_err() {
            return Err("the address of its endpoint is of another kind");
        }
        // SAFETY: `check_form` verified that the name has the form of this provider's addresses.
        let address = unsafe { self.addresses.insert(&name) };
        let address = address.ok().flatten();
        let address = address.ok_or("the provider did not accept the address of its endpoint")?;
        Ok((address, key, used))
    }

    /// Removes a client that sends no more batches.
    pub(super) fn remove_client(&mut self, header: &Header) -> Result<(), &'static str> {
        let slot = self
            .clients
            .get_mut(header.client as usize)
            .ok_or("it is of an unknown client")?;
        if let Some(client) = slot.take_if(|client| client.is_of(header)) {
            self.free_clients.push(header.client);
            self.held.remove(header.client, &client);
            let receiver = Receiver::Client(header.client, client.cookie);
            if client.parked > 0 {
                for number in self.take_parked(receiver) {
                    self.free_answer(number);
                }
            }
            if client.paused {
                for number in self.end_pause(receiver) {
                    self.free_answer(number);
                }
            }
            if let Err(e) = self.addresses.remove(client.address) {
                tracing::warn!("the address of an origin that leaves stays: {e}");
            }
        }
        Ok(())
    }

    /// Records the address of a connected peer's endpoint, so that the peer's sends name it.
    pub(super) fn connect(&mut self, endpoint: NonNull<Endpoint>) {
        if let Some(inbox) = &mut self.inbox {
            // SAFETY: the caller has just connected the peer.
            inbox.connect(unsafe { endpoint.as_ref() }.address, endpoint);
        }
    }

    /// Removes a peer that is released.
    pub(super) fn disconnect(&mut self, endpoint: NonNull<Endpoint>) {
        if let Some(inbox) = &mut self.inbox {
            // SAFETY: the caller releases the peer, which is live until then.
            inbox.disconnect(unsafe { endpoint.as_ref() }.address, endpoint);
        }
    }
}

#[cfg(test)]
mod tests;

//! Receipts: a target's reports to an origin about its batches, besides answers. An origin asks for a receipt if answers
//! are late; a target that closes sends one unasked.

use crate::fabric::msg::port::Port;
use crate::fabric::msg::target::answers::Receiver;
use crate::fabric::msg::target::{Client, Target};
use crate::fabric::msg::wire::{Header, Kind, UNKNOWN};

/// Maximum number of receipts that have not left: to one origin, and in total to origins that have only asked for receipts.
const MOST_TO_ONE: usize = 2;
const MOST_TO_STRANGERS: usize = 64;

impl Target {
    /// Handles a receipt query: an origin asks which of its batches this process has executed. Also sends parked answers to
    /// the origin again.
    #[cold]
    pub(crate) fn asked(
        &mut self,
        port: &Port,
        header: &Header,
        words: &[u64],
    ) -> Result<(), &'static str> {
        let number = match header.client {
            // Either the answer with the client's number is late, or the origin's first batch is
            // late.
            UNKNOWN => {
                let is_of = |client: &Option<Client>| {
                    client.as_ref().is_some_and(|client| client.is_of(header))
                };
                self.clients.iter().position(is_of)
            }
            known => Some(known as usize),
        };
        let Some(number) = number else {
            let is_stranger = |r: Receiver| matches!(r, Receiver::Stranger(_));
            if self.receipts_to(is_stranger) >= MOST_TO_STRANGERS {
                return Err("too many origins ask that have sent nothing else");
            }
            let (address, key, _) = self.insert_origin(words)?;
            let nothing = Header {
                sequence: 0,
                ..*header
            };
            self.send_receipt(port, (Receiver::Stranger(address), key), nothing);
            return Ok(());
        };
        let client = self.clients.get_mut(number).and_then(Option::as_mut);
        let client = client.filter(|client| client.is_of(header));
        let client = client.ok_or("it is of an unknown client")?;
        let receiver = Receiver::Client(number as u32, client.cookie);
        let header = Header {
            client: number as u32,
            sequence: client.missing(),
            ..*header
        };
        let (is_paused, key) = (client.paused, client.key);
        if std::mem::take(&mut client.parked) > 0 {
            for number in self.take_parked(receiver) {
                self.answers[number as usize].failures = 0;
                self.owe(number, true);
                self.unsent.push_back(number);
            }
        }
        if is_paused {
            let answers = self.end_pause(receiver);
            self.unsent.extend(answers);
        }
        // A receipt that has not left may be for an earlier question. The origin asks again.
        if self.receipts_to(|r| r == receiver) < MOST_TO_ONE {
            self.send_receipt(port, (receiver, key), header);
        }
        Ok(())
    }

    /// The number of receipts to these receivers that have not left.
    fn receipts_to(&self, whom: impl Fn(Receiver) -> bool) -> usize {
        let receipts = self.answers.iter().filter(|answer| answer.is_receipt);
        receipts.filter(|answer| whom(answer.receiver)).count()
    }

    /// Sends origins receipts for executed batches that no answer covers, because this process leaves. Without a receipt,
    /// an origin would take such a batch for lost.
    #[cold]
    pub(crate) fn part(&mut self, port: &Port) {
        for number in 0..self.clients.len() {
            let Some(client) = &mut self.clients[number] else {
                continue;
            };
            // A client that cannot be reached gets no receipt.
            let is_lost = client.parked > 0;
            if !std::mem::take(&mut client.has_covered) || is_lost {
                continue;
            }
            let receiver = Receiver::Client(number as u32, client.cookie);
            let key = client.key;
            let header = Header {
                kind: Kind::Receipt,
                cookie: client.cookie,
                line: client.line,
                client: number as u32,
                sequence: client.sequence,
                entries: 0,
                results: 0,
            };
            self.send_receipt(port, (receiver, key), header);
        }
    }

    /// Whether receipts are not sent yet, or the provider still reads them.
    pub(crate) fn owes_receipts(&self) -> bool {
        self.receipts > 0
    }

    /// Sends a receipt to a process with this key. The caller fills the header, except its kind and the number of answers
    /// that have not left.
    fn send_receipt(&mut self, port: &Port, (receiver, key): (Receiver, u64), header: Header) {
        let answers = self.answers.iter().filter(|a| !a.is_receipt);
        let owed = answers.filter(|answer| answer.receiver == receiver).count();
        let header = Header {
            kind: Kind::Receipt,
            entries: owed as u32,
            ..header
        };
        let number = self.take_answer(receiver);
        self.receipts += 1;
        let answer = &mut self.answers[number as usize];
        answer.is_receipt = true;
        answer.words.clear();
        answer.words.resize(Header::WORDS, 0);
        header.write(key, &mut answer.words);
        self.send_answer(port, number);
    }
}

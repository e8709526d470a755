//! Batches that wait at their target: early batches, and batches of origins whose answers have not been sent.
//!
//! An origin waits for at most [`MOST_DUE`] answers. The origin's next batch may arrive before the provider reports
//! that an answer was sent. So a batch above this limit is kept, not refused. A receipt counts such a batch as
//! executed, because it will be executed.

use std::collections::VecDeque;

use crate::base::lock::Lock;
use crate::fabric::msg::line::MOST_DUE;
use crate::fabric::msg::port::Port;
use crate::fabric::msg::target::{Client, Target};
use crate::fabric::msg::wire::{Header, Kind};
use crate::mem::regions::Regions;

/// Maximum words of all waiting batches: 64 MiB. Further batches are refused.
pub(super) const MOST_HELD: usize = 8 << 20;
/// From this many words of unsent answers on, only one answer is made per origin at a time.
pub(super) const MOST_OWED: usize = 8 << 20;

/// The waiting batches.
#[derive(Default)]
pub(super) struct Held {
    words: usize,
    /// Clients whose next batch waits until an answer has left.
    clients: VecDeque<u32>,
    /// Whether an answer has left since these clients were last checked.
    is_due: bool,
}

impl Held {
    /// Records that an answer has left.
    #[inline]
    pub(super) fn answer_left(&mut self) {
        self.is_due |= !self.clients.is_empty();
    }

    /// Removes the batches of a client.
    pub(super) fn remove(&mut self, number: u32, client: &Client) {
        let words = client.early.iter().map(|(_, words)| words.len());
        self.words -= words.sum::<usize>();
        if client.is_held {
            self.clients.retain(|held| *held != number);
        }
    }
}

impl Client {
    /// Whether the client's next batch, of this kind, may be executed now. `owed_words` is the number of words in
    /// answers that have not left.
    #[inline]
    pub(super) fn may_execute(&self, kind: Kind, owed_words: usize) -> bool {
        let most = if owed_words < MOST_OWED { MOST_DUE } else { 1 };
        usize::from(self.due) < most || kind == Kind::Unanswered
    }

    /// Whether the client's batch with this number waits.
    fn has(&self, sequence: u32) -> bool {
        self.early.iter().any(|(h, _)| h.sequence == sequence)
    }

    /// The number of the first batch that has not arrived.
    pub(super) fn missing(&self) -> u32 {
        let mut next = self.sequence;
        while self.has(next) {
            next = next.wrapping_add(1);
        }
        next
    }
}

impl Target {
    /// Whether batches that wait may be executed.
    #[inline]
    pub(crate) fn has_held(&self) -> bool {
        self.held.is_due
    }

    /// Keeps a batch of a client until it may be executed.
    #[cold]
    pub(super) fn keep_batch(
        &mut self,
        number: u32,
        (header, words): (Header, &[u64]),
    ) -> Result<(), &'static str> {
        let client = self.clients[number as usize].as_mut();
        let client = client.ok_or("it is of an unknown client")?;
        if client.has(header.sequence) {
            return Err("one with its number waits already");
        }
        if self.held.words + words.len() > MOST_HELD {
            return Err("too many wait for their turn");
        }
        self.held.words += words.len();
        client.early.push((header, words.to_vec()));
        if header.sequence == client.sequence {
            client.is_held = true;
            self.held.clients.push_back(number);
        }
        Ok(())
    }

    /// Executes the waiting batches of a client whose turn has come.
    pub(super) fn execute_waiting(&mut self, port: &Port, number: u32, regions: &Lock<Regions>) {
        while let Some(client) = &mut self.clients[number as usize]
            && let Some(at) = (client.early.iter()).position(|(h, _)| h.sequence == client.sequence)
        {
            if !client.may_execute(client.early[at].0.kind, self.owed_words) {
                if !std::mem::replace(&mut client.is_held, true) {
                    self.held.clients.push_back(number);
                }
                return;
            }
            let (header, mut words) = client.early.swap_remove(at);
            if client.early.is_empty() {
                client.early = Vec::new();
            }
            self.held.words -= words.len();
            let batch = (&mut words[..], Header::WORDS, None);
            self.execute_next(port, (number, header), batch, regions);
        }
    }

    /// Executes the waiting batches of clients whose answers have left.
    #[cold]
    pub(crate) fn execute_held(&mut self, port: &Port, regions: &Lock<Regions>) {
        self.held.is_due = false;
        for _ in 0..self.held.clients.len() {
            let Some(number) = self.held.clients.pop_front() else {
                break;
            };
            if let Some(Some(client)) = self.clients.get_mut(number as usize) {
                client.is_held = false;
                self.execute_waiting(port, number, regions);
            }
        }
    }
}

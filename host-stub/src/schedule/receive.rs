//! The receiving side of schedules: messages, offers, and the gets that fetch offered payloads.

use plugin_api::Status;

use super::engine::State;
use super::error::CommError;
use super::fetch::{FETCHED, Fetch, Offer};
use super::matching::{Early, Expected, Key};
use super::run::header;
use crate::mailbox::{Header, Kind};

impl State {
    /// Takes the messages that a rank has sent.
    pub(super) fn listen(&mut self, from: usize) -> bool {
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
                Kind::Failed => self.take_failed(from, header),
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
                // SAFETY: a receive's buffer has the receive's length.
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
                self.keep(from, key, Early::Payload(bytes));
            }
        }
    }

    /// Keeps a message that came before its receive. A message for a broken communicator is dropped, because no
    /// rank will receive it.
    fn keep(&mut self, from: usize, key: Key, early: Early) {
        if !self.broken.contains(&key.communicator()) {
            self.queues[from].early.push_back((key, early));
        }
    }

    fn take_failed(&mut self, from: usize, header: Header) {
        let key = Key::of(&header);
        self.mailbox.take(from, header, &mut []);
        match self.queues[from].take_expected(key) {
            Some(expected) => self.miss(from, &expected),
            None => self.keep(from, key, Early::Failed),
        }
    }

    /// Ends a receive whose sender has no data to send. The schedule continues, because other ranks
    /// wait for its messages.
    pub(super) fn miss(&mut self, from: usize, expected: &Expected) {
        if let Some(schedule) = self.schedule(expected.schedule) {
            let error = CommError::Elsewhere {
                call: schedule.call,
                rank: schedule.scope.rank_of(from).unwrap_or(from),
            };
            schedule.failed.get_or_insert(error);
        }
        self.done(expected.schedule);
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
            None => self.keep(from, key, Early::Offer(offer)),
        }
    }

    /// Starts to fetch the payload that a receive waits for.
    pub(super) fn accept(&mut self, from: usize, expected: Expected, offer: Offer) {
        if offer.len != expected.len {
            // The confirmation prevents that the sender waits forever.
            self.say_fetched(from, expected.key, offer.name);
            self.wrong_length(from, &expected, offer.len);
            return;
        }
        let track = self.tracks.take();
        let names = (expected.schedule, track);
        let fetch = Fetch::new(from, expected.key, offer, names, expected.at);
        self.fetches.push(fetch);
    }

    fn say_fetched(&mut self, to: usize, key: Key, name: u64) {
        let payload: [u8; FETCHED] = name.to_ne_bytes();
        let payload = payload.to_vec();
        self.note(to, header(Kind::Fetched, key, payload.len()), payload);
    }

    fn take_fetched(&mut self, from: usize, header: Header) {
        let mut bytes = [0; FETCHED];
        self.mailbox.take(from, header, &mut bytes);
        let name = u64::from_ne_bytes(bytes);
        let slot = (name & 0xffff_ffff) as usize;
        let Some(place) = self.offers.get_mut(slot) else {
            return;
        };
        let Some(offered) = place.take_if(|o| o.name == name && o.to == from) else {
            // The offer is for a schedule that was given up.
            return;
        };
        self.queues[from].offered = self.queues[from].offered.saturating_sub(1);
        self.done(offered.schedule);
    }

    pub(super) fn advance_fetches(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(fetch) = self.fetches.get_mut(at) {
            let refused = match fetch.ask(&self.transport, &self.mailbox, &self.tracks) {
                Ok(asked) => {
                    moved |= asked;
                    None
                }
                // Earlier gets may be outstanding, so the fetch and its registration stay until they have
                // ended.
                Err(status) => fetch.schedule.take().map(|index| (index, status)),
            };
            let from = fetch.from;
            if let Some((index, status)) = refused {
                moved = true;
                let error = self.peer_failed(index, from, status);
                self.finish(index, error);
            }
            if !self.fetches[at].is_done(&self.tracks) {
                at += 1;
                continue;
            }
            moved = true;
            let fetch = self.fetches.swap_remove(at);
            let failure = self.tracks.track(fetch.track).take_failure();
            match (failure, fetch.schedule) {
                (None, Some(index)) => {
                    self.say_fetched(from, fetch.key, fetch.offer.name);
                    self.done(index);
                }
                (Some(status), Some(index)) => {
                    let error = self.peer_failed(index, from, status);
                    self.finish(index, error);
                }
                (_, None) => {}
            }
            self.tracks.give_back(fetch.track);
        }
        moved
    }
}

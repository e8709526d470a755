//! The queues between two ranks: receives that wait for a message, messages that came before their
//! receive, and messages that could not be sent yet.

use std::collections::VecDeque;

use super::fetch::Offer;
use super::scope::Scope;
use crate::mailbox::Header;

/// The collective that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) context: u16,
    pub(super) sequence: u32,
}

impl Key {
    pub(super) fn of(header: &Header) -> Key {
        Key {
            context: header.context,
            sequence: header.sequence,
        }
    }

    /// The context of the communicator.
    pub(super) fn communicator(&self) -> u16 {
        Scope::context_of(self.context)
    }
}

/// A receive that has begun.
pub(super) struct Expected {
    pub(super) key: Key,
    pub(super) at: *mut u8,
    pub(super) len: usize,
    pub(super) schedule: usize,
}

/// A message that came before its receive.
pub(super) enum Early {
    Payload(Vec<u8>),
    Offer(Offer),
    /// The sender has no data to send.
    Failed,
}

/// A message for which there was no room.
pub(super) enum Outgoing {
    /// A message with bytes of the schedule.
    Payload {
        key: Key,
        at: *const u8,
        len: usize,
        schedule: usize,
    },
    /// A message that the engine made.
    Note { header: Header, payload: Vec<u8> },
}

/// The queues between this rank and another rank. Messages of one collective between two ranks are
/// received in the order in which they were sent.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) expected: Vec<Expected>,
    pub(super) early: VecDeque<(Key, Early)>,
    pub(super) outgoing: VecDeque<Outgoing>,
    /// Offers that the other rank has not fetched.
    pub(super) offered: usize,
}

// SAFETY: the pointers belong to the schedules, which any thread may advance.
unsafe impl Send for Queue {}

impl Queue {
    /// Whether this rank waits for a message of the other rank.
    #[inline]
    pub(super) fn listens(&self) -> bool {
        self.offered > 0 || !self.expected.is_empty()
    }

    /// The receive that a message is for.
    pub(super) fn take_expected(&mut self, key: Key) -> Option<Expected> {
        let index = self.expected.iter().position(|e| e.key == key)?;
        Some(self.expected.remove(index))
    }

    /// Takes the early message of a receive.
    pub(super) fn take_early(&mut self, key: Key) -> Option<Early> {
        let index = self.early.iter().position(|(k, _)| *k == key)?;
        self.early.remove(index).map(|(_, early)| early)
    }

    /// Removes a schedule's receives and messages.
    pub(super) fn forget(&mut self, schedule: usize, key: Key) {
        self.expected.retain(|e| e.schedule != schedule);
        self.outgoing.retain(
            |o| !matches!(o, Outgoing::Payload { schedule: owner, .. } if *owner == schedule),
        );
        self.early.retain(|(k, _)| *k != key);
    }

    /// Removes the early messages of a communicator.
    pub(super) fn forget_all(&mut self, context: u16) {
        self.early.retain(|(key, _)| key.communicator() != context);
    }
}

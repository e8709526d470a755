//! What waits for a message from one rank, what came before it was waited for, and what could not
//! be sent yet.

use std::collections::VecDeque;

use super::fetch::Offer;
use super::scope::Scope;
use crate::mailbox::Header;

/// Which collective a message belongs to.
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

/// A receive that was begun.
pub(super) struct Expected {
    pub(super) key: Key,
    pub(super) at: *mut u8,
    pub(super) len: usize,
    pub(super) schedule: usize,
}

/// What came early.
pub(super) enum Early {
    Payload(Vec<u8>),
    Offer(Offer),
    /// The sender has nothing to send.
    Failed,
}

/// A message that found no room.
pub(super) enum Outgoing {
    /// The schedule's own bytes.
    Payload {
        key: Key,
        at: *const u8,
        len: usize,
        schedule: usize,
    },
    /// A message made by the engine.
    Note { header: Header, payload: Vec<u8> },
}

/// Everything between this rank and another. Messages of one collective between two ranks are
/// received in the order in which they were sent.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) expected: Vec<Expected>,
    pub(super) early: VecDeque<(Key, Early)>,
    pub(super) outgoing: VecDeque<Outgoing>,
    /// Offers that the other has not fetched.
    pub(super) offered: usize,
}

// SAFETY: the pointers are the schedules', which may be advanced by any thread.
unsafe impl Send for Queue {}

impl Queue {
    /// Whether something from the other rank is waited for.
    #[inline]
    pub(super) fn listens(&self) -> bool {
        self.offered > 0 || !self.expected.is_empty()
    }

    /// The receive that a message is for.
    pub(super) fn take_expected(&mut self, key: Key) -> Option<Expected> {
        let index = self.expected.iter().position(|e| e.key == key)?;
        Some(self.expected.remove(index))
    }

    /// What came early for a receive.
    pub(super) fn take_early(&mut self, key: Key) -> Option<Early> {
        let index = self.early.iter().position(|(k, _)| *k == key)?;
        self.early.remove(index).map(|(_, early)| early)
    }

    /// Forgets a schedule.
    pub(super) fn forget(&mut self, schedule: usize, key: Key) {
        self.expected.retain(|e| e.schedule != schedule);
        self.outgoing.retain(
            |o| !matches!(o, Outgoing::Payload { schedule: owner, .. } if *owner == schedule),
        );
        self.early.retain(|(k, _)| *k != key);
    }

    /// Forgets what came early for a communicator.
    pub(super) fn forget_all(&mut self, context: u16) {
        self.early.retain(|(key, _)| key.communicator() != context);
    }
}

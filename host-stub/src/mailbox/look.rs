//! Looks at other ranks: checks whether a rank can be reached, and whether it has given up a collective that
//! this rank waits for.

use std::sync::atomic::{AtomicU64, Ordering};

use plugin_api::Status;

use super::line::{Mailbox, posted};
use super::packing::{pack, unpack};
use super::track::track_done;

/// The value that a rank publishes for another rank if it has failed itself, or has lost a message to the other rank.
/// Any other nonzero word is the number of the lost rank plus one.
pub(super) const FAILED: u64 = pack(0);

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// The rank has given up all collectives with this rank and the named rank, which may be the rank itself.
    GaveUp(usize),
    /// The rank cannot be reached.
    Gone(Status),
}

impl Mailbox {
    /// The word in which this rank reports to another that it has given up.
    #[inline]
    pub(super) fn given_up(&self, to: usize) -> &AtomicU64 {
        &self.words(self.layout.given_up(to), 1)[0]
    }

    /// Reports to the looks of rank `to` that this rank has given up all collectives with `to` and `culprit`. Without a
    /// culprit, this rank has given up all collectives with `to`, permanently.
    #[cold]
    pub(crate) fn give_up(&self, to: usize, culprit: Option<usize>) {
        let told = match culprit.filter(|rank| *rank != self.me) {
            Some(rank) => pack(1 + rank as u64),
            None => FAILED,
        };
        let told_before = self.given_up(to);
        if told == FAILED || told_before.load(Ordering::Relaxed) == 0 {
            told_before.store(told, Ordering::Relaxed);
        }
    }

    /// Starts a get of the word in which another rank reports that it has given up; the get also detects a dead peer.
    /// Returns the result of the last look, `None` while a look is outstanding.
    pub(crate) fn look(&mut self, to: usize) -> Option<Found> {
        let line = &self.lines[to];
        // The failure is not taken, so every later look returns it: no message arrives after a lost message.
        if let Some(status) = line.failure() {
            return Some(Found::Gone(status));
        }
        if !line.looking.is_idle() {
            return None;
        }
        let told = self.words(self.layout.seen(to), 1)[0].load(Ordering::Relaxed);
        let found = match (line.looking.take_failure(), unpack(told)) {
            (Some(status), _) => Found::Gone(status),
            (None, None) => Found::Nothing,
            (None, Some(0)) => Found::GaveUp(to),
            (None, Some(rank)) => Found::GaveUp(rank as usize - 1),
        };
        match (found, self.read(to)) {
            (Found::Nothing, Err(status)) => Some(Found::Gone(status)),
            (found, _) => Some(found),
        }
    }

    /// Gets the word of a rank; false if the transport is busy.
    fn read(&self, to: usize) -> Result<bool, Status> {
        let line = &self.lines[to];
        let into = self.words(self.layout.seen(to), 1).as_ptr();
        let from = 8 * self.layout.given_up(self.me) as u64;
        line.looking.begin();
        // SAFETY: the conditions of `put` hold here too. Only looks write the word, and one look is
        // outstanding at a time.
        let status = unsafe {
            self.transport.get(
                line.endpoint,
                (into.cast_mut().cast(), self.handle()),
                (line.base + from, line.handle.as_ptr()),
                size_of::<u64>(),
                (
                    Some(track_done),
                    line.looking.context(),
                    std::ptr::null_mut(),
                ),
            )
        };
        posted(status, &line.looking)
    }
}

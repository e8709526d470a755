//! Looks at other ranks: whether they can be reached, and whether they have given up what this rank waits for.

use std::sync::atomic::{AtomicU64, Ordering};

use plugin_api::Status;

use super::line::{Mailbox, posted};
use super::packing::{pack, unpack};
use super::track::track_done;

/// What a rank publishes for another that it has failed itself, or has lost a message to it. Every other word names the
/// rank that it has lost, plus one.
pub(super) const FAILED: u64 = pack(0);

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// The rank goes on in no collective with this rank and the one named, which may be the rank itself.
    GaveUp(usize),
    /// The rank cannot be reached.
    Gone(Status),
}

impl Mailbox {
    /// The word in which this rank tells another that it has given up.
    #[inline]
    pub(super) fn given_up(&self, to: usize) -> &AtomicU64 {
        &self.words(self.layout.given_up(to), 1)[0]
    }

    /// Tells the looks of a rank that this one goes on in no collective with it and `culprit`; without a culprit, in no
    /// collective with it at all, which stays.
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

    /// Starts a get of the word in which another rank says that it has given up; a get also finds a peer that is gone. Returns
    /// the result of the last look, `None` while a look is outstanding.
    pub(crate) fn look(&mut self, to: usize) -> Option<Found> {
        let line = &self.lines[to];
        // Not taken, so every later look finds it: no message arrives behind one that is lost.
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

    /// Gets the word of a rank; false when the transport is busy.
    fn read(&self, to: usize) -> Result<bool, Status> {
        let line = &self.lines[to];
        let into = self.words(self.layout.seen(to), 1).as_ptr();
        let from = 8 * self.layout.given_up(self.me) as u64;
        line.looking.begin();
        // SAFETY: as in `put`; the word is only written by looks, of which one is under way at a time.
        let status = unsafe {
            self.transport.get(
                line.endpoint,
                into.cast_mut().cast(),
                line.base + from,
                self.handle(),
                line.handle.as_ptr(),
                size_of::<u64>(),
                Some(track_done),
                line.looking.context(),
                std::ptr::null_mut(),
            )
        };
        posted(status, &line.looking)
    }
}

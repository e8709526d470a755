//! Reads the answers of the responder.

use super::transfers::Wait;
use super::{Done, Pending, Requester, Use, copy, refusal};
use crate::sm::ring::Answer;
use crate::sm::segment::SLOTS;
use plugin_api::Status;

impl Requester {
    /// Takes the answers that have arrived, in order, while `done` has room. Revokes transfers whose answers
    /// are overdue.
    #[inline]
    pub(crate) fn collect(&mut self, done: &mut Done) {
        let answered = self.take_answers(done);
        if self.transfers > 0 {
            if !answered {
                self.consider_revoking(done);
            } else if !self.queued.is_empty() {
                self.post_fragments();
            }
        }
    }

    /// Takes the answers that have arrived, in order, while `done` has room. Returns whether there was an answer.
    /// Makes no system call.
    #[inline]
    pub(crate) fn take_answers(&mut self, done: &mut Done) -> bool {
        let first = self.head;
        while self.head != self.tail && done.has_room() {
            let Some(answer) = self.claim.ring().slot(self.head).answered(self.head) else {
                break;
            };
            let pending = self.take();
            if pending.used > Use::Get {
                if pending.used == Use::QueuedFragment {
                    self.fragment_answered(&pending, &answer, done);
                }
                continue;
            }
            if pending.used <= Use::Atomic {
                self.tuning.wait = Wait::default();
            } else {
                self.answered_in_time();
            }
            if let Some(status) = refusal(&answer) {
                done.refused = Some((pending.finished, status));
                break;
            }
            if !pending.result.is_null() {
                let Some(from) = self.result(&pending, &answer) else {
                    done.refused = Some((pending.finished, Status::ERROR));
                    break;
                };
                let size = match pending.used {
                    Use::Apply => self.results[(self.head.wrapping_sub(1) % SLOTS) as usize],
                    _ => pending.size,
                };
                // SAFETY: the caller of `post_as` guarantees that the result is writable for this size until
                // completion. `result` returned the answer's word, or as many bytes of the payload.
                unsafe { copy(from, pending.result.cast(), usize::from(size)) };
            }
            done.push(pending.finished);
        }
        self.area.settle(&self.claim);
        self.head != first
    }

    /// Location of an answered operation's results: in the answer if they fit there, otherwise in the payload.
    /// `None` if the operation failed.
    #[inline]
    pub(super) fn result(&self, pending: &Pending, answer: &Answer) -> Option<*const u8> {
        if answer.status != 0 {
            return None;
        }
        let size = usize::from(pending.size);
        if size <= size_of::<u64>() {
            return Some((&raw const answer.value).cast());
        }
        let at = self.area.at(pending.payload, size)?;
        Some(at.cast_const())
    }

    /// Takes the oldest slot. At least one slot is in use. The slot's part of the payload stays valid until the next
    /// command is posted or the area is settled.
    #[inline]
    pub(super) fn take(&mut self) -> Pending {
        // SAFETY: `post_as` or `new` initialised all positions from `head` to `tail`, and `head` is one of them.
        let pending = unsafe { self.pending[(self.head % SLOTS) as usize].assume_init() };
        self.head = self.head.wrapping_add(1);
        if pending.used > Use::Get {
            self.count_down_rest(pending.used);
        } else if pending.used > Use::Atomic {
            self.transfers -= 1;
        }
        let size = usize::from(pending.size);
        if size > size_of::<u64>() {
            self.area.end(size);
        }
        pending
    }

    /// Updates the counts for the answer to a slot that is no whole operation.
    #[cold]
    fn count_down_rest(&mut self, used: Use) {
        self.spent -= u32::from(used.is_spent());
        self.held -= u32::from(used == Use::Held);
    }
}

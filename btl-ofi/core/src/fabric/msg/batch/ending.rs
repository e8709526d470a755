//! The end of a batch: its answer, or its failure.

use std::ptr::{self, NonNull};

use plugin_api::Status;

use super::Batch;
use crate::fabric::msg::wire::Header;
use crate::op::completion::Finished;
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;

/// Operations that have ended and are reported after the lock is released.
#[derive(Default)]
pub(crate) struct Ended {
    /// Executed operations that have a callback.
    pub(crate) finished: Vec<Finished>,
    /// Refused operations, with the reason.
    pub(crate) refused: Vec<(Finished, Status)>,
    /// Untracked operations that are over, including failed ones.
    pub(crate) untracked: Vec<(Tag, u32)>,
    /// Counts of untracked operations that failed, with the reason.
    pub(crate) lost: Vec<(Tag, u32, Status)>,
}

impl Ended {
    /// Number of operations that failed and have no callback.
    pub(crate) fn silent(&self) -> u32 {
        let lost: u32 = self.lost.iter().map(|(_, n, _)| n).sum();
        let silent = self.refused.iter().filter(|(f, _)| f.function.is_none());
        lost + silent.count() as u32
    }
}

impl Batch {
    /// Nobody waits for the entries so far.
    pub(crate) fn leave_unawaited(&mut self) {
        self.unawaited = self.entries;
    }

    /// Whether nobody waits for the answer.
    pub(crate) fn is_unawaited(&self) -> bool {
        !self.is_empty() && self.unawaited == self.entries
    }

    /// Whether an answer has the results that this batch asks for, except the results of the entries that the answer names
    /// as failed.
    pub(crate) fn is_answered_by(&self, answer: &Header, words: &[u64]) -> bool {
        let failures = answer.entries as usize;
        answer.entries <= self.entries
            && words.len() == Header::WORDS + failures + answer.results as usize
            && (answer.results == self.results()
                || self.has_without(&words[Header::WORDS..][..failures]) == answer.results)
    }

    /// Words of results, without the results of the failed entries.
    #[cold]
    fn has_without(&self, failures: &[u64]) -> u32 {
        let mut failures = failures.iter().map(|word| *word as u32).peekable();
        let mut results = self.results();
        for p in &self.pending {
            while failures.next_if(|entry| *entry < p.entry).is_some() {}
            if failures.next_if(|entry| *entry == p.entry).is_some() {
                results -= p.words();
            }
        }
        results
    }

    /// Ends the operations with their answer. [`is_answered_by`](Self::is_answered_by) has checked the answer. Writes
    /// the results, and records how each operation must be reported.
    pub(crate) fn answer(
        &mut self,
        endpoint: NonNull<Endpoint>,
        failures: &[u64],
        results: &[u64],
        ended: &mut Ended,
    ) {
        let mut failures = failures
            .iter()
            .map(|word| (*word as u32, Status((word >> 32) as i32)))
            .peekable();
        let (mut unnamed, mut left_out) = (0, 0);
        let mut why = Status::ERROR;
        for p in self.pending.drain(..) {
            // Failures of untracked operations that come before this operation.
            while failures
                .next_if(|(entry, _)| *entry < p.entry)
                .is_some_and(|(_, status)| {
                    why = status;
                    true
                })
            {
                unnamed += 1;
            }
            match failures.next_if(|(entry, _)| *entry == p.entry) {
                Some((_, status)) => {
                    left_out += p.words();
                    ended.refused.push((p.finished, failed(status)));
                }
                None => {
                    let from = results[(p.at - left_out) as usize..].as_ptr().cast::<u8>();
                    // SAFETY: the issuer keeps the buffer writable until the operation is over. The results have as many
                    // words as this batch asks for, without those of failed entries, so they cover the result of each
                    // operation.
                    unsafe { ptr::copy_nonoverlapping(from, p.result, p.size as usize) };
                    match p.finished.function {
                        Some(_) => ended.finished.push(p.finished),
                        None => ended.untracked.push((p.finished.tag, 1)),
                    }
                }
            }
        }
        for (_, status) in failures {
            (unnamed, why) = (unnamed + 1, status);
        }
        // A faulty target may name entries for which no operation waits.
        let unnamed = unnamed.min(self.untracked.iter().flatten().sum());
        if unnamed > 0 {
            ended
                .lost
                .push((Tag::new(endpoint, 0, 0), unnamed, failed(why)));
        }
        self.count_untracked(endpoint, ended);
    }

    /// Ends the operations as failed.
    pub(crate) fn fail(&mut self, endpoint: NonNull<Endpoint>, status: Status, ended: &mut Ended) {
        let refused = self.pending.drain(..).map(|p| (p.finished, status));
        ended.refused.extend(refused);
        let unnamed: u32 = self.untracked.iter().flatten().sum();
        if unnamed > 0 {
            ended.lost.push((Tag::new(endpoint, 0, 0), unnamed, status));
        }
        self.count_untracked(endpoint, ended);
    }

    fn count_untracked(&mut self, endpoint: NonNull<Endpoint>, ended: &mut Ended) {
        for (context, of_peer) in (0..).zip(std::mem::take(&mut self.untracked)) {
            for (peer, n) in (0..).zip(of_peer) {
                if n > 0 {
                    ended.untracked.push((Tag::new(endpoint, context, peer), n));
                }
            }
        }
    }
}

/// The status of an operation whose failure a target reports.
fn failed(status: Status) -> Status {
    if status.is_ok() || status.is_again() {
        Status::ERROR
    } else {
        status
    }
}

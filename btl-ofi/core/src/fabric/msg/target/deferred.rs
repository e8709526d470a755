//! Answers for which nobody waits. Such an answer is piggybacked on the next batch to its origin's process, and so costs no
//! message. If no batch leaves soon, the answer is sent like others. Until then it counts as an answer that has not left.

use libfabric_sys::fi_addr_t;

use crate::base::ticks;
use crate::fabric::msg::port::Port;
use crate::fabric::msg::target::Target;
use crate::fabric::msg::wire::{Header, Kind, MOST_WORDS};
use crate::op::marked::Message;

/// The first progress after this time sends the answers: about 40 us.
const PATIENCE: u64 = 4 * ticks::LONG;
/// Maximum number of answers that wait. Further answers are sent.
const MOST_DEFERRED: usize = 32;

impl Target {
    /// Sends the answer to a batch of this kind and origin, or lets it wait for a batch. An answer for which somebody may wait
    /// takes the earlier answers to its origin along.
    pub(super) fn send_or_defer(
        &mut self,
        port: &Port,
        (kind, to): (Kind, fi_addr_t),
        number: u32,
    ) {
        let is_short = self.answers[number as usize].words.len() == Header::WORDS;
        if kind == Kind::Patient && is_short && self.deferred.len() < MOST_DEFERRED {
            if self.deferred.is_empty() {
                self.deferred_since = ticks::now();
            }
            self.deferred.push(number);
            return;
        }
        while let Some(earlier) = self.next_deferred(to) {
            self.send_answer(port, earlier);
        }
        self.send_answer(port, number);
    }

    /// Removes the first waiting answer to an address.
    fn next_deferred(&mut self, to: fi_addr_t) -> Option<u32> {
        let mut deferred = self.deferred.iter();
        let at = deferred.position(|n| self.address_of(*n) == Some(to))?;
        Some(self.deferred.remove(at))
    }

    /// Sends a batch, with the answers to its address behind it if there is room for all.
    pub(in crate::fabric::msg) fn send_with_answers(
        &mut self,
        port: &Port,
        (batch, to): (&mut Vec<u64>, fi_addr_t),
        message: Message,
    ) -> isize {
        let own = batch.len();
        if own + MOST_DEFERRED * Header::WORDS <= MOST_WORDS {
            let deferred = self
                .deferred
                .iter()
                .filter(|n| self.address_of(**n) == Some(to));
            deferred.for_each(|n| batch.extend_from_slice(&self.answers[*n as usize].words));
        }
        let rc = port.send(batch, to, message);
        if rc != 0 {
            batch.truncate(own);
        } else if batch.len() > own {
            while let Some(number) = self.next_deferred(to) {
                self.free_answer(number);
            }
        }
        rc
    }

    /// Sends the answers that have waited long. Batches went before, with the answers that had room.
    #[inline]
    pub(in crate::fabric::msg) fn send_late_answers(&mut self, port: &Port) {
        if !self.deferred.is_empty() && ticks::now().wrapping_sub(self.deferred_since) > PATIENCE {
            let mut late = std::mem::take(&mut self.deferred);
            for number in late.drain(..) {
                self.send_answer(port, number);
            }
            // The memory serves the next answers.
            self.deferred = late;
        }
    }
}

//! Pauses of clients whose answers cannot be sent: the provider takes no answer, or each answer fails.
//!
//! The client's answers wait, and one answer is tried from time to time. Each of the first [`PROMPT`] calls of progress
//! tries once, because a provider without room usually has room again soon. After these calls, the pause, counted in
//! calls, doubles with each try. The pause stays short: a provider may count its refusals, so fewer tries would make a
//! living client wait longer. After [`LAST`] failed tries and [`PATIENCE`], a client causes no more work: its answers are
//! parked until its process asks.

use std::time::{Duration, Instant};

use crate::fabric::msg::port::Port;
use crate::fabric::msg::target::Target;
use crate::fabric::msg::target::answers::{Posted, Receiver};

/// Number of tries in consecutive calls of progress.
pub(super) const PROMPT: u32 = 64;
/// The longest pause is 2 to this power calls of progress.
pub(super) const LONGEST: u32 = 3;
/// Number of tries after which the time is recorded.
const TIMED: u32 = PROMPT;
/// The answers are parked after this number of tries and this time since the first [`TIMED`] tries. Time alone is no
/// criterion, because on a busy machine a second may contain only a few calls of progress, and a parked living client
/// gets its answers only by asking.
const LAST: u32 = PROMPT + 1000;
const PATIENCE: Duration = Duration::from_secs(1);

/// A receiver whose sends are paused.
struct Paused {
    receiver: Receiver,
    /// Number of failed tries.
    tries: u32,
    /// The call of progress that makes the next try.
    due: u32,
    /// The time when [`TIMED`] tries had failed.
    since: Option<Instant>,
}

/// Receivers whose sends are paused, and their answers.
#[derive(Default)]
pub(super) struct Pauses {
    list: Vec<Paused>,
    /// The answers, in the order in which they must be sent.
    answers: Vec<u32>,
    /// Number of calls of progress while there are pauses.
    calls: u32,
    /// Number of the call in which the next pause ends.
    due: u32,
}

fn is_over(due: u32, calls: u32) -> bool {
    calls.wrapping_sub(due) < 1 << 31
}

impl Pauses {
    /// Whether no receiver is paused.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.answers.clear();
    }

    /// Begins a pause after `tries` failed tries.
    fn begin(&mut self, receiver: Receiver, tries: u32, since: Option<Instant>) {
        let since = match since {
            None if tries >= TIMED => Some(Instant::now()),
            since => since,
        };
        let due = self
            .calls
            .wrapping_add(1 << tries.saturating_sub(PROMPT).min(LONGEST));
        if self.list.is_empty() || is_over(due, self.due) {
            self.due = due;
        }
        self.list.push(Paused {
            receiver,
            tries,
            due,
            since,
        });
    }
}

impl Target {
    /// Keeps an answer until the pause of its receiver is over. If the receiver has no pause,
    /// begins one.
    #[cold]
    pub(super) fn keep_back(&mut self, number: u32, tries: u32) {
        let receiver = self.answers[number as usize].receiver;
        self.pauses.answers.push(number);
        if !self.pauses.list.iter().any(|p| p.receiver == receiver) {
            self.pauses.begin(receiver, tries, None);
            self.mark_paused(receiver, true);
        }
    }

    /// Keeps an answer until the pause of its receiver is over.
    #[cold]
    pub(super) fn keep_behind(&mut self, number: u32) {
        self.pauses.answers.push(number);
    }

    fn mark_paused(&mut self, receiver: Receiver, paused: bool) {
        if let Receiver::Client(client, cookie) = receiver
            && let Some(Some(client)) = self.clients.get_mut(client as usize)
            && client.cookie == cookie
        {
            client.paused = paused;
        }
    }

    /// Ends the pause of a receiver, and returns its answers.
    #[cold]
    pub(super) fn end_pause(&mut self, receiver: Receiver) -> Vec<u32> {
        self.pauses
            .list
            .retain(|paused| paused.receiver != receiver);
        self.mark_paused(receiver, false);
        let answers = &self.answers;
        let is_its = |number: &mut u32| answers[*number as usize].receiver == receiver;
        self.pauses.answers.extract_if(.., is_its).collect()
    }

    /// Counts a call of progress, and tries the receivers whose pauses are over.
    #[inline]
    pub(super) fn count_pauses(&mut self, port: &Port) {
        self.pauses.calls = self.pauses.calls.wrapping_add(1);
        if is_over(self.pauses.due, self.pauses.calls) {
            self.try_again(port);
        }
    }

    #[cold]
    fn try_again(&mut self, port: &Port) {
        let calls = self.pauses.calls;
        let over: Vec<Paused> = (self.pauses.list)
            .extract_if(.., |paused| is_over(paused.due, calls))
            .collect();
        for paused in over {
            self.try_paused(port, paused);
        }
        let due = self.pauses.list.iter().map(|paused| paused.due);
        let next = due.min_by_key(|due| due.wrapping_sub(calls));
        self.pauses.due = next.unwrap_or(calls);
    }

    /// Sends the answers of a receiver, until the provider takes no more.
    fn try_paused(&mut self, port: &Port, paused: Paused) {
        let receiver = paused.receiver;
        let mut left = self.end_pause(receiver).into_iter();
        let mut tries = paused.tries + 1;
        while let Some(number) = left.next() {
            match self.post_answer(port, number) {
                Posted::Left => tries = 0,
                Posted::Over => {}
                Posted::Again => {
                    let late = paused.since.filter(|_| tries > LAST);
                    let since = paused.since.filter(|_| tries > 0);
                    if late.is_some_and(|since| since.elapsed() >= PATIENCE) {
                        tracing::warn!("the provider takes no answer to an origin any more");
                        for number in std::iter::once(number).chain(left) {
                            self.park(number);
                        }
                        return;
                    }
                    self.pauses.begin(receiver, tries, since);
                    self.mark_paused(receiver, true);
                    self.pauses.answers.push(number);
                    self.pauses.answers.extend(left);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
impl Target {
    /// Lets the time pass after which a client with enough failed tries is parked.
    pub(super) fn lose_patience(&mut self) {
        for paused in &mut self.pauses.list {
            paused.since = paused.since.and_then(|since| since.checked_sub(PATIENCE));
        }
    }
}

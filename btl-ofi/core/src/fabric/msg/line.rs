//! A line: the origin's side of the messages to one target. A line adds commands to a batch and sends batches in order.

use std::collections::VecDeque;
use std::ptr::NonNull;

use libfabric_sys::fi_addr_t;

use crate::fabric::msg::wire::{Kind, UNKNOWN};
use crate::peer::endpoint::Endpoint;

/// Maximum number of unanswered batches of a line, and maximum number of batches whose answer may be due. The target keeps
/// batches that arrive early.
pub(super) const WINDOW: usize = 64;
pub(super) const MOST_DUE: usize = 8;
/// Maximum number of full batches that wait for the window. Further commands are refused for the moment.
pub(super) const MOST_WAITING: usize = 4;
/// An operation batch with room left is sent only while fewer answers than this are due. With more answers due, the batch
/// collects more commands.
pub(super) const EAGER: usize = 2;
/// A send is posted at once while fewer batches than this are unanswered. Otherwise the send waits in a batch until the
/// next progress. The number exceeds the number of consecutive unanswered batches that an idle line may have: the next
/// send on an idle line must not wait for progress, which the host may not make for a long time.
const EAGER_SENDS: usize = 12;
const _: () = assert!(EAGER_SENDS > MOST_UNANSWERED + 1 && EAGER_SENDS < WINDOW);
/// Maximum consecutive send batches without an answer. The next batch asks for an answer, which covers them.
const MOST_UNANSWERED: usize = 7;

/// At the second check without an answer, the origin asks the target for a receipt. The pause between two questions
/// doubles, up to about a minute of checks at the default interval.
const FIRST_KNOCK: (u32, u32) = (2, 1);
const MOST_PAUSE: u32 = 256;

/// The caller that asks to send a batch before it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    Progress,
    /// A send that was just added.
    Send,
    /// A call whose effect peers wait for. This process may compute afterwards.
    Peers,
}

/// The origin's side of the messages to one target.
pub(super) struct Line {
    pub(super) endpoint: NonNull<Endpoint>,
    pub(super) address: fi_addr_t,
    /// The target's key: the first word of every message to it.
    pub(super) key: u64,
    /// Identifies the line together with its number.
    pub(super) cookie: u64,
    /// The target's number of this client; unknown before the first answer.
    pub(super) client: u32,
    /// The batch to which commands are added.
    pub(super) current: Option<u32>,
    /// Complete batches that were not sent yet.
    pub(super) waiting: VecDeque<u32>,
    /// Batches that were sent and not answered yet.
    pub(super) unanswered: VecDeque<u32>,
    /// Number of the unanswered batches that the answer to a later batch will cover, and number of the consecutive last
    /// batches of this kind.
    covered: usize,
    row: usize,
    /// Bytes of the unanswered batches.
    bytes: usize,
    /// The number of the next batch.
    pub(super) sequence: u32,
    /// Number of checks before the next question, and the number of checks between the last two questions.
    knock: (u32, u32),
    /// The number of the last question; the number of the first batch that had not left then; and the batch that was
    /// missing when the question before it was answered.
    pub(super) question: u32,
    pub(super) left: u32,
    pub(super) missing: Option<u32>,
    /// Whether the provider refused the line's last message for lack of room.
    pub(super) stuck: bool,
    /// Whether a heartbeat was sent, and no answer has arrived since.
    pub(super) asked: bool,
    /// Whether the line is in the carrier's list of lines that have something to send.
    pub(super) listed: bool,
}

impl Line {
    pub(super) fn new(
        (endpoint, address): (NonNull<Endpoint>, fi_addr_t),
        (key, cookie): (u64, u64),
    ) -> Line {
        Line {
            endpoint,
            address,
            key,
            cookie,
            client: UNKNOWN,
            current: None,
            waiting: VecDeque::new(),
            unanswered: VecDeque::new(),
            covered: 0,
            row: 0,
            bytes: 0,
            sequence: 0,
            knock: FIRST_KNOCK,
            question: 0,
            left: 0,
            missing: None,
            stuck: false,
            asked: false,
            listed: false,
        }
    }

    /// Records an answer, which contains the client number.
    pub(super) fn is_answered(&mut self, client: u32) {
        self.client = client;
        (self.stuck, self.asked) = (false, false);
        self.knock = FIRST_KNOCK;
    }

    /// Whether the answer to a later batch will cover batches that were sent.
    #[inline]
    pub(super) fn has_covered(&self) -> bool {
        self.covered > 0
    }

    /// Moves the unanswered batches before `position` that have no answer of their own to `taken`. The answer to the batch
    /// at `position` covers them, because the target executes batches in order.
    pub(super) fn take_covered(
        &mut self,
        position: usize,
        unanswered: impl Fn(u32) -> bool,
        taken: &mut Vec<u32>,
    ) {
        let before = taken.len();
        for at in (0..position).rev() {
            if unanswered(self.unanswered[at]) {
                taken.extend(self.unanswered.remove(at));
            }
        }
        self.covered -= taken.len() - before;
    }

    /// The kind in which a batch must be sent now. `is_awaited` says that a caller may wait for the answer.
    pub(super) fn kind(&self, is_awaited: bool) -> Kind {
        if !is_awaited && self.client != UNKNOWN && self.row < MOST_UNANSWERED {
            Kind::Unanswered
        } else {
            Kind::Batch
        }
    }

    /// Records that the first waiting batch was sent, with this kind and size.
    pub(super) fn is_sent(&mut self, kind: Kind, bytes: usize) {
        self.unanswered.extend(self.waiting.pop_front());
        self.sequence = self.sequence.wrapping_add(1);
        if kind == Kind::Unanswered {
            self.covered += 1;
            self.row += 1;
        } else {
            self.row = 0;
        }
        self.bytes += bytes;
    }

    /// Records that a batch of `bytes` bytes was answered.
    pub(super) fn has_arrived(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// All batches: sent and not answered, waiting, and gathering.
    pub(super) fn batches(&self) -> impl Iterator<Item = u32> {
        let complete = self.unanswered.iter().chain(&self.waiting);
        complete.copied().chain(self.current)
    }

    /// Removes all batches, and returns them.
    pub(super) fn take_all(&mut self) -> Vec<u32> {
        let mut all: Vec<u32> = self.unanswered.drain(..).collect();
        all.extend(self.waiting.drain(..));
        all.extend(self.current.take());
        (self.covered, self.row, self.bytes) = (0, 0, 0);
        self.asked = false;
        all
    }

    /// Number of batches whose answer is due.
    #[inline]
    fn due(&self) -> usize {
        self.unanswered.len() - self.covered
    }

    /// Bytes of the unanswered batches.
    #[inline]
    pub(super) fn unanswered_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether an answer is due.
    pub(super) fn is_due(&self) -> bool {
        self.due() > 0
    }

    /// Counts one check of the line. Returns whether the origin must ask the target now: batches are unanswered, and the
    /// pause is over. The pause doubles each time.
    pub(super) fn is_to_knock(&mut self) -> bool {
        let (left, pause) = self.knock;
        if self.unanswered.is_empty() {
            self.knock = FIRST_KNOCK;
        } else if left > 1 {
            self.knock.0 = left - 1;
        } else {
            let next = (2 * pause).min(MOST_PAUSE);
            self.knock = (next, next);
            return true;
        }
        false
    }

    /// Maximum number of answers that may be due. The first batch is sent alone, because it introduces this process to
    /// the target.
    fn most_due(&self) -> usize {
        if self.client == UNKNOWN { 1 } else { MOST_DUE }
    }

    /// Whether a complete batch may be sent.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        self.due() < self.most_due() && self.unanswered.len() < WINDOW
    }

    /// Whether the current batch may be sent before it is full. No caller waits for the answer to a batch that has only
    /// sends. So the next progress sends such a batch, even if many answers are due: a process that shares its
    /// processor with the target would wait long for these answers.
    #[inline]
    pub(super) fn may_send_early(&self, has_only_sends: bool, asker: Asker) -> bool {
        let may = match (asker, has_only_sends) {
            (Asker::Peers, _) | (Asker::Progress, true) => true,
            (Asker::Send, true) => self.unanswered.len() < EAGER_SENDS,
            (Asker::Progress | Asker::Send, false) => self.due() < EAGER,
        };
        may && self.waiting.is_empty() && self.may_send()
    }

    /// Whether something must be sent, now or after an answer.
    pub(super) fn has_more(&self) -> bool {
        self.current.is_some() || !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests;

//! A line: the origin's side of the messages to one target. It gathers commands in a batch and sends batches in order.

use std::collections::VecDeque;
use std::ptr::NonNull;

use libfabric_sys::fi_addr_t;

use crate::fabric::msg::wire::UNKNOWN;
use crate::peer::endpoint::Endpoint;

/// Batches of a line that may be unanswered at a time. The target has room for them.
pub(super) const WINDOW: usize = 8;
/// Complete batches that may wait for the window; further commands are refused for the moment.
pub(super) const MOST_WAITING: usize = 4;
/// A batch that still has room is sent only while fewer batches than this are unanswered: the more there is to send, the
/// more gathers.
pub(super) const EAGER: usize = 2;

/// The second check without an answer sends an empty message. The pause doubles up to about a minute of checks with the
/// default interval.
const FIRST_KNOCK: (u32, u32) = (2, 1);
const MOST_PAUSE: u32 = 256;

/// The origin's side of the messages to one target.
pub(super) struct Line {
    pub(super) endpoint: NonNull<Endpoint>,
    pub(super) address: fi_addr_t,
    /// Identifies the line together with its number.
    pub(super) cookie: u64,
    /// The target's number of this client, once its first answer has told it.
    pub(super) client: u32,
    /// The batch that gathers commands.
    pub(super) current: Option<u32>,
    /// Complete batches that are to be sent.
    pub(super) waiting: VecDeque<u32>,
    /// Batches that were sent and are not answered.
    pub(super) unanswered: VecDeque<u32>,
    /// The number of the next batch.
    pub(super) sequence: u32,
    /// Checks that still pass before the next empty message, and those between the last two.
    knock: (u32, u32),
    /// Whether the provider took no message of the line when it was asked last.
    pub(super) stuck: bool,
    /// Whether the carrier's list of lines with something to send has it.
    pub(super) listed: bool,
}

impl Line {
    pub(super) fn new(endpoint: NonNull<Endpoint>, address: fi_addr_t, cookie: u64) -> Line {
        Line {
            endpoint,
            address,
            cookie,
            client: UNKNOWN,
            current: None,
            waiting: VecDeque::new(),
            unanswered: VecDeque::new(),
            sequence: 0,
            knock: FIRST_KNOCK,
            stuck: false,
            listed: false,
        }
    }

    /// Notes an answer, which tells the client number.
    pub(super) fn is_answered(&mut self, client: u32) {
        self.client = client;
        self.stuck = false;
        self.knock = FIRST_KNOCK;
    }

    /// Counts one check of the line. Returns whether an empty message is to be sent now: an answer is due, and the pause,
    /// which doubles each time, is over.
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

    /// How many batches may be unanswered. The first one alone introduces this process to the target.
    fn window(&self) -> usize {
        if self.client == UNKNOWN { 1 } else { WINDOW }
    }

    /// Whether a complete batch may be sent.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        self.unanswered.len() < self.window()
    }

    /// Whether the batch that gathers may be sent before it is full.
    #[inline]
    pub(super) fn may_send_early(&self) -> bool {
        self.waiting.is_empty() && self.unanswered.len() < self.window().min(EAGER)
    }

    /// Whether something is to be sent, now or after an answer.
    pub(super) fn has_more(&self) -> bool {
        self.current.is_some() || !self.waiting.is_empty()
    }
}

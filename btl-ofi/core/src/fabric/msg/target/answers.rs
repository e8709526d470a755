//! Answers, from their creation until the provider has sent them.

use libfabric_sys as ffi;
use libfabric_sys::fi_addr_t;

use crate::base::error::{describe, peer_is_gone};
use crate::fabric::msg::line::MOST_DUE;
use crate::fabric::msg::places::SPARE;
use crate::fabric::msg::port::{EAGAIN, Port};
use crate::fabric::msg::target::Target;
use crate::fabric::msg::target::pauses::PROMPT;
use crate::op::marked::Message;

/// After this many failures, an answer is sent again only when its origin asks for a receipt.
pub(super) const MOST_FAILURES: u32 = 16;

/// An answer, or a receipt, that the provider has not sent yet.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) words: Vec<u64>,
    pub(super) receiver: Receiver,
    pub(super) is_receipt: bool,
    /// Whether the answer's words count in [`Target::owed_words`].
    pub(super) is_owed: bool,
    /// Whether the answer counts in its client's [`Client::due`](super::Client::due).
    pub(super) is_due: bool,
    /// Number of failed sends.
    pub(super) failures: u32,
}

/// Maximum words of all parked answers: 64 MiB. Further answers are abandoned.
const MOST_PARKED: usize = 8 << 20;

/// Numbers of free answers. The answers in the first list have memory for their words.
#[derive(Default)]
pub(super) struct Free {
    spare: Vec<u32>,
    bare: Vec<u32>,
}

impl Free {
    pub(super) fn len(&self) -> usize {
        self.spare.len() + self.bare.len()
    }
}

/// Answers whose send failed.
#[derive(Default)]
pub(super) struct Parked {
    numbers: Vec<u32>,
    words: usize,
}

impl Parked {
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// The outcome of a post of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Posted {
    /// The provider has the answer.
    Left,
    /// The provider has no room for the answer.
    Again,
    /// The send failed, or the answer has no receiver any more. No further step is needed.
    Over,
}

/// The receiver of an answer.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Receiver {
    /// The answer is unused.
    #[default]
    Nobody,
    /// A client, by its number and its cookie.
    Client(u32, u64),
    /// An origin that asked for a receipt before any of its batches arrived. The entry of the address vector is removed
    /// together with the answer.
    Stranger(fi_addr_t),
}

impl Target {
    /// Whether answers wait.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        !(self.unsent.is_empty() && self.pauses.is_empty() && self.deferred.is_empty())
    }

    /// Whether answers are not sent yet, or the provider still reads them.
    pub(crate) fn owes_answers(&self) -> bool {
        self.free_answers.len() + self.parked.len() + self.receipts < self.answers.len()
    }

    /// Bytes of answers that are not sent yet, or that the provider still reads.
    #[inline]
    pub(crate) fn owed_bytes(&self) -> usize {
        self.owed_words * size_of::<u64>()
    }

    /// Sets whether an answer is unsent or still read by the provider.
    pub(super) fn owe(&mut self, number: u32, is_owed: bool) {
        let answer = &mut self.answers[number as usize];
        match (std::mem::replace(&mut answer.is_owed, is_owed), is_owed) {
            (false, true) => self.owed_words += answer.words.len(),
            (true, false) => self.owed_words -= answer.words.len(),
            _ => {}
        }
    }

    /// Sends the answers for which the provider had no room.
    pub(crate) fn send_waiting(&mut self, port: &Port) {
        for _ in 0..self.unsent.len() {
            let Some(number) = self.unsent.pop_front() else {
                break;
            };
            self.send_answer(port, number);
        }
        if !self.pauses.is_empty() {
            self.count_pauses(port);
        }
    }

    /// Handles the end of a send: the provider no longer reads the answer.
    #[inline]
    pub(crate) fn sent(&mut self, number: u32) {
        self.free_answer(number);
    }

    /// Takes an unused answer for this receiver.
    pub(super) fn take_answer(&mut self, receiver: Receiver) -> u32 {
        let free = &mut self.free_answers;
        let number = free.spare.pop().or_else(|| free.bare.pop());
        let number = number.unwrap_or_else(|| {
            self.answers.push(Answer::default());
            self.answers.len() as u32 - 1
        });
        let answer = &mut self.answers[number as usize];
        (answer.receiver, answer.failures) = (receiver, 0);
        number
    }

    /// Returns an answer to the unused ones. The provider does not read the answer.
    pub(super) fn free_answer(&mut self, number: u32) {
        self.owe(number, false);
        self.held.answer_left();
        let answer = &mut self.answers[number as usize];
        if std::mem::take(&mut answer.is_receipt) {
            self.receipts -= 1;
        }
        if std::mem::take(&mut answer.is_due)
            && let Receiver::Client(client, cookie) = answer.receiver
            && let Some(Some(client)) = self.clients.get_mut(client as usize)
            && client.cookie == cookie
        {
            client.due -= 1;
        }
        if let Receiver::Stranger(address) = std::mem::take(&mut answer.receiver)
            && let Err(e) = self.addresses.remove(address)
        {
            tracing::warn!("the address of an asking origin could not be removed: {e}");
        }
        let free = &mut self.free_answers;
        if free.spare.len() < SPARE {
            free.spare.push(number);
        } else {
            answer.words = Vec::new();
            free.bare.push(number);
        }
        if self.answers.len() > 2 * SPARE && free.len() == self.answers.len() {
            // No answer is in use, so the provider knows none of the numbers.
            (self.answers, self.free_answers) = (Vec::new(), Free::default());
        }
    }

    /// Removes the parked answers of a client from the list, and returns them.
    #[cold]
    pub(super) fn take_parked(&mut self, receiver: Receiver) -> Vec<u32> {
        let answers = &self.answers;
        let is_its = |number: &mut u32| answers[*number as usize].receiver == receiver;
        let taken: Vec<u32> = self.parked.numbers.extract_if(.., is_its).collect();
        let words = taken.iter().map(|n| answers[*n as usize].words.len());
        self.parked.words -= words.sum::<usize>();
        taken
    }

    /// Sends an answer, unless its receiver is paused.
    pub(super) fn send_answer(&mut self, port: &Port, number: u32) {
        if !self.pauses.is_empty()
            && let Receiver::Client(client, cookie) = self.answers[number as usize].receiver
            && let Some(Some(client)) = self.clients.get(client as usize)
            && client.cookie == cookie
            && client.paused
        {
            self.keep_behind(number);
            return;
        }
        if self.post_answer(port, number) == Posted::Again {
            self.keep_back(number, 0);
        }
    }

    /// The address of an answer's receiver; `None` if the receiver left.
    pub(super) fn address_of(&self, number: u32) -> Option<fi_addr_t> {
        match self.answers[number as usize].receiver {
            Receiver::Nobody => None,
            Receiver::Client(client, cookie) => {
                let client = self.clients.get(client as usize).and_then(Option::as_ref);
                let client = client.filter(|c| c.cookie == cookie);
                client.map(|client| client.address)
            }
            Receiver::Stranger(address) => Some(address),
        }
    }

    /// Posts an answer to the provider.
    pub(super) fn post_answer(&mut self, port: &Port, number: u32) -> Posted {
        let Some(address) = self.address_of(number) else {
            // The origin left without waiting for the answer, and its address is no longer in the address
            // vector.
            self.free_answer(number);
            return Posted::Over;
        };
        let words = &self.answers[number as usize].words;
        match port.send(words, address, Message::Answer(number)) {
            0 => Posted::Left,
            EAGAIN => Posted::Again,
            rc => {
                self.answer_failed(number, i32::try_from(-rc).unwrap_or(ffi::FI_EOTHER as i32));
                Posted::Over
            }
        }
    }

    /// Resends a failed answer later, because the origin waits for it. The origin ignores a duplicate. An answer whose
    /// origin cannot be reached is kept until the origin asks. A receipt is not kept: the origin gets a new receipt when it
    /// asks.
    #[cold]
    pub(crate) fn answer_failed(&mut self, number: u32, code: i32) {
        let answer = &mut self.answers[number as usize];
        answer.failures += 1;
        if answer.is_receipt {
            self.free_answer(number);
            return;
        }
        if !peer_is_gone(code) && answer.failures < MOST_FAILURES {
            // The failure was not caused by a lack of room.
            let tries = PROMPT + answer.failures;
            self.keep_back(number, tries);
            return;
        }
        tracing::warn!("an answer could not be sent: {}", describe(code));
        self.park(number);
    }

    /// Keeps an answer until its origin asks for a receipt. Receipts are not kept, and neither are more
    /// answers than an origin may wait for.
    #[cold]
    pub(super) fn park(&mut self, number: u32) {
        let answer = &self.answers[number as usize];
        if !answer.is_receipt
            && let Receiver::Client(client, cookie) = answer.receiver
            && let Some(Some(client)) = self.clients.get_mut(client as usize)
            && client.cookie == cookie
            && usize::from(client.parked) < MOST_DUE
            && self.parked.words + answer.words.len() <= MOST_PARKED
        {
            client.parked += 1;
            self.parked.words += answer.words.len();
            self.parked.numbers.push(number);
            self.owe(number, false);
        } else {
            self.free_answer(number);
        }
    }
}

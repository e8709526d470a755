//! Tests with answers that a target should not send.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]

use plugin_api::{AtomicKind, Status};

use super::*;
use crate::fabric::msg::line::EAGER;
use crate::fabric::msg::wire::{LONG_BATCH, MOST_WORDS};
use crate::op::request::Operands;
use crate::op::responder::Command;
use crate::op::responder::PUT;
use crate::peer::counters::CounterTable;
use crate::peer::route::{Facts, Route};

/// An origin, and the endpoint of a peer whose target knows the origin.
struct Side {
    _table: CounterTable,
    peer: Box<Endpoint>,
    port: Port,
    origin: Origin,
}

impl Side {
    fn new() -> Side {
        let mut side = Side::stranger();
        // The first batch introduces this process, and is always answered.
        side.send();
        assert_eq!(side.answer(0, &[]), Ok(()));
        side
    }

    /// An origin that has not introduced itself.
    fn stranger() -> Side {
        let table = CounterTable::new("test", 1, None).expect("counters");
        let peer = Box::new(Endpoint::new(0, 1, Route::decide(Facts::default())));
        let origin = Origin::new(
            Introduction {
                key: 1,
                address: vec![1; 16],
            },
            Arc::new(Addresses::that_keep(&[2; 16])),
            (MOST_WORDS, LONG_BATCH),
            table.reference(),
        );
        Side {
            _table: table,
            peer,
            port: Port::that_takes_all(),
            origin,
        }
    }

    fn peer(&self) -> NonNull<Endpoint> {
        NonNull::from(&*self.peer)
    }

    /// Sends a message of the host.
    fn send(&mut self) {
        assert!(self.try_to_send(0, Leaves::Later).is_ok());
        self.leave();
    }

    fn try_to_send(&mut self, size: usize, leaves: Leaves) -> Result<Sent, Status> {
        self.try_to_send_beside(size, leaves, true)
    }

    /// Tries to send a message of the host. `is_alone` says that the message is the only one in the
    /// provider's queue.
    fn try_to_send_beside(
        &mut self,
        size: usize,
        leaves: Leaves,
        is_alone: bool,
    ) -> Result<Sent, Status> {
        let message = (1, size, leaves);
        let (port, peer) = (&self.port, NonNull::from(&*self.peer));
        // SAFETY: the peer is live, and all bytes are filled in.
        unsafe {
            self.origin
                .send(port, peer, message, is_alone, |to| to.write_bytes(0, size))
        }
    }

    fn batch(&self, number: u32) -> Sent {
        Sent::In(self.line().cookie, number)
    }

    fn has_sent(&self, sent: Sent) -> bool {
        self.origin.has_sent(self.peer(), sent)
    }

    /// Puts a word, behind a host message in the same batch.
    fn put(&mut self) {
        self.gather();
        self.look();
    }

    fn gather(&mut self) {
        let (peer, form) = (self.peer(), Form::word(AtomicKind::Update));
        let command = Command {
            what: PUT,
            count: 8,
            address: 0,
            key: 1,
            cookie: 1,
            compare: 0,
        };
        // SAFETY: the peer is live, and the operand is a word, as the form says.
        unsafe {
            let (batch, _) = self.origin.batch(&self.port, peer, &form).unwrap();
            batch.push_send(1, 0, |_| ());
            batch.push((&command, &form), (Operands::Value(7), 8));
            batch.count(0, 0);
        }
    }

    /// A call of progress, after which the provider sends everything.
    fn look(&mut self) {
        self.origin.send_waiting(&self.port, Asker::Progress, None);
        self.leave();
    }

    /// Repeats puts of `size` bytes until `batches` batches have left, and returns the words of these batches. Makes no
    /// progress meanwhile.
    fn put_until_left(&mut self, size: usize, batches: usize) -> Vec<usize> {
        let (peer, form) = (self.peer(), Form::known(PUT, size));
        let command = Command {
            what: PUT,
            count: size as u32,
            address: 0,
            key: 1,
            cookie: 1,
            compare: 0,
        };
        let bytes = vec![7u64; size.div_ceil(8)];
        while self.line().unanswered.len() < batches {
            let operands = Operands::Buffer(bytes.as_ptr().cast());
            // SAFETY: the peer is live, and the operands have the size for which the form was made.
            unsafe {
                let (batch, _) = self.origin.batch(&self.port, peer, &form).unwrap();
                batch.push((&command, &form), (operands, size));
                batch.count(0, 0);
            }
        }
        let words = |n: &u32| self.origin.batches[*n as usize].words.len();
        self.line().unanswered.iter().map(words).collect()
    }

    /// Lets the provider send everything.
    fn leave(&mut self) {
        for number in 0..self.origin.batches.len() {
            if self.origin.batches[number].held {
                self.origin.sent(number as u32);
            }
        }
    }

    fn line(&self) -> &Line {
        self.origin.lines[0].as_ref().unwrap()
    }

    /// Asks for a receipt, like the checks after a while. The provider sends only the question.
    fn ask(&mut self) {
        let before = self.line().question;
        while self.line().question == before {
            self.origin.send_alive(&self.port, true);
            for number in 0..self.origin.batches.len() {
                let batch = &self.origin.batches[number];
                if batch.held && batch.is_empty() {
                    self.origin.sent(number as u32);
                }
            }
        }
    }

    /// Gives the receipt for the last question: `sequence` is the number of the next batch, and `answers` is the
    /// number of answers that are still to come.
    fn told(&mut self, sequence: u32, answers: u32) -> Result<(), &'static str> {
        self.told_of(self.line().question, sequence, answers)
    }

    fn told_of(&mut self, question: u32, sequence: u32, answers: u32) -> Result<(), &'static str> {
        let header = Header {
            kind: Kind::Receipt,
            cookie: self.line().cookie,
            line: 0,
            client: 0,
            sequence,
            entries: answers,
            results: question,
        };
        self.origin.told(&header)
    }

    fn is_lost(&self) -> bool {
        let broken = &self.origin.broken;
        assert!(broken.is_empty() || *broken == [(self.peer(), Broken::Lost)]);
        !broken.is_empty()
    }

    /// Answers the batch with this number; the entries in `failed` failed.
    fn answer(&mut self, sequence: u32, failed: &[u32]) -> Result<(), &'static str> {
        let header = Header {
            kind: Kind::Answer,
            cookie: self.line().cookie,
            line: 0,
            client: 0,
            sequence,
            entries: failed.len() as u32,
            results: 0,
        };
        let mut words = vec![0; Header::WORDS];
        let status = u64::from(Status::ERROR.0 as u32) << 32;
        words.extend(failed.iter().map(|entry| u64::from(*entry) | status));
        self.origin.answered(header, &words)
    }
}

#[test]
fn an_answer_to_what_is_not_answered_is_ignored() {
    let mut side = Side::new();
    side.send();
    assert!(!side.line().is_due());
    assert_eq!(side.answer(1, &[]), Ok(()));
    assert!(side.line().has_covered(), "it still waits");
    side.put();
    assert!(side.line().is_due());
    assert_eq!(side.answer(2, &[]), Ok(()));
    assert!(!side.line().is_due() && !side.line().has_covered());
    assert!(side.line().unanswered.is_empty());
    assert_eq!(side.origin.ended.untracked.len(), 1);
}

/// While an answer is due, large commands share long messages, and small commands share short ones.
#[test]
fn large_commands_gather_while_others_are_on_the_way() {
    for (size, longest) in [(8192, LONG_BATCH), (1024, LONG_BATCH), (1016, MOST_WORDS)] {
        let words = Side::new().put_until_left(size, 4);
        let lengths = [MOST_WORDS, longest, longest, longest];
        // The first entry names the region.
        let entry = 2 + size / 8;
        let most =
            lengths.map(|length| (length - Header::WORDS - 2) / entry * entry + Header::WORDS + 2);
        assert_eq!(words, most, "{size}");
    }
}

#[test]
fn a_number_that_was_not_sent_is_ignored() {
    let mut side = Side::new();
    side.put();
    for sequence in [0, 2, u32::MAX] {
        assert_eq!(side.answer(sequence, &[]), Ok(()));
    }
    assert!(side.line().is_due() && side.origin.ended.untracked.is_empty());
}

/// A host message cannot fail, so only counted operations fail.
#[test]
fn no_more_fails_than_is_counted() {
    let mut side = Side::new();
    side.put();
    assert_eq!(side.answer(1, &[0, 1]), Ok(()));
    let Ended {
        lost, untracked, ..
    } = &side.origin.ended;
    assert!(lost.iter().map(|(_, n, _)| *n).eq([1]));
    assert!(untracked.iter().map(|(_, n)| *n).eq([1]));
}

/// Host messages that wait for an answer or receipt keep no memory.
#[test]
fn sends_that_have_left_keep_no_memory() {
    let mut side = Side::new();
    for _ in 0..5 {
        side.send();
    }
    let line = side.line();
    assert_eq!(line.unanswered.len(), 5);
    for number in &line.unanswered {
        assert_eq!(side.origin.batches[*number as usize].words.capacity(), 0);
    }
}

/// A receipt covers batches that were executed and have no answer of their own.
#[test]
fn receipts_cover_messages_of_the_host() {
    let mut side = Side::new();
    for _ in 0..3 {
        side.send();
    }
    side.ask();
    assert_eq!(side.told(3, 0), Ok(()));
    assert_eq!(side.line().unanswered.len(), 1);
    assert!(side.line().has_covered() && !side.is_lost());
    // A target that leaves sends this receipt without a question.
    assert_eq!(side.told_of(0, 4, 0), Ok(()));
    assert!(side.line().unanswered.is_empty() && !side.line().has_covered());
    for _ in 0..1000 {
        side.origin.send_alive(&side.port, true);
    }
    assert_eq!(side.line().question, 1, "nothing is to be asked");
    side.put();
    assert_eq!(side.told_of(1, 5, 0), Ok(()));
    assert!(side.line().is_due(), "a receipt answers nothing");
}

/// A host message that has left is lost if the receipts for two questions lack it, and the second question came after the
/// first receipt.
#[test]
fn what_two_receipts_do_not_have_is_lost() {
    let mut side = Side::new();
    side.send();
    side.ask();
    side.ask();
    // The receipt for an earlier question has no effect, and the same receipt twice counts once.
    let last = side.line().question;
    assert_eq!(side.told_of(last - 1, 1, 0), Ok(()));
    assert_eq!(side.told(1, 0), Ok(()));
    assert!(!side.is_lost());
    side.ask();
    assert_eq!(side.told_of(last, 1, 0), Ok(()));
    assert!(!side.is_lost());
    assert_eq!(side.told(1, 0), Ok(()));
    assert!(side.is_lost());
}

/// A batch is not lost if it arrives late, if the provider still reads it, or if it left after the question.
#[test]
fn what_may_still_come_is_not_lost() {
    let mut side = Side::new();
    side.send();
    side.ask();
    assert_eq!(side.told(1, 0), Ok(()));
    side.ask();
    assert_eq!(side.told(2, 0), Ok(()));
    assert!(!side.is_lost() && side.line().unanswered.is_empty());
    side.send();
    let number = side.line().unanswered[0];
    side.origin.batches[number as usize].held = true;
    for _ in 0..3 {
        side.ask();
        assert_eq!(side.told(2, 0), Ok(()));
    }
    assert!(!side.is_lost(), "the provider reads it");
    side.leave();
    side.ask();
    side.send();
    assert_eq!(side.told(3, 0), Ok(()));
    side.ask();
    side.send();
    assert_eq!(side.told(4, 0), Ok(()));
    assert!(!side.is_lost());
}

/// An answer is lost if its batch was executed and the target has no unsent answer left.
#[test]
fn answers_are_lost() {
    let mut side = Side::new();
    side.put();
    for _ in 0..3 {
        side.ask();
        assert_eq!(side.told(2, 1), Ok(()));
    }
    assert!(!side.is_lost(), "the target has it");
    side.ask();
    assert_eq!(side.told(2, 0), Ok(()));
    assert!(!side.is_lost(), "it may be on the way");
    side.ask();
    assert_eq!(side.told(2, 0), Ok(()));
    assert!(side.is_lost());
}

#[test]
fn a_receipt_for_what_was_not_sent_is_refused() {
    let mut side = Side::new();
    side.send();
    for sequence in [3, 4, u32::MAX / 2] {
        side.told(sequence, 0).expect_err("it was not sent");
    }
    assert_eq!(side.told(u32::MAX, 0), Ok(()));
    assert_eq!(side.line().unanswered.len(), 1, "an old one covers nothing");
}

/// A receipt with any content ends no operation, and leaves the count of unanswered batches right.
#[test]
fn receipts_of_a_hostile_target_do_no_harm() {
    let mut state = 7u64;
    let mut below = |n: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % n) as u32
    };
    for _ in 0..200 {
        let mut side = Side::new();
        for _ in 0..6 {
            match below(3) {
                0 => side.put(),
                _ => side.send(),
            }
            let needs_none = |side: &Side, n: &u32| side.origin.batches[*n as usize].unanswered;
            let counts = |side: &Side| {
                let unanswered = &side.line().unanswered;
                let covered = unanswered.iter().filter(|n| needs_none(side, n));
                let covered = covered.count();
                (unanswered.len() - covered, covered)
            };
            let (due, _) = counts(&side);
            let near = side.line().sequence.wrapping_add(below(9)).wrapping_sub(6);
            let sequence = [near, near, below(u64::from(u32::MAX))][below(3) as usize];
            let _ = side.told_of(below(3), sequence, below(2) * u32::MAX);
            let (now, covered) = counts(&side);
            assert_eq!(now, due, "answers end operations");
            assert_eq!(side.line().is_due(), due > 0);
            assert_eq!(side.line().has_covered(), covered > 0);
        }
        assert!(side.origin.ended.untracked.is_empty());
    }
}

/// A peer that takes no more messages has left in good order only if nothing but heartbeats is unanswered: sends that left,
/// or failed, may be lost.
#[test]
fn sends_are_outstanding_until_they_are_covered() {
    let mut side = Side::new();
    let peer = side.peer();
    side.send();
    // SAFETY: the peer is live.
    unsafe { side.origin.ask(&side.port, peer) };
    side.leave();
    assert!(!side.origin.remove_idle(&side.port, peer));
    assert_eq!(side.told_of(0, 2, 0), Ok(()));
    assert!(side.line().is_due(), "the heartbeat");
    assert!(side.origin.remove_idle(&side.port, peer));
    assert!(side.origin.lines[0].is_none());
    let mut side = Side::new();
    side.send();
    let number = side.line().unanswered[0];
    side.origin
        .failed(number, libfabric_sys::FI_ECONNREFUSED as i32);
    let peer = side.peer();
    assert!(!side.origin.remove_idle(&side.port, peer));
}

#[test]
fn a_send_leaves_now_or_not_at_all() {
    const REFUSED: Result<Sent, Status> = Err(Status::TEMP_OUT_OF_RESOURCE);
    let mut side = Side::stranger();
    assert_eq!(
        side.try_to_send(8, Leaves::Now),
        REFUSED,
        "the first may wait for a connection"
    );
    assert!(!side.origin.has_work());
    let mut side = Side::new();
    assert_eq!(side.try_to_send(8, Leaves::Now), Ok(Sent::Left));
    side.leave();
    side.port = Port::that_takes(false);
    assert_eq!(side.try_to_send(8, Leaves::Now), REFUSED);
    assert!(!side.line().has_more(), "it was taken back");
    side.port = Port::that_takes(true);
    assert_eq!(side.try_to_send(8, Leaves::Later), Ok(Sent::Left));
    side.port = Port::that_takes(false);
    assert_eq!(side.try_to_send(8, Leaves::Later), Ok(side.batch(3)));
    side.port = Port::that_takes(true);
    assert_eq!(side.try_to_send(8, Leaves::Now), REFUSED, "one is ahead");
    side.origin.send_waiting(&side.port, Asker::Progress, None);
    assert_eq!(side.line().sequence, 4, "two messages, in two batches");
}

#[test]
fn a_send_behind_other_traffic_leaves_when_the_provider_says_so() {
    let mut side = Side::new();
    let now = side.try_to_send_beside(8, Leaves::Now, false);
    assert_eq!(now, Err(Status::TEMP_OUT_OF_RESOURCE));
    assert!(!side.line().has_more());
    let later = side.try_to_send_beside(8, Leaves::Later, false).unwrap();
    assert_eq!(later, side.batch(1));
    assert!(!side.has_sent(later));
    side.leave();
    assert!(side.has_sent(later));
}

#[test]
fn a_send_has_left_when_the_provider_has_handed_it_on() {
    let mut side = Side::new();
    let first = side.try_to_send(100_000, Leaves::Later);
    assert_eq!(
        first,
        Ok(side.batch(1)),
        "posted, and longer than a socket's buffer"
    );
    let second = side.try_to_send(8, Leaves::Later);
    assert_eq!(second, Ok(side.batch(2)), "behind it");
    let (first, second) = (first.unwrap(), second.unwrap());
    side.port = Port::that_takes(false);
    let third = side.try_to_send(8, Leaves::Later).unwrap();
    assert_eq!(third, side.batch(3));
    assert!(
        [first, second, third]
            .iter()
            .all(|sent| !side.has_sent(*sent))
    );
    side.leave();
    assert!(side.has_sent(first) && side.has_sent(second) && !side.has_sent(third));
    side.port = Port::that_takes(true);
    side.origin.send_waiting(&side.port, Asker::Progress, None);
    assert!(!side.has_sent(third), "the provider may still have it");
    side.leave();
    assert!(side.has_sent(third));
    let fourth = side.try_to_send(8, Leaves::Later);
    assert_eq!(
        fourth,
        Ok(side.batch(4)),
        "the socket may be full until an answer comes"
    );
    assert!(side.has_sent(Sent::In(0, 9)), "of a line that was removed");
}

#[test]
fn what_peers_wait_for_leaves_although_answers_are_due() {
    let mut side = Side::new();
    for due in 1..=EAGER {
        side.put();
        assert_eq!(side.line().unanswered.len(), due);
    }
    side.put();
    assert_eq!(side.line().unanswered.len(), EAGER, "it gathers");
    side.origin.send_waiting(&side.port, Asker::Peers, None);
    assert_eq!(side.line().unanswered.len(), EAGER + 1);
    assert!(!side.line().has_more());
}

/// A batch for whose answer nobody waits says so, unless a command follows for which somebody may wait.
#[test]
fn a_batch_says_that_nobody_waits() {
    for (follows, kind) in [(false, Kind::Patient), (true, Kind::Batch)] {
        let mut side = Side::new();
        side.gather();
        side.origin.leave_unawaited(side.peer());
        if follows {
            side.gather();
        }
        side.look();
        let (key, sent) = (side.line().key, side.line().unanswered[0] as usize);
        let words = &mut side.origin.batches[sent].words;
        let bytes = size_of_val(&**words);
        let (header, _, behind) = Header::read(words, bytes, key).expect("a message");
        assert_eq!((header.kind, behind.len()), (kind, 0));
        assert!(side.line().is_due());
    }
}

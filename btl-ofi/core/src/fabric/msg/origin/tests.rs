//! Answers as targets should not send them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]

use plugin_api::{AtomicKind, Status};

use super::*;
use crate::fabric::msg::wire::MOST_WORDS;
use crate::op::responder::PUT;
use crate::peer::counters::CounterTable;
use crate::peer::route::{Facts, Route};

/// An origin, and a peer whose target knows it.
struct Side {
    _table: CounterTable,
    peer: Box<Endpoint>,
    port: Port,
    origin: Origin,
}

impl Side {
    fn new() -> Side {
        let table = CounterTable::new("test", None).expect("counters");
        let peer = Box::new(Endpoint::new(0, 1, Route::decide(Facts::default())));
        let origin = Origin::new(vec![1; 16], (MOST_WORDS, usize::MAX), table.share());
        let mut side = Side {
            _table: table,
            peer,
            port: Port::that_takes_all(),
            origin,
        };
        // The first batch introduces this process, and is always answered.
        side.send();
        assert_eq!(side.answer(0, &[]), Ok(()));
        side
    }

    fn peer(&self) -> NonNull<Endpoint> {
        NonNull::from(&*self.peer)
    }

    /// Sends a message of the host.
    fn send(&mut self) {
        let peer = self.peer();
        // SAFETY: the peer is live, and there are no bytes to fill in.
        let sent = unsafe { self.origin.send(&self.port, peer, (1, 0), |_| ()) };
        assert_eq!(sent, Ok(()));
        self.leave();
    }

    /// Puts a word, behind a message of the host in the same batch.
    fn put(&mut self) {
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
        self.origin.send_waiting(&self.port);
        self.leave();
    }

    /// The provider has sent everything.
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

    /// Answers the batch with a number, of which these entries failed.
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

#[test]
fn a_number_that_was_not_sent_is_ignored() {
    let mut side = Side::new();
    side.put();
    for sequence in [0, 2, u32::MAX] {
        assert_eq!(side.answer(sequence, &[]), Ok(()));
    }
    assert!(side.line().is_due() && side.origin.ended.untracked.is_empty());
}

/// A message of the host cannot fail, so no more fails than the operations that are counted.
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

/// Messages of the host that wait to be covered keep no memory.
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

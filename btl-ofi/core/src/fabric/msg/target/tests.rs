//! Tests with batches that an origin should not send, and with answers that cannot be sent.

#![allow(clippy::expect_used, reason = "tests fail by panicking")]

use libfabric_sys as ffi;

use super::answers::MOST_FAILURES;
use super::held::{MOST_HELD, MOST_OWED};
use super::pauses::{LONGEST, PROMPT};
use super::*;
use crate::fabric::msg::line::MOST_DUE;
use crate::fabric::msg::places::SPARE;
use crate::fabric::msg::port::SENDS;
use crate::fabric::msg::wire::{Introduction, MOST_WORDS, push_introduction};
use crate::op::marked::Message;

const COOKIE: u64 = 0x1234;
/// The key of the origins.
const KEY: u64 = 0x5678;
/// The address of the origins, which is also the target's address.
const NAME: [u8; 16] = [1; 16];

/// A target that knows one origin.
fn target() -> Target {
    let addresses = Arc::new(Addresses::that_keep(&NAME));
    let mut target = Target::new(addresses, (0, NAME.to_vec()), MOST_WORDS);
    add_client(&mut target, COOKIE);
    target
}

fn add_client(target: &mut Target, cookie: u64) -> u32 {
    target.clients.push(Some(Client {
        address: 0,
        key: KEY,
        line: 0,
        cookie,
        sender: Sender::default(),
        sequence: 0,
        early: Vec::new(),
        is_held: false,
        due: 0,
        parked: 0,
        paused: false,
        has_covered: false,
    }));
    target.clients.len() as u32 - 1
}

fn header(kind: Kind, sequence: u32) -> Header {
    Header {
        kind,
        cookie: COOKIE,
        line: 0,
        client: 0,
        sequence,
        entries: 0,
        results: 0,
    }
}

/// Passes an empty batch with this number to the target.
fn come(target: &mut Target, port: &Port, sequence: u32) -> Result<(), &'static str> {
    come_as(target, port, header(Kind::Batch, sequence))
}

fn come_as(target: &mut Target, port: &Port, header: Header) -> Result<(), &'static str> {
    let mut words = [0; Header::WORDS];
    let buffer = Buffer {
        receive: 0,
        words: words.as_ptr(),
    };
    let batch = (header, &mut words[..]);
    target.execute(port, batch, buffer, &Lock::new(Regions::default(), false))
}

/// Lets the provider send all answers, and executes the batches that waited for the answers to
/// leave.
fn leave(target: &mut Target, port: &Port) {
    for number in 0..target.answers.len() as u32 {
        if target.answers[number as usize].is_due {
            target.sent(number);
        }
    }
    while target.has_held() {
        target.execute_held(port, &Lock::new(Regions::default(), false));
    }
}

/// The receipts that have not left. For each: the number of the next batch, the number of answers still to come, and the
/// number of the question.
fn receipts(target: &Target) -> Vec<(u32, u32, u32)> {
    let receipts = target.answers.iter().filter(|answer| answer.is_receipt);
    let read = receipts.map(|receipt| {
        let mut words = receipt.words.clone();
        let bytes = size_of_val(&*words);
        let (header, ..) = Header::read(&mut words, bytes, KEY).expect("a message");
        assert_eq!(header.kind, Kind::Receipt);
        (header.sequence, header.entries, header.results)
    });
    read.collect()
}

#[test]
fn each_number_waits_once() {
    let (mut target, port) = (target(), Port::that_takes_all());
    let last = WINDOW as u32 - 1;
    assert_eq!(come(&mut target, &port, last), Ok(()));
    for _ in 0..3 {
        come(&mut target, &port, last).expect_err("it waits already");
    }
    come(&mut target, &port, WINDOW as u32).expect_err("it is too far ahead");
    for sequence in 0..last {
        assert_eq!(come(&mut target, &port, sequence), Ok(()));
        leave(&mut target, &port);
    }
    assert_eq!(target.served, WINDOW as u64);
    come(&mut target, &port, last).expect_err("it was executed");
}

/// If an origin takes no answers, the target makes only as many answers as the origin may wait for. Further batches wait,
/// up to the window, and are executed in order as answers leave.
#[test]
fn origins_take_their_answers() {
    let (mut target, port) = (target(), Port::that_takes_all());
    target.inbox = Some(Box::default());
    let window = WINDOW as u32;
    for sequence in 0..MOST_DUE as u32 {
        assert_eq!(come(&mut target, &port, sequence), Ok(()));
    }
    let unanswered = header(Kind::Unanswered, MOST_DUE as u32);
    assert_eq!(come_as(&mut target, &port, unanswered), Ok(()));
    let executed = MOST_DUE as u32 + 1;
    for sequence in executed..executed + window {
        assert_eq!(come(&mut target, &port, sequence), Ok(()));
        come(&mut target, &port, sequence).expect_err("it waits already");
    }
    come(&mut target, &port, executed + window).expect_err("it is too far ahead");
    assert_eq!(target.served, u64::from(executed));
    assert_eq!(target.answers.iter().filter(|a| a.is_due).count(), MOST_DUE);
    assert_eq!(target.asked(&port, &header(Kind::Alive, 0), &[]), Ok(()));
    assert_eq!(receipts(&target), [(executed + window, 8, 0)]);
    assert!(!target.has_held(), "no answer has left");
    let first = target.answers.iter().position(|a| a.is_due);
    target.sent(first.expect("an answer") as u32);
    assert!(target.has_held());
    target.execute_held(&port, &Lock::new(Regions::default(), false));
    assert_eq!(target.served, u64::from(executed) + 1);
    leave(&mut target, &port);
    let rounds = WINDOW / MOST_DUE;
    assert_eq!(target.served, u64::from(executed) + 1 + MOST_DUE as u64);
    (0..rounds).for_each(|_| leave(&mut target, &port));
    assert_eq!(target.served, u64::from(executed + window));
    assert_eq!(come(&mut target, &port, executed + window), Ok(()));
}

/// While very many words of answers have not left, only one answer is made per origin at a time.
#[test]
fn all_origins_share_a_bound() {
    let (mut target, port) = (target(), Port::that_takes_all());
    target.owed_words = MOST_OWED;
    for sequence in 0..3 {
        assert_eq!(come(&mut target, &port, sequence), Ok(()));
    }
    assert_eq!(target.served, 1);
    target.owed_words -= MOST_OWED;
    leave(&mut target, &port);
    assert_eq!(target.served, 3);
}

/// The waiting batches of all origins share one limit. The batches of an origin that leaves are
/// removed.
#[test]
fn few_batches_wait() {
    let (mut target, port) = (target(), Port::that_takes_all());
    let words = vec![0; MOST_HELD / 4 + 1];
    let early = |target: &mut Target, sequence| {
        let mut words = words.clone();
        let buffer = Buffer {
            receive: 0,
            words: words.as_ptr(),
        };
        let batch = (header(Kind::Batch, sequence), &mut words[..]);
        let regions = Lock::new(Regions::default(), false);
        target.execute(&port, batch, buffer, &regions)
    };
    for sequence in 1..4 {
        assert_eq!(early(&mut target, sequence), Ok(()));
    }
    early(&mut target, 4).expect_err("there are too many");
    assert_eq!(target.remove_client(&header(Kind::Farewell, 0)), Ok(()));
    target.clients.clear();
    target.free_clients.clear();
    add_client(&mut target, COOKIE);
    assert_eq!(early(&mut target, 1), Ok(()));
}

/// The memory of many simultaneous answers is freed after they have left, except for a reserve.
#[test]
fn answers_give_their_memory_back() {
    const ORIGINS: u64 = 1000;
    let (mut target, port) = (target(), Port::that_takes_all());
    target.clients.clear();
    for cookie in 0..ORIGINS {
        let client = add_client(&mut target, cookie);
        let batch = Header {
            cookie,
            client,
            ..header(Kind::Batch, 0)
        };
        assert_eq!(come_as(&mut target, &port, batch), Ok(()));
    }
    for number in 1..ORIGINS as u32 {
        target.sent(number);
    }
    let with_memory = target.answers.iter().filter(|a| a.words.capacity() > 0);
    assert_eq!(with_memory.count(), SPARE + 1);
    target.sent(0);
    assert_eq!(
        (target.answers.capacity(), target.free_answers.len()),
        (0, 0)
    );
    assert!(!target.owes_answers());
}

/// Any number of questions leaves only few unsent receipts.
#[test]
fn receipts_are_few() {
    let (mut target, port) = (target(), Port::that_takes_all());
    for _ in 0..10 {
        assert_eq!(target.asked(&port, &header(Kind::Alive, 0), &[]), Ok(()));
    }
    assert_eq!(receipts(&target).len(), 2);
    let origin = Introduction {
        key: KEY,
        address: NAME.to_vec(),
    };
    let mut words = vec![0; Header::WORDS];
    push_introduction(&mut words, &origin);
    let mut taken = 0;
    for cookie in 0..100 {
        let stranger = Header {
            client: UNKNOWN,
            cookie,
            ..header(Kind::Alive, 0)
        };
        taken += usize::from(target.asked(&port, &stranger, &words).is_ok());
    }
    assert_eq!(taken, 64);
    assert_eq!(receipts(&target).len(), 2 + taken);
}

/// An answer that cannot be sent is kept until its origin asks, and the close of the transport does not wait for
/// it.
#[test]
fn an_answer_that_cannot_be_sent_is_kept() {
    let (mut target, port) = (target(), Port::that_takes_all());
    assert_eq!(come(&mut target, &port, 0), Ok(()));
    assert!(target.owes_answers());
    assert!(target.owed_bytes() > 0);
    for failure in 1..=MOST_FAILURES {
        target.answer_failed(0, ffi::FI_EIO as i32);
        let before = SENDS.get();
        progress(&mut target, &port, (1 << failure.min(LONGEST)) - 1);
        assert_eq!(SENDS.get(), before, "pauses grow");
        progress(&mut target, &port, 1);
        let again = u64::from(failure < MOST_FAILURES);
        assert_eq!(SENDS.get(), before + again);
    }
    assert!(!target.owes_answers() && !target.has_unsent());
    assert_eq!(target.owed_bytes(), 0, "the provider does not have it");
    let other = Header {
        cookie: 1,
        ..header(Kind::Alive, 0)
    };
    target
        .asked(&port, &other, &[])
        .expect_err("it is of another line");
    assert!(!target.has_unsent());
    assert_eq!(target.asked(&port, &header(Kind::Alive, 0), &[]), Ok(()));
    assert!(target.has_unsent() && target.owes_answers() && target.owed_bytes() > 0);
    target.send_waiting(&port);
    target.sent(0);
    assert!(!target.has_unsent() && !target.owes_answers() && target.owed_bytes() == 0);
}

/// Makes `calls` calls of progress with waiting answers.
fn progress(target: &mut Target, port: &Port, calls: u32) {
    for _ in 0..calls {
        if target.has_unsent() {
            target.send_waiting(port);
        }
    }
}

/// The provider takes no messages to a hundred origins. Each origin is tried rarely and finally abandoned, so that
/// no close waits for it. If an abandoned origin asks later, it is alive.
#[test]
fn origins_that_cannot_be_reached_cost_little() {
    const ORIGINS: u64 = 100;
    const CALLS: u32 = 1 << 13;
    let (mut target, nothing) = (target(), Port::that_takes(false));
    let of = |kind, cookie: u64, sequence| Header {
        cookie,
        client: cookie as u32,
        ..header(kind, sequence)
    };
    target.clients.clear();
    for cookie in 0..ORIGINS {
        add_client(&mut target, cookie);
        for sequence in 0..8 {
            let batch = of(Kind::Batch, cookie, sequence);
            assert_eq!(come_as(&mut target, &nothing, batch), Ok(()));
        }
    }
    assert!(target.owes_answers(), "they may still be living");
    progress(&mut target, &nothing, PROMPT + 100);
    target.lose_patience();
    progress(&mut target, &nothing, 2 << LONGEST);
    assert!(
        target.owes_answers(),
        "a busy machine makes few calls a second"
    );
    let before = SENDS.get();
    progress(&mut target, &nothing, CALLS);
    let tries = SENDS.get() - before;
    let most = ORIGINS * u64::from(PROMPT + LONGEST + 1 + (CALLS >> LONGEST));
    assert!(tries <= most, "{tries} tries in {CALLS} calls");
    target.lose_patience();
    progress(&mut target, &nothing, 2 << LONGEST);
    assert!(!target.has_unsent() && !target.owes_answers() && target.owed_bytes() == 0);
    let before = SENDS.get();
    progress(&mut target, &nothing, CALLS);
    assert_eq!(SENDS.get(), before, "nothing is tried any more");
    let question = of(Kind::Alive, 99, 0);
    let port = Port::that_takes_all();
    assert_eq!(target.asked(&port, &question, &[]), Ok(()));
    progress(&mut target, &port, 1);
    assert_eq!(SENDS.get(), before + 9, "eight answers and a receipt");
}

/// If there is room again for an origin, it gets its answers in order after the pause. An answer that is made
/// meanwhile is sent behind these answers. An origin that leaves is not tried.
#[test]
fn a_pause_ends_when_there_is_room() {
    let (mut target, nothing) = (target(), Port::that_takes(false));
    let port = Port::that_takes_all();
    for sequence in 0..3 {
        assert_eq!(come(&mut target, &nothing, sequence), Ok(()));
    }
    let before = SENDS.get();
    progress(&mut target, &nothing, PROMPT);
    assert_eq!(
        SENDS.get(),
        before + u64::from(PROMPT),
        "room may come soon"
    );
    const REFUSED: u32 = 1000;
    progress(&mut target, &nothing, REFUSED);
    let before = SENDS.get();
    assert_eq!(come(&mut target, &port, 3), Ok(()));
    assert_eq!(SENDS.get(), before);
    progress(&mut target, &port, REFUSED + 25);
    assert_eq!(SENDS.get(), before + 4);
    assert!(!target.has_unsent());
    assert_eq!(come(&mut target, &port, 4), Ok(()));
    assert_eq!(SENDS.get(), before + 5, "it is paused no longer");
    assert_eq!(come(&mut target, &nothing, 5), Ok(()));
    assert!(target.has_unsent());
    assert_eq!(target.remove_client(&header(Kind::Farewell, 0)), Ok(()));
    assert!(!target.has_unsent());
}

/// Any number of origins may have answers that cannot be sent. Each of these answers is kept until its origin asks or
/// leaves. Answers beyond the number that an origin may wait for are not kept.
#[test]
fn each_origin_has_room_for_its_answers() {
    const ORIGINS: u64 = 100;
    const EACH: u32 = 12;
    let (mut target, port) = (target(), Port::that_takes_all());
    let of = |cookie: u64, sequence| Header {
        cookie,
        client: cookie as u32,
        ..header(Kind::Batch, sequence)
    };
    target.clients.clear();
    for cookie in 0..ORIGINS {
        assert_eq!(u64::from(add_client(&mut target, cookie)), cookie);
    }
    for sequence in 0..EACH {
        for cookie in 0..ORIGINS {
            assert_eq!(come_as(&mut target, &port, of(cookie, sequence)), Ok(()));
        }
    }
    for number in 0..target.answers.len() as u32 {
        target.answer_failed(number, ffi::FI_ECONNREFUSED as i32);
    }
    let kept = |client: &Option<Client>| client.as_ref().expect("it stays").parked;
    assert!(target.clients.iter().map(kept).all(|n| n == 8));
    assert!(!target.owes_answers());
    assert_eq!(target.asked(&port, &of(99, 0), &[]), Ok(()));
    assert_eq!(target.unsent.len(), 8);
    assert_eq!(receipts(&target), [(EACH, 8, 0)]);
    let (kept, free) = (target.parked.len(), target.free_answers.len());
    assert_eq!(target.remove_client(&of(98, 0)), Ok(()));
    assert_eq!(target.parked.len(), kept - 8);
    assert_eq!(target.free_answers.len(), free + 8);
}

/// A receipt contains the number of executed batches, and the number of batches that are still to
/// be answered. A receipt whose send fails is not kept.
#[test]
fn receipts_say_what_was_executed() {
    let (mut target, port) = (target(), Port::that_takes_all());
    for sequence in [0, 1, 3] {
        assert_eq!(come(&mut target, &port, sequence), Ok(()));
    }
    target.sent(0);
    let question = Header {
        results: 5,
        ..header(Kind::Alive, 0)
    };
    assert_eq!(target.asked(&port, &question, &[]), Ok(()));
    assert_eq!(receipts(&target), [(2, 1, 5)]);
    // The origin does not know its client number yet.
    let unknown = Header {
        client: UNKNOWN,
        results: 6,
        ..question
    };
    assert_eq!(target.asked(&port, &unknown, &[]), Ok(()));
    let receipt = |question| move |a: &Answer| a.is_receipt && a.words[5] >> 32 == question;
    for question in [5, 6] {
        assert!(target.owes_receipts());
        let number = target.answers.iter().position(receipt(question));
        let number = number.expect("it was sent") as u32;
        target.answer_failed(number, ffi::FI_EIO as i32);
        assert!(!target.has_unsent());
    }
    assert!(!target.owes_receipts() && target.owes_answers());
    target.sent(1);
    assert!(!target.owes_answers());
}

/// A question of an origin from which nothing else came must contain an address for the receipt.
#[test]
fn strangers_say_where_they_are() {
    let (mut target, port) = (target(), Port::that_takes_all());
    let stranger = Header {
        client: UNKNOWN,
        cookie: 1,
        ..header(Kind::Alive, 0)
    };
    for words in [
        &[0; 6][..],
        &[0; 7],
        &[0; 8],
        &[0, 0, 0, 0, 0, 0, KEY, 16, 1],
    ] {
        target
            .asked(&port, &stranger, words)
            .expect_err("it has no address");
    }
    assert!(target.answers.is_empty());
    let mut words = vec![0; Header::WORDS];
    let origin = Introduction {
        key: KEY,
        address: NAME.to_vec(),
    };
    push_introduction(&mut words, &origin);
    assert_eq!(target.asked(&port, &stranger, &words), Ok(()));
    assert_eq!(receipts(&target), [(0, 0, 0)]);
    let receipt = &target.answers[0].receiver;
    assert!(*receipt == Receiver::Stranger(0));
    target.sent(0);
    assert!(target.answers[0].receiver == Receiver::Nobody);
}

/// A target that leaves sends each origin one receipt for batches that no answer covers.
#[test]
fn a_target_that_leaves_gives_receipts() {
    let (mut target, port) = (target(), Port::that_takes_all());
    target.inbox = Some(Box::default());
    let unanswered = |sequence| header(Kind::Unanswered, sequence);
    assert_eq!(come(&mut target, &port, 0), Ok(()));
    target.sent(0);
    target.part(&port);
    assert!(receipts(&target).is_empty(), "all was answered");
    assert_eq!(come_as(&mut target, &port, unanswered(1)), Ok(()));
    assert_eq!(come_as(&mut target, &port, unanswered(2)), Ok(()));
    for _ in 0..2 {
        target.part(&port);
        assert_eq!(receipts(&target), [(3, 0, 0)]);
    }
    assert!(target.owes_receipts() && !target.owes_answers());
}

#[test]
fn answers_ride_if_nobody_waits() {
    let (mut target, port) = (target(), Port::that_takes_all());
    let before = SENDS.get();
    // The last one announces an entry that it does not have.
    for (sequence, entries) in [(0, 0), (1, 0), (2, 1)] {
        let patient = header(Kind::Patient, sequence);
        assert_eq!(
            come_as(&mut target, &port, Header { entries, ..patient }),
            Ok(())
        );
    }
    assert!(target.has_unsent() && target.owes_answers());
    let mut carried = |port: &Port, to| {
        let mut words = vec![0; 2];
        target.send_with_answers(port, (&mut words, to), Message::Batch(0));
        words
    };
    assert_eq!(
        carried(&Port::that_takes(false), 0).len(),
        2,
        "it did not leave"
    );
    assert_eq!(carried(&port, 1).len(), 2, "it went to another process");
    let mut words = carried(&port, 0);
    let mut rest = &mut words[2..];
    for (sequence, kind) in [(0, Kind::Answer), (1, Kind::Answer), (2, Kind::Refusal)] {
        let bytes = size_of_val(rest);
        let (header, _, behind) = Header::read(rest, bytes, KEY).expect("a message");
        assert_eq!((header.sequence, header.kind), (sequence, kind));
        rest = behind;
    }
    assert!(rest.is_empty() && !target.has_unsent() && !target.owes_answers());
    assert_eq!(SENDS.get(), before + 3);
}

/// The origin may wait for earlier answers, too, when it waits for a later one.
#[test]
fn an_awaited_answer_takes_those_before_it_along() {
    let (mut target, port) = (target(), Port::that_takes_all());
    let before = SENDS.get();
    let patient = header(Kind::Patient, 0);
    assert_eq!(come_as(&mut target, &port, patient), Ok(()));
    assert_eq!(SENDS.get(), before);
    assert_eq!(come(&mut target, &port, 1), Ok(()));
    assert_eq!(SENDS.get(), before + 2);
}

/// Without a batch to the client, progress sends the answers soon, and executes what waits for room.
#[test]
fn answers_do_not_wait_long() {
    let (mut target, port) = (target(), Port::that_takes_all());
    let most = MOST_DUE as u64;
    for sequence in 0..=most as u32 {
        let patient = header(Kind::Patient, sequence);
        assert_eq!(come_as(&mut target, &port, patient), Ok(()));
    }
    assert_eq!(target.served, most);
    let before = SENDS.get();
    while SENDS.get() == before {
        target.send_late_answers(&port);
    }
    assert_eq!(SENDS.get(), before + most);
    leave(&mut target, &port);
    assert_eq!(target.served, most + 1);
}

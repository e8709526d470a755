//! Batches as origins should not send them, and answers that cannot be sent.

#![allow(clippy::expect_used, reason = "tests fail by panicking")]

use super::*;

const COOKIE: u64 = 0x1234;

/// A target that knows one origin.
fn target() -> Target {
    // SAFETY: nothing here inserts or removes an address.
    let addresses = Arc::new(unsafe { Addresses::new(std::ptr::null_mut()) });
    let mut target = Target::new(addresses, (0, vec![1; 16]), MOST_WORDS);
    target.clients.push(Some(Client {
        address: 0,
        line: 0,
        cookie: COOKIE,
        sender: Sender::default(),
        sequence: 0,
        early: Vec::new(),
    }));
    target
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

/// Hands an empty batch with a number to the target.
fn come(target: &mut Target, port: &Port, sequence: u32) -> Result<(), &'static str> {
    let mut words = [0; Header::WORDS];
    let buffer = Buffer {
        receive: 0,
        words: words.as_ptr(),
    };
    let batch = (header(Kind::Batch, sequence), &mut words[..]);
    target.execute(port, batch, buffer, &Lock::new(Regions::default(), false))
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
    }
    assert_eq!(target.served, WINDOW as u64);
    come(&mut target, &port, last).expect_err("it was executed");
}

/// An answer that cannot be sent stays until its origin asks, and nobody waits for it when the transport closes.
#[test]
fn an_answer_that_cannot_be_sent_is_kept() {
    let (mut target, port) = (target(), Port::that_takes_all());
    assert_eq!(come(&mut target, &port, 0), Ok(()));
    assert!(target.owes_answers());
    for _ in 0..MOST_FAILURES {
        target.answer_failed(0, ffi::FI_EIO as i32);
        target.send_waiting(&port);
    }
    assert!(!target.owes_answers() && !target.has_unsent());
    let other = Header {
        cookie: 1,
        ..header(Kind::Alive, 0)
    };
    target.asked(&other);
    assert!(!target.has_unsent());
    target.asked(&header(Kind::Alive, 0));
    assert!(target.has_unsent() && target.owes_answers());
    target.send_waiting(&port);
    target.sent(0);
    assert!(!target.has_unsent() && !target.owes_answers());
}

//! Tests that a target accepts full batches.

use std::ptr::{self, NonNull};

use super::{Batch, Ended};
use crate::fabric::msg::execute;
use crate::fabric::msg::hostile::{GUARD, Memory, OWN_KEY, WORDS, read, treat};
use crate::fabric::msg::wire::{
    Form, Header, Kind, LARGE_OPERANDS, LARGEST, LARGEST_GET, LONG_BATCH, LONG_WORDS, MOST_ANSWER,
    MOST_WORDS,
};
use crate::op::completion::Finished;
use crate::op::request::Operands;
use crate::op::responder::{COUNT, Command, GET, PUT};
use crate::op::tag::Tag;
use crate::peer::endpoint::Endpoint;
use crate::peer::route::{Facts, Route};

/// An answer has no result words for failed entries; the origin still finds the results of the others. The origin
/// ignores an answer whose length does not match the failures that it names.
#[test]
fn failed_gets_are_answered_without_bytes() {
    let mut memory = Memory::new();
    (memory.words[GUARD..][..WORDS].iter_mut().zip(100..)).for_each(|(word, n)| *word = n);
    let peer = Endpoint::new(0, 1, Route::decide(Facts::default()));
    let endpoint = NonNull::from(&peer);
    let inside = |count, word| memory.command(GET, count, word);
    let outside = inside(24, WORDS as u64 - 2);
    let stale = Command {
        key: 99,
        ..inside(LARGEST_GET as u32 / 2, 0)
    };
    let commands = [inside(16, 1), outside, inside(3, 4), stale, inside(8, 9)];
    let mut results = [[u64::MAX; LARGEST_GET / 8]; 5];
    let mut batch = Batch::default();
    batch.begin((0, 1), None, (MOST_ANSWER, LONG_BATCH));
    for (command, result) in commands.iter().zip(&mut results) {
        let size = command.count as usize;
        let form = Form::known(GET, size);
        let finished = Finished {
            tag: Tag::new(endpoint, 0, 0),
            function: None,
            context: ptr::null_mut(),
            data: ptr::null_mut(),
            local_address: ptr::null_mut(),
            local_handle: ptr::null_mut(),
        };
        // SAFETY: a get has no operands; the result has room for its bytes.
        unsafe {
            batch.push((command, &form), (Operands::Value(0), 0));
            batch.expect((&form, size), result.as_mut_ptr().cast(), finished);
        }
    }
    batch.seal(Kind::Batch, (OWN_KEY, 1, 0), 0);
    let mut answer = treat(&memory, &batch.words).unwrap();
    let (header, words) = read(&mut answer);
    assert_eq!((header.entries, header.results), (2, 2 + 1 + 1));
    assert_eq!(words.len(), Header::WORDS + 2 + 4);
    assert!(batch.is_answered_by(&header, words));
    for wrong in [0, 3, 5, batch.results()] {
        let header = Header {
            results: wrong,
            ..header
        };
        let mut words = words.to_vec();
        words.resize(Header::WORDS + 2 + wrong as usize, 0);
        let is_whole = wrong == batch.results();
        assert_eq!(batch.is_answered_by(&header, &words), is_whole, "{wrong}");
    }
    let mut ended = Ended::default();
    let (failures, rest) = words[Header::WORDS..].split_at(2);
    batch.answer(endpoint, failures, rest, &mut ended);
    assert_eq!(ended.refused.len(), 2);
    assert_eq!(ended.untracked.len(), 3);
    assert_eq!(results[0][..3], [101, 102, u64::MAX]);
    assert_eq!(results[2][0], u64::MAX << 24 | 104);
    assert_eq!(results[4][..2], [109, u64::MAX]);
    for failed in [1, 3] {
        assert!(results[failed].iter().all(|word| *word == u64::MAX));
    }
}

/// The target's answer to the batch.
fn checked(batch: &mut Batch) -> Result<(), &'static str> {
    batch.seal(Kind::Batch, (7, 1, 0), 0);
    let mut words = batch.words.clone();
    let bytes = size_of_val(&*words);
    words.resize(LONG_WORDS, 0);
    let read = Header::read(&mut words, bytes, 7);
    let (header, words, _) = read.map_err(|_| "it has no header")?;
    execute::check(&header, (words, Header::WORDS), true, MOST_ANSWER)
}

#[test]
fn the_shortest_sends() {
    for size in [0, 1, 100] {
        let mut batch = Batch::default();
        batch.begin((0, 1), None, (MOST_WORDS, LONG_BATCH));
        while batch.has_room_for_send(&Form::of_send(size)) {
            // SAFETY: the send has room, and the closure writes its bytes.
            unsafe { batch.push_send(1, size, |at| at.write_bytes(7, size)) };
        }
        assert!(batch.words.len() > 2000, "{size}: {}", batch.words.len());
        assert_eq!(checked(&mut batch), Ok(()), "sends of {size} bytes");
    }
}

/// Large commands fill the longest batch. After these commands, no other command has room in the
/// batch. The target accepts the batch.
#[test]
fn large_commands_until_there_is_no_room() {
    let small = Form::known(PUT, 8 * LARGE_OPERANDS - 8);
    for size in [8 * LARGE_OPERANDS, 7904, LARGEST] {
        let form = Form::known(PUT, size);
        let mut batch = Batch::default();
        batch.begin((0, 1), None, (MOST_WORDS, LONG_BATCH));
        let command = Command {
            what: PUT,
            count: size as u32,
            address: 0x1000,
            key: 1,
            cookie: 2,
            compare: 0,
        };
        let bytes = vec![7u8; size];
        while batch.has_long_room(&form) {
            let operands = Operands::Buffer(bytes.as_ptr().cast());
            // SAFETY: the command has room, and the operands have the size.
            unsafe { batch.push((&command, &form), (operands, size)) };
            batch.count(0, 0);
        }
        let words = batch.words.len();
        assert!(
            words > LONG_BATCH - form.words() && words <= LONG_BATCH,
            "{size}: {words}"
        );
        assert!(!batch.has_room(&small) && !batch.has_long_room(&small));
        assert!(!batch.takes_at_once(&small, false) && !batch.takes_at_once(&form, false));
        assert_eq!(checked(&mut batch), Ok(()), "{size}");
    }
}

/// Until a batch is full, the fast path accepts the same commands as the slow path, if memory is
/// allocated.
#[test]
fn commands_until_there_is_no_room() {
    for (what, size) in [
        (PUT, 8),
        (PUT, 13),
        (GET, 1),
        (GET, 4000),
        (GET, 16384),
        (GET, LARGEST_GET),
        (COUNT, 8),
    ] {
        let form = Form::known(what, size);
        let mut batch = Batch::default();
        batch.begin((0, 1), None, (MOST_ANSWER, LONG_BATCH));
        let count = if what == COUNT { 1 } else { size as u32 };
        let command = Command {
            what,
            count,
            address: 0x1000,
            key: 1,
            cookie: 2,
            compare: 0,
        };
        let bytes = vec![7u8; size];
        let mut quick = 0;
        while batch.has_room(&form) {
            quick += u32::from(batch.takes_at_once(&form, false));
            // SAFETY: the command has room, and the operands have the size.
            unsafe {
                batch.push(
                    (&command, &form),
                    (Operands::Buffer(bytes.as_ptr().cast()), size),
                )
            };
            batch.count(0, 0);
        }
        assert!(!batch.takes_at_once(&form, false), "{what:#x} {size}");
        // The fast path accepts all commands except those for which the memory grew.
        assert!(quick + 3 >= batch.entries, "{what:#x} {size}: {quick}");
        assert_eq!(checked(&mut batch), Ok(()), "{what:#x} {size}");
    }
}

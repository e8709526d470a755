//! Full batches are ones that a target takes.

use super::Batch;
use crate::fabric::msg::execute;
use crate::fabric::msg::wire::{
    Form, Header, Kind, LARGEST_GET, LONG_WORDS, MOST_ANSWER, MOST_WORDS,
};
use crate::op::request::Operands;
use crate::op::responder::{COUNT, Command, GET, PUT};

/// What the target says of the batch.
fn checked(batch: &mut Batch) -> Result<(), &'static str> {
    batch.seal(Kind::Batch, (7, 1, 0), 0);
    let mut words = batch.words.clone();
    let bytes = size_of_val(&*words);
    words.resize(LONG_WORDS, 0);
    let read = Header::read(&mut words, bytes, 7);
    let (header, words) = read.map_err(|_| "it has no header")?;
    execute::check(&header, (words, Header::WORDS), true, MOST_ANSWER)
}

#[test]
fn the_shortest_sends() {
    for size in [0, 1, 100] {
        let mut batch = Batch::default();
        batch.begin((0, 1), None, MOST_WORDS);
        while batch.has_room_for_send(&Form::of_send(size)) {
            // SAFETY: the send has room, and the closure writes its bytes.
            unsafe { batch.push_send(1, size, |at| at.write_bytes(7, size)) };
        }
        assert!(batch.words.len() > 2000, "{size}: {}", batch.words.len());
        assert_eq!(checked(&mut batch), Ok(()), "sends of {size} bytes");
    }
}

/// Until a batch is full, the quick way takes what the general one takes, once there is memory.
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
        batch.begin((0, 1), None, MOST_ANSWER);
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
        assert!(quick + 2 >= batch.entries, "{what:#x} {size}: {quick}");
        assert_eq!(checked(&mut batch), Ok(()), "{what:#x} {size}");
    }
}

//! Context pointers of the provider that are neither an address of a record nor a tag: they have a bit set that is zero
//! in both. They mean a message, or a record with a word about its operation. No provider that claims contexts gets
//! one.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use crate::op::record::Record;

/// The bit of all marked pointers. Tags of untracked operations have another bit set (`op::tag`), which is zero here.
const MARKED: usize = 8;
/// The bits that distinguish the meanings.
const MEANING: usize = 5;
/// An operation record; [`READ`] says of which operation.
const RECORD: usize = 5;
/// Set if the record belongs to a read that confirms puts.
const READ: usize = 16;

/// The meaning of a marked pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    Message(Message),
    /// A put that a read must confirm.
    Put(NonNull<Record>),
    /// A read that confirms puts.
    Confirmation(NonNull<Record>),
}

impl Marked {
    /// The provider's context pointer.
    pub(crate) fn context(self) -> *mut c_void {
        match self {
            Marked::Message(message) => message.context(),
            Marked::Put(record) => mark(record, RECORD),
            Marked::Confirmation(record) => mark(record, RECORD | READ),
        }
    }

    /// Whether a context pointer is marked. The pointer is not that of an untracked operation. A
    /// pointer without the mark is an operation record.
    #[inline(always)]
    pub(crate) fn is(context: *mut c_void) -> bool {
        context as usize & MARKED != 0
    }

    /// The meaning of a context pointer that is not that of an untracked operation; `None` for an
    /// operation record.
    #[inline(always)]
    pub(crate) fn of(context: *mut c_void) -> Option<Marked> {
        if !Marked::is(context) {
            return None;
        }
        let word = context as usize;
        let number = (word >> 4) as u32;
        Some(match word & MEANING {
            0 => Marked::Message(Message::Receive(number)),
            1 => Marked::Message(Message::Batch(number)),
            RECORD => {
                let record = context.map_addr(|word| word & !(align_of::<Record>() - 1));
                let record = NonNull::new(record.cast())?;
                match word & READ {
                    0 => Marked::Put(record),
                    _ => Marked::Confirmation(record),
                }
            }
            _ => Marked::Message(Message::Answer(number)),
        })
    }
}

fn mark(record: NonNull<Record>, meaning: usize) -> *mut c_void {
    record.as_ptr().wrapping_byte_add(MARKED | meaning).cast()
}

/// A message between transports, as the context pointer of its send or receive: the number of an entry in a
/// table of the carrier (`fabric::msg`), and the table. A provider that claims contexts is never used with
/// messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A receive buffer.
    Receive(u32),
    /// A batch of commands.
    Batch(u32),
    /// An answer.
    Answer(u32),
}

impl Message {
    /// The provider's context pointer.
    pub(crate) fn context(self) -> *mut c_void {
        let (number, table) = match self {
            Message::Receive(number) => (number, 0),
            Message::Batch(number) => (number, 1),
            Message::Answer(number) => (number, 4),
        };
        ptr::without_provenance_mut((number as usize) << 4 | MARKED | table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::tag::Tag;

    #[test]
    fn meanings_are_told_apart() {
        let record = NonNull::new(ptr::with_exposed_provenance_mut(0x1fc0)).unwrap();
        for marked in [
            Marked::Message(Message::Receive(0)),
            Marked::Message(Message::Batch(u32::MAX)),
            Marked::Message(Message::Answer(7)),
            Marked::Put(record),
            Marked::Confirmation(record),
        ] {
            let context = marked.context();
            assert!(Tag::from_untracked(context).is_none());
            assert_eq!(Marked::of(context), Some(marked));
        }
        assert_eq!(Marked::of(record.as_ptr().cast()), None);
    }
}

//! Context pointers of the provider that are neither an address of a record nor a tag: they have a bit set that is zero
//! in records' addresses and in tags. Marked contexts mean a message, or a record with a word about its operation. A
//! provider that claims contexts gets [memory](Claimed) for the contexts of messages, and never a marked record.

use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::{self, NonNull};

use libfabric_sys::fi_context2;

use crate::op::record::Record;

/// The bit of all marked pointers. Tags of untracked operations have another bit set (`op::tag`), which is zero here.
const MARKED: usize = 8;
/// The bits that distinguish the meanings. These bits are zero in the address of a context that a provider
/// [claims](Claimed).
const MEANING: usize = 5;
/// A receive, by its number.
const RECEIVE: usize = 1;
/// A message that is sent, by its number; [`ANSWER`] says which of the two kinds.
const SENT: usize = 4;
/// Set if the message is an answer.
const ANSWER: usize = 16;
/// An operation record; [`READ`] names the operation.
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

    /// Whether a context pointer is marked. The pointer belongs to no untracked operation. A
    /// pointer without the mark is an operation record.
    #[inline(always)]
    pub(crate) fn is(context: *mut c_void) -> bool {
        context as usize & MARKED != 0
    }

    /// The meaning of a context pointer that belongs to no untracked operation; `None` for an
    /// operation record.
    ///
    /// # Safety
    /// The transport gave the pointer to the provider, as the context of an operation or of a message.
    #[inline(always)]
    pub(crate) unsafe fn of(context: *mut c_void) -> Option<Marked> {
        if !Marked::is(context) {
            return None;
        }
        let word = context as usize;
        Some(match word & MEANING {
            RECEIVE => Marked::Message(Message::Receive((word >> 4) as u32)),
            SENT => {
                let number = (word >> 5) as u32;
                Marked::Message(match word & ANSWER {
                    0 => Message::Batch(number),
                    _ => Message::Answer(number),
                })
            }
            RECORD => {
                let record = context.map_addr(|word| word & !(align_of::<Record>() - 1));
                let record = NonNull::new(record.cast())?;
                match word & READ {
                    0 => Marked::Put(record),
                    _ => Marked::Confirmation(record),
                }
            }
            // SAFETY: of the pointers that the transport gives, only those of claimed contexts have none of these bits.
            _ => Marked::Message(unsafe { Claimed::message(context) }),
        })
    }
}

fn mark(record: NonNull<Record>, meaning: usize) -> *mut c_void {
    record.as_ptr().wrapping_byte_add(MARKED | meaning).cast()
}

/// A message between transports, as the context pointer of its send or receive: the number of an entry in a
/// table of the carrier (`fabric::msg`), and the table. A provider that claims contexts gets the address of
/// a [`Claimed`] instead.
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
        let word = match self {
            Message::Receive(number) => (number as usize) << 4 | RECEIVE,
            Message::Batch(number) => (number as usize) << 5 | SENT,
            Message::Answer(number) => (number as usize) << 5 | ANSWER | SENT,
        };
        ptr::without_provenance_mut(word | MARKED)
    }
}

/// The context of a message, to which the provider may write, and the kind of the message. The context's address is
/// marked.
#[repr(C, align(16))]
pub(crate) struct Claimed {
    /// Behind it, the context has the address of a marked pointer.
    _before: u64,
    context: MaybeUninit<fi_context2>,
    message: Message,
}

const _: () = assert!(offset_of!(Claimed, context) == MARKED);

impl Claimed {
    pub(crate) fn new(message: Message) -> Claimed {
        Claimed {
            _before: 0,
            context: MaybeUninit::uninit(),
            message,
        }
    }

    /// The provider's context pointer. The pointer stays valid as long as the memory.
    pub(crate) fn context(this: NonNull<Claimed>) -> *mut c_void {
        this.as_ptr().wrapping_byte_add(MARKED).cast()
    }

    /// The message of a context pointer.
    ///
    /// # Safety
    /// [`context`](Self::context) returned the pointer, and the memory is still there.
    unsafe fn message(context: *mut c_void) -> Message {
        let this = context.wrapping_byte_sub(MARKED).cast::<Claimed>();
        // SAFETY: the caller guarantees the memory; the provider uses its context alone.
        unsafe { (*this).message }
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
            // SAFETY: none of these contexts is claimed.
            assert_eq!(unsafe { Marked::of(context) }, Some(marked));
        }
        // SAFETY: the context is not claimed.
        assert_eq!(unsafe { Marked::of(record.as_ptr().cast()) }, None);
    }

    #[test]
    fn a_claimed_context_keeps_its_message() {
        for message in [
            Message::Receive(3),
            Message::Batch(u32::MAX),
            Message::Answer(0),
        ] {
            let claimed = NonNull::from(Box::leak(Box::new(Claimed::new(message))));
            let context = Claimed::context(claimed);
            // SAFETY: the context is 64 bytes of the claimed memory, and aligned as its type asks.
            unsafe { context.cast::<fi_context2>().write_bytes(0xff, 1) };
            assert!(Tag::from_untracked(context).is_none());
            // SAFETY: the context is claimed.
            let marked = unsafe { Marked::of(context) };
            assert_eq!(marked, Some(Marked::Message(message)));
            // SAFETY: the memory came from a box, and the context is no longer used.
            drop(unsafe { Box::from_raw(claimed.as_ptr()) });
        }
    }
}

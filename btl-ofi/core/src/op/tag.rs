//! Context pointers of the provider that are no addresses of records: tags of untracked operations, and messages. Three low
//! bits tell them apart, which are zero in the address of a record.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use crate::peer::endpoint::Endpoint;
use crate::peer::outstanding::Phase;

/// The bit that tells an untracked operation (a tag) from the address of a record.
const UNTRACKED: usize = 2;
/// The bit that tells a message ([`Message`]) from the address of a record, where [`UNTRACKED`] is not set.
const MESSAGE: usize = 8;
const CONTEXT_SHIFT: u32 = 0;
const ENDPOINT_SHIFT: u32 = 2;

/// An endpoint and the phases in which its operation counts, in one word. With [`UNTRACKED`] set, the word itself is
/// the provider's context pointer of an untracked operation.
#[derive(Clone, Copy)]
pub(crate) struct Tag(pub(super) usize);

impl Tag {
    #[inline]
    pub(crate) fn new(endpoint: NonNull<Endpoint>, context: Phase, peer: Phase) -> Self {
        // The parts have no bit in common, so sums equal ORs. Some processors add several parts in one instruction.
        Tag((endpoint.as_ptr() as usize)
            .wrapping_add((context as usize) << CONTEXT_SHIFT)
            .wrapping_add((peer as usize) << ENDPOINT_SHIFT))
    }

    /// The provider's context pointer of an untracked operation.
    #[inline]
    pub(crate) fn untracked(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0.wrapping_add(UNTRACKED))
    }

    /// The tag in a pointer made by [`untracked`](Self::untracked); `None` for any other pointer.
    #[inline]
    pub(crate) fn from_untracked(pointer: *mut c_void) -> Option<Tag> {
        let word = pointer as usize;
        (word & UNTRACKED != 0).then_some(Tag(word & !UNTRACKED))
    }

    #[inline]
    pub(crate) fn context_phase(self) -> Phase {
        (self.0 >> CONTEXT_SHIFT) as u32 & 1
    }

    #[inline]
    pub(crate) fn endpoint_phase(self) -> Phase {
        (self.0 >> ENDPOINT_SHIFT) as u32 & 1
    }

    /// The peer. Tags are made from live endpoints only, whose memory outlives every operation that names them.
    #[inline]
    pub(crate) fn endpoint(self) -> *mut Endpoint {
        ptr::with_exposed_provenance_mut(self.0 & !(align_of::<Endpoint>() - 1))
    }
}

/// A message between transports, as the context pointer of its send or receive: a number in the carrier's tables
/// (`fabric::msg`), and which table it is. No provider with messages claims contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A buffer that receives.
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
        ptr::without_provenance_mut((number as usize) << 4 | MESSAGE | table)
    }

    /// The message of a context pointer that is not untracked; `None` for a record.
    #[inline(always)]
    pub(crate) fn of(context: *mut c_void) -> Option<Message> {
        let word = context as usize;
        if word & MESSAGE == 0 {
            return None;
        }
        let number = (word >> 4) as u32;
        Some(match word & 5 {
            0 => Message::Receive(number),
            1 => Message::Batch(number),
            _ => Message::Answer(number),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> NonNull<Endpoint> {
        NonNull::new(ptr::with_exposed_provenance_mut(0x1000)).unwrap()
    }

    #[test]
    fn a_tag_keeps_its_parts() {
        for (c, p) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let tag = Tag::from_untracked(Tag::new(endpoint(), c, p).untracked()).unwrap();
            assert_eq!(tag.context_phase(), c);
            assert_eq!(tag.endpoint_phase(), p);
            assert_eq!(tag.endpoint(), endpoint().as_ptr());
        }
        assert!(Tag::from_untracked(ptr::null_mut()).is_none());
    }

    #[test]
    fn a_message_is_told_from_a_tag() {
        for message in [
            Message::Receive(0),
            Message::Batch(u32::MAX),
            Message::Answer(7),
        ] {
            let context = message.context();
            assert!(Tag::from_untracked(context).is_none());
            assert_eq!(Message::of(context), Some(message));
        }
    }
}

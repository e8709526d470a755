//! Tags: an endpoint and two phases in one word. A tag is also the provider's context pointer of an untracked operation.
//! Other context pointers are addresses of records, or are marked (`op::marked`).

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use crate::peer::endpoint::Endpoint;
use crate::peer::outstanding::Phase;

/// The bit that distinguishes an untracked operation (a tag) from the address of a record.
const UNTRACKED: usize = 2;
/// The bit in the tag of a record whose operation is counted in addition to its parts. No context pointer has such a tag,
/// so the bit does not collide with the bit of marked pointers.
const WHOLE: usize = 8;
const CONTEXT_SHIFT: u32 = 0;
const ENDPOINT_SHIFT: u32 = 2;

/// An endpoint and the phases in which an operation to it is counted, in one word. With [`UNTRACKED`] set, the word itself
/// is the provider's context pointer of an untracked operation.
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

    /// The tag of an operation that is counted in addition to its parts.
    pub(crate) fn whole(self) -> Tag {
        Tag(self.0 | WHOLE)
    }

    /// Whether the operation is counted in addition to its parts.
    pub(crate) fn is_whole(self) -> bool {
        self.0 & WHOLE != 0
    }

    #[inline]
    pub(crate) fn context_phase(self) -> Phase {
        (self.0 >> CONTEXT_SHIFT) as u32 & 1
    }

    #[inline]
    pub(crate) fn endpoint_phase(self) -> Phase {
        (self.0 >> ENDPOINT_SHIFT) as u32 & 1
    }

    /// The peer. Tags are made only from live endpoints, whose memory outlives every operation that names them.
    #[inline]
    pub(crate) fn endpoint(self) -> *mut Endpoint {
        ptr::with_exposed_provenance_mut(self.0 & !(align_of::<Endpoint>() - 1))
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
            let whole = tag.whole();
            assert_eq!((tag.is_whole(), whole.is_whole()), (false, true));
            assert_eq!((whole.context_phase(), whole.endpoint_phase()), (c, p));
            assert_eq!(whole.endpoint(), tag.endpoint());
        }
        assert!(Tag::from_untracked(ptr::null_mut()).is_none());
    }
}

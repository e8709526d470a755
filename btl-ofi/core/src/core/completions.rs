//! The buffer for completions that are read from the provider's queue.

use std::ffi::c_void;
use std::ptr;

use libfabric_sys as ffi;

use crate::base::params::MAX_CQ_READ;

/// Words of an entry that contains the length of a message, and the index of the word with the
/// length.
const LONG: usize = size_of::<ffi::fi_cq_msg_entry>() / size_of::<*mut c_void>();
const LENGTH: usize = std::mem::offset_of!(ffi::fi_cq_msg_entry, len) / size_of::<*mut c_void>();

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<ffi::fi_cq_entry>() == size_of::<*mut c_void>());
    assert!(offset_of!(ffi::fi_cq_entry, op_context) == 0);
    assert!(offset_of!(ffi::fi_cq_msg_entry, op_context) == 0);
};

/// Room for [`MAX_CQ_READ`] entries in the format of one queue: entries of one word, or of three words if messages
/// are received.
pub(crate) struct Completions {
    words: [*mut c_void; LONG * MAX_CQ_READ],
    /// Number of words of an entry.
    each: usize,
}

impl Completions {
    /// Room for a queue. `tell_lengths` says whether its entries contain the lengths of messages
    /// ([`Device::tells_lengths`](crate::fabric::device::Device::tells_lengths)).
    pub(crate) fn new(tell_lengths: bool) -> Completions {
        Completions {
            words: [ptr::null_mut(); LONG * MAX_CQ_READ],
            each: if tell_lengths { LONG } else { 1 },
        }
    }

    /// The memory into which the provider writes entries.
    #[inline(always)]
    pub(crate) fn room(&mut self) -> *mut c_void {
        self.words.as_mut_ptr().cast()
    }

    /// The context of the first entry.
    #[inline(always)]
    pub(crate) fn first(&self) -> *mut c_void {
        self.words[0]
    }

    /// The length of the message of the first entry.
    #[inline]
    pub(crate) fn first_length(&self) -> usize {
        self.length(0)
    }

    /// The contexts of the first `n` entries, each with its number in [`length`](Self::length).
    #[inline(always)]
    pub(crate) fn contexts(&self, n: usize) -> impl Iterator<Item = (usize, *mut c_void)> {
        let end = self.each * n.min(MAX_CQ_READ);
        let mut next = 0;
        std::iter::from_fn(move || {
            let at = next;
            if at >= end {
                return None;
            }
            next += self.each;
            Some((at, self.words[at]))
        })
    }

    /// Size of the message that an entry of [`contexts`](Self::contexts) completes; 0 if the entries contain no
    /// lengths.
    #[inline]
    pub(crate) fn length(&self, entry: usize) -> usize {
        match self.each {
            LONG => self.words.get(entry + LENGTH).map_or(0, |word| word.addr()),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_format_of_their_queue() {
        for tells in [false, true] {
            let mut completions = Completions::new(tells);
            let room = completions.room();
            for n in 0..MAX_CQ_READ {
                let op_context = ptr::without_provenance_mut(n + 1);
                // SAFETY: the buffer has room for this many entries of either format.
                unsafe {
                    match tells {
                        true => {
                            room.cast::<ffi::fi_cq_msg_entry>()
                                .add(n)
                                .write(ffi::fi_cq_msg_entry {
                                    op_context,
                                    flags: u64::MAX,
                                    len: 100 + n,
                                })
                        }
                        false => room
                            .cast::<ffi::fi_cq_entry>()
                            .add(n)
                            .write(ffi::fi_cq_entry { op_context }),
                    }
                }
            }
            assert_eq!(completions.first().addr(), 1);
            assert_eq!(completions.first_length(), if tells { 100 } else { 0 });
            let read = completions.contexts(MAX_CQ_READ);
            let read: Vec<_> = read
                .map(|(entry, context)| (context.addr(), completions.length(entry)))
                .collect();
            let expected = (0..MAX_CQ_READ).map(|n| (n + 1, if tells { 100 + n } else { 0 }));
            assert!(read.into_iter().eq(expected));
            assert_eq!(completions.contexts(2).count(), 2);
        }
    }
}

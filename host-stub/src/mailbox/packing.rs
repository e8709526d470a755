//! The encoding of transferred bytes: each byte has seven bits of payload and one mark of presence.
//!
//! The bytes of a peer's put become visible one by one, in an order that depends on the provider. A
//! byte here is either 0 (not there) or has its top bit set (there), so a reader that finds all
//! marks set has all bits. Seven bytes of payload become one word of eight.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Payload bytes in a word.
pub(super) const GROUP: usize = 7;

const MARKS: u64 = 0x8080_8080_8080_8080;

/// Words that hold `len` bytes.
pub(super) const fn words_of(len: usize) -> usize {
    len.div_ceil(GROUP)
}

/// Spreads 56 bits over a word, seven in each byte, and marks every byte.
#[inline]
pub(super) const fn pack(bits: u64) -> u64 {
    let bits = (bits & 0x0000_0000_0fff_ffff) | ((bits & 0x00ff_ffff_f000_0000) << 4);
    let bits = (bits & 0x0000_3fff_0000_3fff) | ((bits & 0x0fff_c000_0fff_c000) << 2);
    let bits = (bits & 0x007f_007f_007f_007f) | ((bits & 0x3f80_3f80_3f80_3f80) << 1);
    bits | MARKS
}

/// The 56 bits of a word, or `None` while any of its bytes is missing.
#[inline]
pub(super) const fn unpack(word: u64) -> Option<u64> {
    if word & MARKS != MARKS {
        return None;
    }
    let bits = word & !MARKS;
    let bits = (bits & 0x007f_007f_007f_007f) | ((bits & 0x7f00_7f00_7f00_7f00) >> 1);
    let bits = (bits & 0x0000_3fff_0000_3fff) | ((bits & 0x3fff_0000_3fff_0000) >> 2);
    let bits = (bits & 0x0000_0000_0fff_ffff) | ((bits & 0x0fff_ffff_0000_0000) >> 4);
    Some(bits)
}

/// Packs `from` into words; `to` has at least [`words_of`] its length.
#[inline]
pub(super) fn pack_bytes(from: &[u8], to: &mut [u64]) {
    let (groups, rest) = from.as_chunks::<GROUP>();
    let mut words = to.iter_mut();
    for (group, word) in groups.iter().zip(&mut words) {
        let [a, b, c, d, e, f, g] = *group;
        *word = pack(u64::from_le_bytes([a, b, c, d, e, f, g, 0]));
    }
    if let (false, Some(word)) = (rest.is_empty(), words.next()) {
        let mut bytes = [0; 8];
        bytes[..rest.len()].copy_from_slice(rest);
        *word = pack(u64::from_le_bytes(bytes));
    }
}

/// Whether every byte of the words has arrived. Once the result is true, [`unpack_bytes`] returns
/// the sent bytes.
#[inline]
pub(super) fn all_there(words: &[AtomicU64]) -> bool {
    let there = words
        .iter()
        .all(|word| word.load(Ordering::Relaxed) & MARKS == MARKS);
    // The payload is in these words themselves. The fence protects the caller's accesses to memory
    // that the message refers to.
    fence(Ordering::Acquire);
    there
}

/// Unpacks bytes until `to` is full; the words must be [`all_there`].
#[inline]
pub(super) fn unpack_bytes(words: &[AtomicU64], to: &mut [u8]) {
    for (word, bytes) in words.iter().zip(to.chunks_mut(GROUP)) {
        let bits = unpack(word.load(Ordering::Relaxed)).unwrap_or(0);
        bytes.copy_from_slice(&bits.to_le_bytes()[..bytes.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_travel() {
        let mut bits = 0x00_0123_4567_89ab_cdef_u64 >> 8;
        for _ in 0..1000 {
            bits = bits.wrapping_mul(6364136223846793005).wrapping_add(1) & (u64::MAX >> 8);
            assert_eq!(unpack(pack(bits)), Some(bits));
        }
        assert_eq!(unpack(pack(u64::MAX >> 8)), Some(u64::MAX >> 8));
        assert_eq!(unpack(0), None);
    }

    #[test]
    fn any_missing_byte_is_noticed() {
        for bits in [0, u64::MAX >> 8, 0x0000_dead_beef_1234] {
            let bytes = pack(bits).to_ne_bytes();
            for missing in 0..8 {
                let mut partial = bytes;
                partial[missing] = 0;
                assert_eq!(unpack(u64::from_ne_bytes(partial)), None);
            }
        }
    }

    #[test]
    fn bytes_travel_at_every_length() {
        for len in 0..40 {
            let from: Vec<u8> = (0..len as u8).map(|i| i.wrapping_mul(37) ^ 0xa5).collect();
            let mut words = vec![0; words_of(len)];
            pack_bytes(&from, &mut words);
            let words: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
            assert!(all_there(&words));
            let mut to = vec![0; len];
            unpack_bytes(&words, &mut to);
            assert_eq!(to, from);
            if let Some(last) = words.last() {
                last.fetch_and(!(0x80 << 56), Ordering::Relaxed);
                assert!(!all_there(&words));
            }
        }
    }
}

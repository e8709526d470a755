//! An origin's copy of a target's table of attached regions.

use std::collections::{BTreeMap, BTreeSet};

use crate::win::dynamic::regions::{KEY_WORDS, KeyWords, LOG};

/// A table of at most this many bytes is read whole, unless few slots changed.
const SMALL: usize = 16 << 10;
/// Up to this number of changed slots are read one by one, even in a small table.
const FEW: u64 = 4;

/// A target's table.
#[derive(Default)]
pub(in crate::win) struct RegionCache {
    /// The version that was read; `None` before the first read.
    pub(in crate::win) version: Option<u64>,
    /// Words of a slot.
    pub(in crate::win) slot_words: usize,
    /// The slots, one after the other.
    slots: Vec<u64>,
    /// The slots in use, by their region's start address.
    by_base: BTreeMap<u64, usize>,
    /// Address and handle of each chunk that this origin knows.
    pub(in crate::win) chunks: Vec<(u64, KeyWords)>,
    /// Slots of regions on which an operation may be incomplete, as of `kept_at`.
    kept: BTreeSet<usize>,
    /// Number of completing calls at the time when `kept` was valid.
    kept_at: u64,
    /// Bytes of the shortest get and of the shortest put that were found too long for a message; 0: none was.
    too_long: [usize; 2],
}

/// The time for which callers may rely on a key that was found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::win) enum KeyUse {
    /// Until a call completes the operations of this rank: the operation that is issued now keeps the region attached
    /// ([`super::completing`]).
    UntilComplete,
    /// For the operation that is issued now. The program or the target may learn without a call of the window that the
    /// operation is complete.
    Once,
    /// No key is looked up here: the function that issues the operation looks the key up
    /// ([`super::attempts`]).
    Later,
}

/// A key that an origin knows.
pub(in crate::win) enum Known {
    /// The key of a region that stays attached, because an operation on the region is incomplete.
    Attached(KeyWords),
    /// The key of a region that was attached when the table was last read. An operation may try the key.
    Perhaps(KeyWords),
}

/// Slots that were read, before the version was checked again.
#[derive(Default)]
pub(in crate::win) struct Read {
    /// Whether these are all slots.
    pub(in crate::win) whole: bool,
    pub(in crate::win) numbers: Vec<usize>,
    pub(in crate::win) words: Vec<u64>,
}

impl RegionCache {
    /// Whether the copy has this version or a later one, which another thread may have read.
    pub(in crate::win) fn is_of(&self, version: u64) -> bool {
        self.version >= Some(version)
    }

    /// Whether an incomplete operation keeps the region that holds `address` attached. `completions` is the number of
    /// completing calls so far.
    pub(in crate::win) fn keeps(&self, address: u64, completions: u64) -> bool {
        self.kept_at == completions
            && self
                .by_base
                .range(..=address)
                .next_back()
                .is_some_and(|(_, slot)| self.kept.contains(slot))
    }

    /// Notes that an operation keeps the region that holds `address` attached.
    pub(in crate::win) fn keep(&mut self, address: u64, completions: u64) {
        if completions < self.kept_at {
            return;
        }
        if completions > self.kept_at {
            self.kept.clear();
            self.kept_at = completions;
        }
        if let Some((_, slot)) = self.by_base.range(..=address).next_back() {
            self.kept.insert(*slot);
        }
    }

    /// Whether a message may carry a put (a get if not `puts`) of `size` bytes.
    pub(in crate::win) fn may_try(&self, puts: bool, size: usize) -> bool {
        let too_long = self.too_long[usize::from(puts)];
        too_long == 0 || size < too_long
    }

    /// Notes that no message carries a put (a get if not `puts`) of `size` bytes.
    pub(in crate::win) fn is_too_long(&mut self, puts: bool, size: usize) {
        if self.may_try(puts, size) {
            self.too_long[usize::from(puts)] = size;
        }
    }

    /// The key of the region that holds a range.
    pub(in crate::win) fn find(&self, address: u64, extent: usize) -> Option<KeyWords> {
        let end = address.checked_add(extent as u64)?;
        let (base, slot) = self.by_base.range(..=address).next_back()?;
        let words = self.slot(*slot)?;
        if end > base.saturating_add(words[1]) {
            return None;
        }
        let mut key = [0; KEY_WORDS];
        for (to, from) in key.iter_mut().zip(&words[2..]) {
            *to = *from;
        }
        Some(key)
    }

    /// Bytes from an address to the end of the region that holds the address.
    pub(in crate::win) fn rest(&self, address: u64) -> Option<u64> {
        let (base, slot) = self.by_base.range(..=address).next_back()?;
        let end = base.saturating_add(self.slot(*slot)?[1]);
        end.checked_sub(address).filter(|rest| *rest > 0)
    }

    fn slot(&self, slot: usize) -> Option<&[u64]> {
        let first = slot.checked_mul(self.slot_words)?;
        self.slots.get(first..first.checked_add(self.slot_words)?)
    }

    /// The number of changes that this copy lacks, if the log still has all of them.
    pub(in crate::win) fn lacks(&self, version: u64) -> Option<u64> {
        let changes = version.checked_sub(self.version?)? / 2;
        let small = self.slots.len() * 8 <= SMALL;
        (changes <= if small { FEW } else { LOG as u64 }).then_some(changes)
    }

    /// Updates the copy with slots that were read at `version`.
    pub(in crate::win) fn take(&mut self, read: &Read, version: u64) {
        self.kept.clear();
        if read.whole {
            self.slots.clear();
            self.by_base.clear();
        }
        // First removes the old content of these slots: a region may have moved from one slot to another.
        for slot in &read.numbers {
            if let Some(&[base, len, ..]) = self.slot(*slot)
                && len > 0
                && self.by_base.get(&base) == Some(slot)
            {
                self.by_base.remove(&base);
            }
        }
        for (slot, words) in read.numbers.iter().zip(read.words.chunks(self.slot_words)) {
            let first = slot * self.slot_words;
            if self.slots.len() < first + words.len() {
                self.slots.resize(first + words.len(), 0);
            }
            self.slots[first..first + words.len()].copy_from_slice(words);
            if words[1] > 0 {
                self.by_base.insert(words[0], *slot);
            }
        }
        self.version = Some(version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(regions: &[(u64, u64)]) -> RegionCache {
        let mut cache = RegionCache {
            slot_words: 3,
            ..RegionCache::default()
        };
        cache.take(
            &read(
                true,
                &regions.iter().copied().enumerate().collect::<Vec<_>>(),
            ),
            2,
        );
        cache
    }

    /// Slots with an address, a length and a key of one word: the slot's number plus one.
    fn read(whole: bool, slots: &[(usize, (u64, u64))]) -> Read {
        Read {
            whole,
            numbers: slots.iter().map(|(slot, _)| *slot).collect(),
            words: slots
                .iter()
                .flat_map(|(slot, (base, len))| [*base, *len, *slot as u64 + 1])
                .collect(),
        }
    }

    fn found(cache: &RegionCache, address: u64, extent: usize) -> Option<u64> {
        cache.find(address, extent).map(|key| key[0])
    }

    #[test]
    fn a_range_must_lie_in_one_region() {
        let cache = cache(&[(150, 10), (100, 50)]);
        assert_eq!(found(&cache, 100, 50), Some(2));
        assert_eq!(found(&cache, 150, 10), Some(1));
        assert_eq!(found(&cache, 149, 2), None);
        assert_eq!(found(&cache, 99, 2), None);
        assert_eq!(found(&cache, 155, 6), None);
        assert_eq!(found(&cache, u64::MAX, 2), None);
        assert_eq!(found(&RegionCache::default(), 0, 1), None);
        let rest = [99, 100, 149, 150, 159, 160].map(|address| cache.rest(address));
        assert_eq!(rest, [None, Some(50), Some(1), Some(10), Some(1), None]);
    }

    #[test]
    fn changes_replace_what_slots_held() {
        let mut cache = cache(&[(100, 50), (200, 50), (300, 50)]);
        assert!(cache.is_of(2) && !cache.is_of(4));
        // 100 moved to slot 2, whose region is gone; slot 0 has another region; slot 3 is new.
        let changed = [(0, (400, 8)), (2, (100, 50)), (3, (300, 4))];
        cache.take(&read(false, &changed), 10);
        assert_eq!(found(&cache, 100, 50), Some(3));
        assert_eq!(found(&cache, 200, 50), Some(2));
        assert_eq!(found(&cache, 300, 4), Some(4));
        assert_eq!(found(&cache, 300, 5), None);
        assert_eq!(found(&cache, 400, 8), Some(1));
        cache.take(&read(false, &[(1, (0, 0))]), 12);
        assert_eq!(found(&cache, 200, 50), None);
        assert_eq!(found(&cache, 0, 1), None);
        cache.take(&read(true, &[(0, (7, 1))]), 14);
        assert_eq!(found(&cache, 7, 1), Some(1));
        assert_eq!(found(&cache, 100, 50), None);
    }

    #[test]
    fn the_log_reaches_so_far_back() {
        let mut cache = cache(&[(100, 50)]);
        assert_eq!(cache.lacks(2 + 2 * FEW), Some(FEW));
        assert_eq!(cache.lacks(2 + 2 * FEW + 2), None);
        assert_eq!(cache.lacks(0), None);
        cache.slots.resize(SMALL, 0);
        assert_eq!(cache.lacks(2 + 2 * LOG as u64), Some(LOG as u64));
        assert_eq!(cache.lacks(4 + 2 * LOG as u64), None);
        assert_eq!(RegionCache::default().lacks(2), None);
    }
}

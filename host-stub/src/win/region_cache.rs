//! What a target has attached to a dynamic window, as an origin last read it.

use std::collections::BTreeMap;

use super::blocking::Remote;
use super::bounce::Bounce;
use super::control::REGIONS_VERSION;
use super::error::WinResult;
use super::peer::Peer;
use super::regions::{CHUNKS, COUNT, KEY_WORDS, KeyWords, LOG, Shape, place_of, slots_before};
use super::window::Window;

/// Bytes of the table that are read at once.
const PIECE: usize = 64 << 10;
/// A table of so many bytes is read whole rather than several slots of it.
const SMALL: usize = 16 << 10;
/// Slots that are read one by one rather than a small table whole.
const FEW: u64 = 4;

/// A target's table.
#[derive(Default)]
pub(super) struct RegionCache {
    /// The version that was read; none yet at first.
    version: Option<u64>,
    /// Words of a slot.
    slot_words: usize,
    /// The slots, one after the other.
    slots: Vec<u64>,
    /// The slots in use, by the address where their region begins.
    by_base: BTreeMap<u64, usize>,
    /// Address and handle of the chunks that were met.
    chunks: Vec<(u64, KeyWords)>,
}

/// Slots that were read, and not yet believed.
#[derive(Default)]
struct Read {
    /// Whether these are all.
    whole: bool,
    numbers: Vec<usize>,
    words: Vec<u64>,
}

impl RegionCache {
    /// Whether it is of this version or a later one, as another thread may have read.
    pub(super) fn is_of(&self, version: u64) -> bool {
        self.version >= Some(version)
    }

    /// The key of the region that holds a range.
    pub(super) fn find(&self, address: u64, extent: usize) -> Option<KeyWords> {
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

    fn slot(&self, slot: usize) -> Option<&[u64]> {
        let first = slot.checked_mul(self.slot_words)?;
        self.slots.get(first..first.checked_add(self.slot_words)?)
    }

    /// How many changes it lacks, where the log still has them all.
    fn lacks(&self, version: u64) -> Option<u64> {
        let changes = version.checked_sub(self.version?)? / 2;
        let small = self.slots.len() * 8 <= SMALL;
        (changes <= if small { FEW } else { LOG as u64 }).then_some(changes)
    }

    /// Takes in what was read of a version.
    fn take(&mut self, read: &Read, version: u64) {
        if read.whole {
            self.slots.clear();
            self.by_base.clear();
        }
        // What slots held goes first: a region may have moved from one to another.
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

/// The words of the start of a buffer.
fn words_of(bounce: &mut Bounce, count: usize) -> Vec<u64> {
    let words = bounce.bytes_mut().as_chunks::<8>().0;
    let words = words.iter().take(count);
    words.map(|bytes| u64::from_ne_bytes(*bytes)).collect()
}

impl Window {
    /// Reads what a target has changed up to a version, or a later one. The caller holds the cache.
    #[cold]
    pub(super) fn refresh_regions(
        &self,
        call: &'static str,
        peer: &Peer,
        cache: &mut RegionCache,
        mut version: u64,
    ) -> WinResult<()> {
        let shape = Shape::of(self.link.transport.attributes().handle_size);
        cache.slot_words = shape.slot_words();
        let least = shape.control_words() * 8;
        let mut bounce = Bounce::new(least.max(PIECE));
        let mut waiter = self.link.waiter(call);
        loop {
            if version.is_multiple_of(2) {
                let read = match (cache.version, cache.lacks(version)) {
                    (Some(from), Some(_)) => {
                        let changes = from / 2..version / 2;
                        self.read_changes(call, peer, cache, changes, &mut bounce)?
                    }
                    _ => self.read_whole(call, peer, cache, &mut bounce)?,
                };
                let again = self.read_word(call, peer, REGIONS_VERSION)?;
                if again == version {
                    cache.take(&read, version);
                    return Ok(());
                }
                version = again;
            } else {
                waiter.step()?;
                version = self.read_word(call, peer, REGIONS_VERSION)?;
            }
        }
    }

    /// Reads the slots that the log names.
    fn read_changes(
        &self,
        call: &'static str,
        peer: &Peer,
        cache: &mut RegionCache,
        changes: std::ops::Range<u64>,
        bounce: &mut Bounce,
    ) -> WinResult<Read> {
        let log = self.control_words(call, peer, (0, LOG), bounce)?;
        let slots = changes.filter_map(|change| log.get(change as usize % LOG));
        let mut numbers: Vec<usize> = slots
            .filter_map(|slot| usize::try_from(*slot).ok())
            .filter(|slot| place_of(*slot).is_some())
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut words = Vec::with_capacity(numbers.len() * cache.slot_words);
        for slot in &numbers {
            self.read_slots(call, peer, cache, (*slot, 1), bounce, &mut words)?;
        }
        Ok(Read {
            whole: false,
            numbers,
            words,
        })
    }

    /// Reads all slots that are or were in use.
    fn read_whole(
        &self,
        call: &'static str,
        peer: &Peer,
        cache: &mut RegionCache,
        bounce: &mut Bounce,
    ) -> WinResult<Read> {
        let count = self.read_word(call, peer, COUNT)?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let count = count.min(slots_before(CHUNKS));
        let at_once = PIECE / (cache.slot_words * 8);
        let mut words = Vec::with_capacity(count * cache.slot_words);
        let mut slot = 0;
        while slot < count {
            let chunk = place_of(slot).map_or(0, |(chunk, _)| chunk);
            let end = slots_before(chunk + 1).min(count).min(slot + at_once);
            self.read_slots(call, peer, cache, (slot, end - slot), bounce, &mut words)?;
            slot = end;
        }
        Ok(Read {
            whole: true,
            numbers: (0..count).collect(),
            words,
        })
    }

    /// Reads slots of one chunk.
    fn read_slots(
        &self,
        call: &'static str,
        peer: &Peer,
        cache: &mut RegionCache,
        (slot, count): (usize, usize),
        bounce: &mut Bounce,
        words: &mut Vec<u64>,
    ) -> WinResult<()> {
        let (chunk, index) = place_of(slot).unwrap_or((0, 0));
        if chunk >= cache.chunks.len() {
            // They stay where they are once they are in the directory.
            cache.chunks = self.read_directory(call, peer, chunk + 1, bounce)?;
        }
        let width = cache.slot_words;
        let (base, key) = &cache.chunks[chunk];
        let remote = Remote {
            address: base + (index * width * 8) as u64,
            handle: key.as_ptr().cast_mut().cast(),
        };
        self.fetch_bytes(call, peer, bounce, remote, count * width * 8)?;
        words.extend(words_of(bounce, count * width));
        Ok(())
    }

    /// Address and handle of so many chunks.
    fn read_directory(
        &self,
        call: &'static str,
        peer: &Peer,
        chunks: usize,
        bounce: &mut Bounce,
    ) -> WinResult<Vec<(u64, KeyWords)>> {
        let shape = Shape::of(self.link.transport.attributes().handle_size);
        let width = shape.entry_words();
        let range = (shape.entry(0), chunks * width);
        let words = self.control_words(call, peer, range, bounce)?;
        let entries = words.chunks_exact(width).map(|entry| {
            let mut key = [0; KEY_WORDS];
            for (to, from) in key.iter_mut().zip(&entry[1..]) {
                *to = *from;
            }
            (entry[0], key)
        });
        Ok(entries.collect())
    }

    /// Words of the part of a target's control block that is about regions.
    fn control_words(
        &self,
        call: &'static str,
        peer: &Peer,
        (first, count): (usize, usize),
        bounce: &mut Bounce,
    ) -> WinResult<Vec<u64>> {
        let word = self.parts.control.plan().region(first);
        let remote = Remote {
            address: peer.control_address(word),
            handle: peer.control_handle.as_ptr(),
        };
        self.fetch_bytes(call, peer, bounce, remote, count * 8)?;
        Ok(words_of(bounce, count))
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
    }

    #[test]
    fn changes_replace_what_slots_held() {
        let mut cache = cache(&[(100, 50), (200, 50), (300, 50)]);
        assert!(cache.is_of(2) && !cache.is_of(4));
        // 100 moved to slot 2, whose region is gone; slot 0 has another; slot 3 is new.
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

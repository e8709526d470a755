//! An origin's reads of a target's table of regions attached to a dynamic window.

use crate::win::bounce::Bounce;
use crate::win::control::REGIONS_VERSION;
use crate::win::dynamic::region_cache::{Read, RegionCache};
use crate::win::dynamic::regions::{
    CHUNKS, COUNT, KEY_WORDS, KeyWords, LOG, Shape, place_of, slots_before,
};
use crate::win::error::WinResult;
use crate::win::peer::Peer;
use crate::win::window::Window;

/// Bytes of the table that one get reads.
const PIECE: usize = 64 << 10;

/// The first `count` words of a buffer.
fn words_of(bounce: &mut Bounce, count: usize) -> Vec<u64> {
    let words = bounce.bytes_mut().as_chunks::<8>().0;
    let words = words.iter().take(count);
    words.map(|bytes| u64::from_ne_bytes(*bytes)).collect()
}

impl Window {
    /// Reads a target's changes up to `version` or a later one. The caller holds the cache.
    #[cold]
    pub(in crate::win) fn refresh_regions(
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
        let mut waiter = self.link.tries(call);
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

    /// Reads all slots that are in use or were in use.
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
            // A chunk stays at its address once it is in the directory.
            cache.chunks = self.read_directory(call, peer, chunk + 1, bounce)?;
        }
        let width = cache.slot_words;
        let (base, key) = &cache.chunks[chunk];
        let address = base + (index * width * 8) as u64;
        let remote = (address, key.as_ptr().cast());
        self.fetch_bytes(call, peer, bounce, remote, count * width * 8)?;
        words.extend(words_of(bounce, count * width));
        Ok(())
    }

    /// Address and handle of `chunks` chunks.
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

    /// Reads words of the region part of a target's control block.
    fn control_words(
        &self,
        call: &'static str,
        peer: &Peer,
        (first, count): (usize, usize),
        bounce: &mut Bounce,
    ) -> WinResult<Vec<u64>> {
        let word = self.parts.control.plan().region(first);
        self.fetch_bytes(call, peer, bounce, peer.control(word), count * 8)?;
        Ok(words_of(bounce, count))
    }
}

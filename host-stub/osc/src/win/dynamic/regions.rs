//! The regions that a rank has attached to a dynamic window, and how the rank publishes them.
//!
//! Regions lie in slots of a table that peers read. The table grows by chunks, each twice as long as
//! the one before. A chunk is registered when it is first needed, and never moves; the control block
//! holds the directory of chunks and a log of the slots that changed last. A peer that has read the
//! table before reads only these slots. Attaching or detaching changes one slot.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plugin_api::Access;

use crate::base::Pages;
use crate::transport::{Registration, Transport};
use crate::win::control::{Control, REGIONS_VERSION, Word};

/// Words of the largest handle.
pub(in crate::win) const KEY_WORDS: usize = 32;
/// The words of a handle, the unused ones zero.
pub(in crate::win) type KeyWords = [u64; KEY_WORDS];

/// Slots of the first chunk.
const FIRST: usize = 128;
/// Maximum number of chunks.
pub(in crate::win) const CHUNKS: usize = 20;
/// Number of changes that the log keeps.
pub(in crate::win) const LOG: usize = 64;
/// The word of the control block with the number of slots that are in use or were in use.
pub(in crate::win) const COUNT: Word = Word(REGIONS_VERSION.0 + 1);

/// The layout of the table and its directory for handles of a given number of words.
#[derive(Clone, Copy, Debug)]
pub(in crate::win) struct Shape {
    handle_words: usize,
}

impl Shape {
    pub(in crate::win) const fn of(handle_size: usize) -> Shape {
        Shape {
            handle_words: handle_size / 8,
        }
    }

    /// Words of a slot: address, length, handle. A length of zero means that the slot is free.
    pub(in crate::win) const fn slot_words(self) -> usize {
        2 + self.handle_words
    }

    /// Words of a directory entry: a chunk's address and handle.
    pub(in crate::win) const fn entry_words(self) -> usize {
        1 + self.handle_words
    }

    /// Words of log and directory in the control block.
    pub(in crate::win) const fn control_words(self) -> usize {
        LOG + CHUNKS * self.entry_words()
    }

    /// The beginning of a chunk's directory entry among these words.
    pub(in crate::win) const fn entry(self, chunk: usize) -> usize {
        LOG + chunk * self.entry_words()
    }
}

/// The chunk of a slot and the slot's index in the chunk; `None` if no slot has this number.
pub(in crate::win) fn place_of(slot: usize) -> Option<(usize, usize)> {
    let chunk = (slot / FIRST).checked_add(1)?.ilog2() as usize;
    (chunk < CHUNKS).then(|| (chunk, slot - slots_before(chunk)))
}

/// Number of slots in all chunks before `chunk`.
pub(in crate::win) const fn slots_before(chunk: usize) -> usize {
    FIRST * ((1 << chunk) - 1)
}

/// A part of the table.
struct Chunk {
    // Before `pages`: a registration must not outlive its memory.
    registration: Registration,
    pages: Pages,
}

impl Chunk {
    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: callers stay within the chunk's words, which are page-aligned, zeroed, and live as
        // long as `self`; only this process writes them, by atomic stores.
        unsafe { AtomicU64::from_ptr(self.pages.base().cast::<u64>().add(index)) }
    }
}

/// An attached region.
struct Region {
    len: usize,
    slot: usize,
    registration: Registration,
}

/// All regions that a rank has attached.
#[derive(Default)]
pub(in crate::win) struct Regions {
    by_base: BTreeMap<usize, Region>,
    chunks: Vec<Chunk>,
    /// Slots that were used and are free now.
    free: Vec<usize>,
    used: usize,
}

impl Regions {
    /// Start and length of an attached region that a range overlaps.
    pub(in crate::win) fn overlapping(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        // Regions do not overlap each other, so checking the last region that begins before `end` is
        // enough.
        let (base, region) = self.by_base.range(..end).next_back()?;
        (base + region.len > start).then_some((*base, region.len))
    }

    /// Adds and publishes a region that overlaps no other. The error says why there is no room.
    pub(in crate::win) fn add(
        &mut self,
        control: &Control,
        transport: &Transport,
        (base, len): (usize, usize),
        registration: Registration,
    ) -> Result<(), String> {
        let slot = match self.free.last() {
            Some(slot) => *slot,
            None => self.used,
        };
        let Some((chunk, _)) = place_of(slot) else {
            return Err(format!("{slot} regions are attached already"));
        };
        let shape = Shape::of(transport.attributes().handle_size);
        let grown = chunk == self.chunks.len();
        if grown {
            let made = make_chunk(transport, shape, chunk).map_err(|reason| {
                format!("no room for the table of more than {slot} attached regions: {reason}")
            })?;
            self.chunks.push(made);
        }
        if self.free.pop().is_none() {
            self.used += 1;
        }
        self.change(control, shape, slot, grown, |set| {
            set(0, base as u64);
            set(1, len as u64);
            let words = registration.handle_bytes().as_chunks::<8>().0;
            for (index, bytes) in words.iter().enumerate() {
                set(2 + index, u64::from_ne_bytes(*bytes));
            }
        });
        let region = Region {
            len,
            slot,
            registration,
        };
        self.by_base.insert(base, region);
        Ok(())
    }

    /// Removes the region that begins at an address, publishes the change, and returns the
    /// registration.
    pub(in crate::win) fn remove(
        &mut self,
        control: &Control,
        transport: &Transport,
        base: usize,
    ) -> Option<Registration> {
        let region = self.by_base.remove(&base)?;
        let shape = Shape::of(transport.attributes().handle_size);
        self.change(control, shape, region.slot, false, |set| {
            set(0, 0);
            set(1, 0);
        });
        self.free.push(region.slot);
        Some(region.registration)
    }

    /// Ends all registrations. The chunks' memory is never freed: peers may be reading it.
    pub(in crate::win) fn withdraw(&mut self) {
        self.by_base.clear();
        for Chunk {
            registration,
            pages,
        } in self.chunks.drain(..)
        {
            std::mem::forget(pages);
            drop(registration);
        }
    }

    /// Changes a slot under an odd version. With `grown`, also adds the last chunk to the directory.
    fn change(
        &self,
        control: &Control,
        shape: Shape,
        slot: usize,
        grown: bool,
        fill: impl FnOnce(&dyn Fn(usize, u64)),
    ) {
        let plan = control.plan();
        let publish = |word: Word, value: u64| control.word(word).store(value, Ordering::Relaxed);
        let version = control.word(REGIONS_VERSION).load(Ordering::Relaxed);
        publish(REGIONS_VERSION, version + 1);
        // Peers see these stores in order: the odd version before any change, the even version after
        // all changes. Pairs with the order of a reader's gets. A chunk enters the directory before
        // any slot number leads to the chunk, so a peer never reads half an address.
        fence(Ordering::SeqCst);
        if grown && let Some(chunk) = self.chunks.last() {
            let entry = shape.entry(self.chunks.len() - 1);
            publish(plan.region(entry), chunk.pages.base() as u64);
            let words = chunk.registration.handle_bytes().as_chunks::<8>().0;
            for (index, bytes) in words.iter().enumerate() {
                publish(plan.region(entry + 1 + index), u64::from_ne_bytes(*bytes));
            }
            fence(Ordering::SeqCst);
        }
        if let Some((chunk, index)) = place_of(slot)
            && let Some(chunk) = self.chunks.get(chunk)
        {
            let first = index * shape.slot_words();
            fill(&|word, value| chunk.word(first + word).store(value, Ordering::Relaxed));
        }
        publish(plan.region((version / 2) as usize % LOG), slot as u64);
        publish(COUNT, self.used as u64);
        fence(Ordering::SeqCst);
        publish(REGIONS_VERSION, version + 2);
    }
}

fn make_chunk(transport: &Transport, shape: Shape, chunk: usize) -> Result<Chunk, String> {
    let bytes = (FIRST << chunk) * shape.slot_words() * 8;
    let pages = Pages::new(bytes).ok_or_else(|| format!("no memory of {bytes} B"))?;
    // SAFETY: the pages live until after the registration ends (field order), and peers only read.
    let registered = unsafe { transport.register(pages.base(), bytes, Access::REMOTE_READ) };
    let registration = registered.map_err(|error| error.to_string())?;
    Ok(Chunk {
        registration,
        pages,
    })
}

/// The regions that this rank has attached.
#[derive(Default)]
pub(in crate::win) struct Attached(Mutex<Regions>);

impl Attached {
    /// Ends all registrations; the table stays unchanged.
    pub(in crate::win) fn withdraw(&mut self) {
        let regions = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        regions.withdraw();
    }

    /// The regions, for one thread at a time.
    pub(in crate::win) fn lock(&self) -> MutexGuard<'_, Regions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_each_other_through_the_chunks() {
        let mut wanted = (0, 0);
        for slot in 0..20 * FIRST {
            assert_eq!(place_of(slot), Some(wanted), "slot {slot}");
            wanted.1 += 1;
            if wanted.1 == FIRST << wanted.0 {
                wanted = (wanted.0 + 1, 0);
            }
        }
        let last = slots_before(CHUNKS) - 1;
        assert_eq!(
            place_of(last),
            Some((CHUNKS - 1, (FIRST << (CHUNKS - 1)) - 1))
        );
        assert_eq!(place_of(last + 1), None);
        assert_eq!(place_of(usize::MAX), None);
    }

    #[test]
    fn directory_and_log_fill_their_words() {
        let shape = Shape::of(32);
        assert_eq!(shape.entry(CHUNKS), shape.control_words());
        assert_eq!(shape.entry(0), LOG);
        assert_eq!((shape.slot_words(), shape.entry_words()), (6, 5));
    }
}

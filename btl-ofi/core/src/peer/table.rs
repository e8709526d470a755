//! The table of all peers: the memory of endpoints, and the index from the host's process numbers.
//!
//! Operations name endpoints by address, so endpoints lie in chunks that never move. Local peers have their own chunks:
//! only they have the data for access to their process, and the failure detector checks only their processes. The
//! [index](index) takes no memory for peers that are connected in the order of their numbers. So a million remote peers
//! take 48 bytes each. With several contexts, the pairs of counters of each context follow a chunk (`peer::share`).

mod index;

use std::alloc::{self, Layout};
use std::fs::File;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use index::Index;

use crate::peer::endpoint::{Endpoint, LocalPeer};
use crate::peer::reach::{Probe, Reach};
use crate::peer::share;

/// Number of endpoints in a chunk. The number is large, so that the overhead per chunk is small. Unused endpoints are never
/// written, so they take no memory.
const CHUNK: usize = 1024;
/// Set in the words of the index for local peers.
const LOCAL: u32 = 1 << 31;

/// Memory for values that keep their address until the table is dropped. A returned value stays readable until another
/// value is stored in its place.
struct Places<T> {
    chunks: Vec<Chunk<T>>,
    /// If there are several shares, their pairs follow each chunk.
    shares: usize,
    used: u32,
    free: Vec<u32>,
}

/// Memory for [`CHUNK`] values.
struct Chunk<T> {
    first: NonNull<T>,
    /// The start of the allocation. The bytes between the start and `first` are unused.
    memory: NonNull<u8>,
}

// SAFETY: the table owns its memory exclusively, and moves to another thread with its values, which are `Send`.
unsafe impl<T: Send> Send for Places<T> {}
// SAFETY: a shared table gives access to the values only, which are `Sync`.
unsafe impl<T: Sync> Sync for Places<T> {}

impl<T> Places<T> {
    fn new(shares: usize) -> Self {
        const {
            assert!(size_of::<T>() > 0 && !std::mem::needs_drop::<T>());
            assert!(size_of::<[T; CHUNK]>() <= share::CHUNK && align_of::<T>() <= share::CHUNK);
        };
        Places {
            chunks: Vec::new(),
            shares,
            used: 0,
            free: Vec::new(),
        }
    }

    /// The layout of a chunk's memory.
    fn layout(&self) -> Option<Layout> {
        if self.shares == 1 {
            return Some(Layout::new::<[T; CHUNK]>());
        }
        // The size is doubled, so that `grow` can align the chunk.
        Layout::array::<u8>(2 * share::CHUNK + self.shares * share::PAIRS).ok()
    }

    fn at(&self, place: u32) -> Option<NonNull<T>> {
        let chunk = self.chunks.get(place as usize / CHUNK)?;
        // SAFETY: a chunk has CHUNK places, and the index is below CHUNK.
        (place < self.used).then(|| unsafe { chunk.first.add(place as usize % CHUNK) })
    }

    /// Stores a value and returns its place. `None` if memory or the range of place numbers is exhausted.
    fn keep(&mut self, value: T) -> Option<u32> {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                if self.used as usize == self.chunks.len() * CHUNK {
                    self.grow()?;
                }
                self.used += 1;
                self.used - 1
            }
        };
        // SAFETY: the place lies inside a chunk. The place is unused: either new, or given back.
        unsafe { self.at(place)?.write(value) };
        Some(place)
    }

    fn grow(&mut self) -> Option<()> {
        if self.used > LOCAL - CHUNK as u32 {
            return None;
        }
        self.chunks.try_reserve(1).ok()?;
        let layout = self.layout()?;
        let (memory, before) = if self.shares == 1 {
            // SAFETY: the layout's size is not 0.
            (unsafe { alloc::alloc(layout) }, 0)
        } else {
            // The memory contains zeros, which count nothing. Pages that are never touched take no memory. A layout with a
            // larger alignment would touch these pages. SAFETY: the layout's size is not 0.
            let memory = unsafe { alloc::alloc_zeroed(layout) };
            (memory, memory.addr().wrapping_neg() % share::CHUNK)
        };
        let memory = NonNull::new(memory)?;
        // Operations and completions name endpoints by address (`Tag::endpoint`, `Endpoint::local_peer`), and the pairs are
        // found from these addresses.
        memory.as_ptr().expose_provenance();
        // SAFETY: `before` is 0, or less than the additional `share::CHUNK` bytes of the layout.
        let first = unsafe { memory.byte_add(before) }.cast();
        self.chunks.push(Chunk { first, memory });
        Some(())
    }

    /// Makes a place free for a later value. If memory is exhausted, the place stays unused.
    fn give_back(&mut self, place: u32) {
        if self.free.try_reserve(1).is_ok() {
            self.free.push(place);
        }
    }
}

impl<T> Drop for Places<T> {
    fn drop(&mut self) {
        let Some(layout) = self.layout() else { return };
        for chunk in &self.chunks {
            // SAFETY: `grow` allocated the memory with this layout, and the values need no drop.
            unsafe { alloc::dealloc(chunk.memory.as_ptr(), layout) };
        }
    }
}

/// All peers. A peer that is released with outstanding operations keeps its memory, because a late completion may
/// name it, but is no longer found.
pub(crate) struct Endpoints {
    last_share: u8,
    remote: Places<Endpoint>,
    local: Places<LocalPeer>,
    /// The data for access to the memory of local peers, by their places.
    reached: Reached,
    index: Index,
}

/// There are two lists, because padding would round an entry with both up to a multiple of 8 bytes.
#[derive(Default)]
struct Reached {
    /// A probe has address 0 if the memory was not readable.
    probes: Vec<Probe>,
    segments: Vec<Option<File>>,
}

impl Reached {
    fn reserve(&mut self) -> bool {
        self.probes.try_reserve(1).is_ok() && self.segments.try_reserve(1).is_ok()
    }

    /// Stores the data of a place, which is at most the next new one.
    fn keep(&mut self, place: u32, reach: Option<Reach>) {
        let (probe, segment) = match reach {
            Some(Reach { probe, segment }) => (probe, segment),
            None => (
                Probe {
                    address: 0,
                    value: 0,
                },
                None,
            ),
        };
        let place = place as usize;
        if place >= self.probes.len() {
            self.probes.resize(place + 1, probe);
            self.segments.resize_with(place + 1, || None);
        }
        self.probes[place] = probe;
        self.segments[place] = segment;
    }
}

impl Endpoints {
    /// An empty table of peers with `shares` shares, from 1 to [``plugin_api::counters::SHARES``].
    pub(crate) fn new(shares: usize) -> Endpoints {
        Endpoints {
            last_share: (shares - 1) as u8,
            remote: Places::new(shares),
            local: Places::new(shares),
            reached: Reached::default(),
            index: Index::default(),
        }
    }

    /// Number of peers.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// The index's word of a peer.
    fn word(&self, proc: u64) -> Option<u32> {
        let (remote, local) = (&self.remote, &self.local);
        self.index.find(proc, |word| proc_of(remote, local, word))
    }

    /// The peer with this process number.
    pub(crate) fn find(&self, proc: u64) -> Option<NonNull<Endpoint>> {
        at(&self.remote, &self.local, self.word(proc)?)
    }

    /// The place of a local peer.
    fn local_place(&self, proc: u64) -> Option<usize> {
        let word = self.word(proc)?;
        (word & LOCAL != 0).then_some((word & !LOCAL) as usize)
    }

    /// The probe in a local peer's memory, if that was readable when the peer was connected.
    pub(crate) fn probe(&self, proc: u64) -> Option<Probe> {
        let probe = *self.reached.probes.get(self.local_place(proc)?)?;
        (probe.address != 0).then_some(probe)
    }

    /// A local peer's segment, opened when the peer was connected.
    pub(crate) fn segment(&self, proc: u64) -> Option<&File> {
        self.reached.segments.get(self.local_place(proc)?)?.as_ref()
    }

    /// Reserves memory for one more peer; `false` if memory is exhausted.
    pub(crate) fn reserve(&mut self) -> bool {
        let (remote, local) = (&self.remote, &self.local);
        self.index.reserve(|word| proc_of(remote, local, word)) && self.reached.reserve()
    }

    /// Adds a peer that is not in the table; `None` if memory is exhausted.
    pub(crate) fn insert(&mut self, mut peer: Placed) -> Option<NonNull<Endpoint>> {
        if !self.reserve() {
            return None;
        }
        peer.endpoint().last_share = self.last_share;
        let (proc, word) = match peer {
            Placed::Remote(peer) => (peer.proc, self.remote.keep(peer)?),
            Placed::Local(peer, reach) => {
                let (proc, place) = (peer.endpoint.proc, self.local.keep(peer)?);
                self.reached.keep(place, reach);
                (proc, place | LOCAL)
            }
        };
        let (remote, local) = (&self.remote, &self.local);
        self.index
            .insert(proc, word, |word| proc_of(remote, local, word));
        at(remote, local, word)
    }

    /// Removes a peer. The peer's memory is reused unless `late` completions may still name it.
    pub(crate) fn remove(&mut self, proc: u64, late: bool) {
        let Some(word) = self.word(proc) else {
            return;
        };
        self.index.remove(proc, word);
        if let Some(peer) = at(&self.remote, &self.local, word) {
            // SAFETY: the index names only places that were written, and places stay readable until the table is
            // dropped.
            unsafe { peer.as_ref() }
                .connected
                .store(0, Ordering::Relaxed);
        }
        if word & LOCAL != 0 {
            self.reached.keep(word & !LOCAL, None);
        }
        match (late, word & LOCAL != 0) {
            (true, _) => {}
            (false, true) => self.local.give_back(word & !LOCAL),
            (false, false) => self.remote.give_back(word),
        }
    }

    /// All peers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Endpoint> {
        let remote = self.iter_remote(0..self.remote_places());
        remote.chain(self.iter_local())
    }

    /// The remote peers in these places that are connected.
    pub(crate) fn iter_remote(&self, places: Range<usize>) -> impl Iterator<Item = &Endpoint> {
        let remote = places.map_while(|place| self.remote.at(place as u32));
        // SAFETY: places below `used` were written and stay readable; shared values change only by atomics.
        let remote = remote.map(|peer| unsafe { peer.as_ref() });
        remote.filter(|peer| peer.is_connected())
    }

    /// Number of places of remote peers.
    pub(crate) fn remote_places(&self) -> usize {
        self.remote.used as usize
    }

    /// All local peers.
    pub(crate) fn iter_local(&self) -> impl Iterator<Item = &Endpoint> {
        let local = (0..self.local.used).filter_map(|place| self.local.at(place));
        // SAFETY: places below `used` were written and stay readable; shared values change only by atomics.
        let local = local.map(|peer| unsafe { &peer.as_ref().endpoint });
        local.filter(|peer| peer.is_connected())
    }
}

/// A new peer, local or remote.
pub(crate) enum Placed {
    Remote(Endpoint),
    /// The peer, and the data for access to its memory if the memory is readable.
    Local(LocalPeer, Option<Reach>),
}

impl Placed {
    pub(crate) fn endpoint(&mut self) -> &mut Endpoint {
        match self {
            Placed::Remote(peer) => peer,
            Placed::Local(peer, _) => &mut peer.endpoint,
        }
    }
}

fn at(
    remote: &Places<Endpoint>,
    local: &Places<LocalPeer>,
    word: u32,
) -> Option<NonNull<Endpoint>> {
    match word & LOCAL {
        0 => remote.at(word),
        // The endpoint is the first field of a `LocalPeer`.
        _ => local.at(word & !LOCAL).map(NonNull::cast),
    }
}

/// The process number of the connected peer in a place.
fn proc_of(remote: &Places<Endpoint>, local: &Places<LocalPeer>, word: u32) -> Option<u64> {
    // SAFETY: places below `used` were written, and stay readable until the table is dropped.
    let peer = unsafe { at(remote, local, word)?.as_ref() };
    peer.is_connected().then_some(peer.proc)
}

#[cfg(test)]
mod tests;

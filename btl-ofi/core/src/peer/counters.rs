//! The counters of this transport, in a file that `host-stub stats` reads (`plugin_api::counters` has its layout).
//!
//! Each peer has a slot, by its offset in [`Endpoint::counters`](crate::peer::endpoint::Endpoint::counters); peers for which
//! there is none share slot 0. The counting thread holds the lock of the context, or counts by [`add`] as if other threads
//! counted, too.

use std::alloc::{self, Layout};
use std::io;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use plugin_api::Stats;
use plugin_api::counters::{Counters, MAGIC, NAME, NO_PEER, PeerCounters, SLOTS, VERSION};

use crate::base::error::Error;
use crate::base::mapping::{Mapped, allocate};
use crate::base::sys;
use crate::peer::endpoint::Endpoint;

mod append;
mod report;

const PAGE: usize = 4096;
const SLOT: usize = size_of::<PeerCounters>();
/// Slots in a page of the file.
const SLOTS_PER_PAGE: u32 = (PAGE / SLOT) as u32;

/// Adds to a counter. `shared` says that another thread may add at the same time; without it no locked instruction is
/// used.
#[inline(always)]
pub(crate) fn add(counter: &AtomicU64, n: u64, shared: bool) {
    if shared {
        counter.fetch_add(n, Ordering::Relaxed);
    } else {
        counter.store(
            counter.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }
}

/// The counters of a transport, for its parts, which the table outlives (`Transport::close`).
#[derive(Clone, Copy)]
pub(crate) struct CountersRef(NonNull<Counters>);

// SAFETY: the counters are atomics in memory that is tied to no thread.
unsafe impl Send for CountersRef {}
// SAFETY: the counters are atomics.
unsafe impl Sync for CountersRef {}

impl CountersRef {
    /// The counters of a peer.
    #[inline(always)]
    pub(crate) fn of(self, peer: &Endpoint) -> &PeerCounters {
        // SAFETY: the offset is that of a slot of this table (`take`), which outlives the transport's peers.
        unsafe {
            let first = self.0.byte_add(offset_of!(Counters, peers));
            first.byte_add(peer.counters as usize).cast().as_ref()
        }
    }

    /// Counts a call that makes progress. Threads that do so at the same time may lose a count.
    #[inline(always)]
    pub(crate) fn polled(self) {
        // SAFETY: the table outlives what holds this.
        add(unsafe { &self.0.as_ref().front.polls }, 1, false);
    }
}

enum Memory {
    File(OwnedFd, Mapped<Counters>),
    /// Where the kernel gives no file: counted, but read by this process only.
    Heap(NonNull<Counters>),
}

/// The counters of a transport.
pub(crate) struct CounterTable {
    memory: Memory,
    slots: Mutex<Slots>,
    /// The file for the counters when the transport closes. Until then peers that are released keep their slots.
    file: Option<PathBuf>,
}

// SAFETY: the counters are atomics in memory that the table owns, and that is tied to no thread.
unsafe impl Send for CounterTable {}
// SAFETY: as above; everything else is locked.
unsafe impl Sync for CounterTable {}

/// Which slots are in use.
struct Slots {
    used: u32,
    free: Vec<u32>,
}

impl CounterTable {
    /// The counters of a transport over `title`: its provider and interface. They are [written](Self::write) to `report`.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn new(title: &str, report: Option<PathBuf>) -> Result<CounterTable, Error> {
        let memory = match file() {
            Ok(memory) => memory,
            Err(e) => {
                tracing::info!("host-stub stats cannot read the counters of this process: {e}");
                heap()?
            }
        };
        let table = CounterTable {
            memory,
            slots: Mutex::new(Slots {
                used: 1,
                free: Vec::new(),
            }),
            file: report,
        };
        let (front, own) = (&table.counters().front, &table.counters().peers[0]);
        for (to, from) in front.title.iter().zip(title.bytes()).take(127) {
            to.store(from, Ordering::Relaxed);
        }
        own.proc.store(NO_PEER, Ordering::Relaxed);
        front.owner.store(std::process::id(), Ordering::Relaxed);
        front.used.store(1, Ordering::Relaxed);
        front.version.store(VERSION, Ordering::Relaxed);
        // Release: all else is written before, as a reader of the file expects.
        front.magic.store(MAGIC, Ordering::Release);
        Ok(table)
    }

    pub(crate) fn counters(&self) -> &Counters {
        match &self.memory {
            Memory::File(_, mapped) => mapped,
            // SAFETY: `heap` allocated the memory, and only `drop` frees it. Any bytes are valid counters.
            Memory::Heap(at) => unsafe { at.as_ref() },
        }
    }

    /// The counters, for parts of the transport.
    pub(crate) fn share(&self) -> CountersRef {
        CountersRef(NonNull::from(self.counters()))
    }

    /// The slot of all peers without one, and of waits for all peers.
    pub(crate) fn common(&self) -> &PeerCounters {
        &self.counters().peers[0]
    }

    /// Gives a peer a slot, and returns its offset; 0, the common slot, if there is none.
    #[cold]
    pub(crate) fn take(&self, proc: u64) -> u32 {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let number = match slots.free.pop() {
            Some(number) => number,
            None if slots.used as usize == SLOTS || !self.has_page(slots.used) => return 0,
            None => {
                slots.used += 1;
                slots.used - 1
            }
        };
        let counters = self.counters();
        let peer = &counters.peers[number as usize];
        peer.proc.store(proc, Ordering::Relaxed);
        // Release: whose slot it is was written before, as a reader of the file expects.
        counters.front.used.store(slots.used, Ordering::Release);
        number * SLOT as u32
    }

    /// Whether a slot that was never used has memory; allocates it if the slot is the first of its page.
    fn has_page(&self, number: u32) -> bool {
        let Memory::File(file, _) = &self.memory else {
            return true;
        };
        if !number.is_multiple_of(SLOTS_PER_PAGE) {
            return true;
        }
        let at = offset_of!(Counters, peers) + number as usize * SLOT;
        allocate(file, at, PAGE).is_ok()
    }

    /// Takes a peer's slot back. What it counted goes to the common slot. No operation to the peer is outstanding.
    #[cold]
    pub(crate) fn give_back(&self, offset: u32) {
        if offset == 0 || self.file.is_some() {
            return;
        }
        let (number, common) = (offset / SLOT as u32, self.common());
        let peer = &self.counters().peers[number as usize];
        for (from, to) in words(peer).into_iter().zip(words(common)) {
            add(to, from.swap(0, Ordering::Relaxed), true);
        }
        peer.proc.store(NO_PEER, Ordering::Relaxed);
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // Without memory for the number the slot stays unused.
        if slots.free.try_reserve(1).is_ok() {
            slots.free.push(number);
        }
    }

    /// Adds what was counted for all peers.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let counters = self.counters();
        let used = counters.front.used.load(Ordering::Relaxed) as usize;
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        for peer in counters.peers.iter().take(used) {
            for (carried, i) in peer.carried.iter().zip(0..) {
                stats.operations[i] += read(&carried.operations);
                stats.bytes[i] += read(&carried.bytes);
            }
            stats.revoked += read(&peer.revoked);
            stats.messages += read(&peer.messages);
            stats.waits += read(&peer.waits);
            stats.waited += read(&peer.waited);
        }
        stats.polls += read(&counters.front.polls);
    }
}

impl CounterTable {
    /// Appends a line to the file that was asked for. A failure is logged; the transport closes nevertheless.
    pub(crate) fn write(&self) {
        let Some(path) = &self.file else { return };
        let mut line = report::line(self.counters());
        line.push('\n');
        if let Err(e) = append::append(path, line.as_bytes()) {
            tracing::warn!(
                "the counters are not written to {}: {e}; choose another btl_ofi_stats_file",
                path.display()
            );
        }
    }
}

impl Drop for CounterTable {
    fn drop(&mut self) {
        if let Memory::Heap(at) = self.memory {
            // SAFETY: `heap` allocated the memory with this layout, and nothing uses it any more.
            unsafe { alloc::dealloc(at.as_ptr().cast(), Layout::new::<Counters>()) };
        }
    }
}

/// Counters of a slot.
const WORDS: usize = SLOT / 8 - 1;

/// All counters of a slot.
fn words(peer: &PeerCounters) -> [&AtomicU64; WORDS] {
    let [provider, message, ring, cma, copy] = &peer.carried;
    [
        &provider.operations,
        &provider.bytes,
        &message.operations,
        &message.bytes,
        &ring.operations,
        &ring.bytes,
        &cma.operations,
        &cma.bytes,
        &copy.operations,
        &copy.bytes,
        &peer.again,
        &peer.revoked,
        &peer.messages,
        &peer.waits,
        &peer.waited,
    ]
}

/// A file with the memory of its first and its last page; `take` allocates the others.
fn file() -> io::Result<Memory> {
    let file = sys::memory_file(NAME)?;
    allocate(&file, size_of::<Counters>() - PAGE, PAGE)?;
    allocate(&file, 0, offset_of!(Counters, peers) + PAGE)?;
    let mapped = Mapped::new(&file, 0)?;
    Ok(Memory::File(file, mapped))
}

fn heap() -> Result<Memory, Error> {
    // SAFETY: the layout's size is not 0.
    let at = NonNull::new(unsafe { alloc::alloc_zeroed(Layout::new::<Counters>()) });
    let at = at.ok_or(Error::OutOfMemory("the counters of a transport"))?;
    Ok(Memory::Heap(at.cast()))
}

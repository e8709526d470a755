//! The counters of this transport, in a file that `host-stub stats` reads (`plugin_api::counters` has its layout).
//!
//! Each peer has a slot in each context's [share](crate::peer::share), at the offset in
//! [`Endpoint::counters`](crate::peer::endpoint::Endpoint::counters). Peers without a slot of their own share slot 0. The
//! counting thread holds the context's lock, or counts by [`add`] as if other threads counted, too.

use std::alloc::{self, Layout};
use std::ffi::c_void;
use std::io;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use plugin_api::Stats;
use plugin_api::counters::{
    Front, MAGIC, NAME, NO_PEER, PeerCounters, SLOTS, Share as CountersShare, VERSION, start_of,
};

use crate::base::error::Error;
use crate::base::mapping::allocate;
use crate::base::sys;
use crate::peer::endpoint::Endpoint;
use crate::peer::share::Share;

mod append;
mod report;

const PAGE: usize = 4096;
const SLOT: usize = size_of::<PeerCounters>();
/// Size of the header before the slots of a share.
const HEAD: usize = offset_of!(CountersShare, peers);

/// Adds to a counter. `shared` says that another thread may add at the same time. Without `shared`, no locked
/// instruction is used.
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

/// A reference to the counters of a transport, for its parts. The table outlives all references
/// (`Transport::close`).
#[derive(Clone, Copy)]
pub(crate) struct CountersRef(NonNull<Front>);

// SAFETY: the counters are atomics in memory that is tied to no thread.
unsafe impl Send for CountersRef {}
// SAFETY: the counters are atomics.
unsafe impl Sync for CountersRef {}

impl CountersRef {
    /// The counters of a peer in a context's share.
    #[inline(always)]
    pub(crate) fn of(self, peer: &Endpoint, share: Share) -> &PeerCounters {
        // SAFETY: a slot of this table has this offset (`take`); the table outlives the transport's peers and has the
        // shares of its contexts.
        unsafe {
            let first = self.0.byte_add(start_of(0) + HEAD);
            let slot = first.byte_add(share.counters() + peer.counters as usize);
            slot.cast().as_ref()
        }
    }

    /// The counters of a peer in the first context's share.
    #[inline(always)]
    pub(crate) fn of_first(self, peer: &Endpoint) -> &PeerCounters {
        self.of(peer, Share::ONLY)
    }

    /// Counts a call that makes progress. The lock of the share's context is held.
    #[inline(always)]
    pub(crate) fn polled(self, share: Share) {
        // SAFETY: the table outlives all references, and has the shares of the transport's contexts.
        let share: &CountersShare = unsafe {
            let first = self.0.byte_add(start_of(0));
            first.byte_add(share.counters()).cast().as_ref()
        };
        add(&share.polls, 1, false);
    }
}

enum Memory {
    File(OwnedFd),
    /// Private memory, if the kernel provides no file: only this process can read the counters.
    Heap(Layout),
}

/// The counters of a transport.
pub(crate) struct CounterTable {
    memory: Memory,
    /// The beginning of the memory.
    at: NonNull<Front>,
    /// Number of shares that follow.
    shares: usize,
    slots: Mutex<Slots>,
    /// The file to which the counters are written when the transport closes. With a file, released peers keep
    /// their slots until then.
    file: Option<PathBuf>,
}

// SAFETY: the counters are atomics in memory that the table owns, and that is tied to no thread.
unsafe impl Send for CounterTable {}
// SAFETY: the counters are atomics in memory that the table owns, and everything else is behind a lock.
unsafe impl Sync for CounterTable {}

/// The slots in use.
struct Slots {
    used: u32,
    free: Vec<u32>,
}

impl CounterTable {
    /// Makes the counters of a transport. `title` names its provider and interface, and `shares` is the
    /// number of shares. The counters are [written](Self::write) to the file `report`.
    ///
    /// # Errors
    /// Memory is exhausted.
    pub(crate) fn new(
        title: &str,
        shares: usize,
        report: Option<PathBuf>,
    ) -> Result<CounterTable, Error> {
        let (memory, at) = match file(shares) {
            Ok(memory) => memory,
            Err(e) => {
                tracing::info!("host-stub stats cannot read the counters of this process: {e}");
                heap(shares)?
            }
        };
        let table = CounterTable {
            memory,
            at: at.cast(),
            shares,
            slots: Mutex::new(Slots {
                used: 1,
                free: Vec::new(),
            }),
            file: report,
        };
        let (front, own) = (table.front(), table.common());
        for (to, from) in front.title.iter().zip(title.bytes()).take(127) {
            to.store(from, Ordering::Relaxed);
        }
        own.proc.store(NO_PEER, Ordering::Relaxed);
        front.owner.store(std::process::id(), Ordering::Relaxed);
        front.used.store(1, Ordering::Relaxed);
        front.shares.store(shares as u32, Ordering::Relaxed);
        front.version.store(VERSION, Ordering::Relaxed);
        // Release: a reader of the file expects that everything else was written before.
        front.magic.store(MAGIC, Ordering::Release);
        Ok(table)
    }

    pub(crate) fn front(&self) -> &Front {
        // SAFETY: the table owns the memory, and any bytes are valid counters.
        unsafe { self.at.as_ref() }
    }

    /// The mapping that other processes read; `None` without a file.
    pub(crate) fn mapping(&self) -> Option<(NonNull<c_void>, usize)> {
        match self.memory {
            Memory::File(_) => Some((self.at.cast(), start_of(self.shares))),
            Memory::Heap(_) => None,
        }
    }

    /// A reference to the counters, for parts of the transport.
    pub(crate) fn reference(&self) -> CountersRef {
        CountersRef(self.at)
    }

    /// All shares.
    pub(crate) fn shares(&self) -> &[CountersShare] {
        // SAFETY: the memory has this number of shares, and any bytes are valid counters.
        unsafe {
            let first = self.at.byte_add(start_of(0)).cast();
            std::slice::from_raw_parts(first.as_ptr(), self.shares)
        }
    }

    /// The first share's slot for all peers without a slot of their own, and for waits for all
    /// peers.
    pub(crate) fn common(&self) -> &PeerCounters {
        &self.shares()[0].peers[0]
    }

    /// Gives a peer a slot, and returns the slot's offset. Returns 0, the common slot, if no slot
    /// is left.
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
        let peer = &self.shares()[0].peers[number as usize];
        peer.proc.store(proc, Ordering::Relaxed);
        // Release: a reader of the file expects that the slot's process was written before.
        self.front().used.store(slots.used, Ordering::Release);
        number * SLOT as u32
    }

    /// Whether a slot that was never used has memory. If the slot is the first of its page, allocates
    /// the page.
    fn has_page(&self, number: u32) -> bool {
        let Memory::File(file) = &self.memory else {
            return true;
        };
        let at = HEAD + number as usize * SLOT;
        if !at.is_multiple_of(PAGE) {
            return true;
        }
        let mut shares = 0..self.shares;
        shares.all(|share| allocate(file, start_of(share) + at, PAGE).is_ok())
    }

    /// Takes a peer's slot back, and adds its counts to the common slot. No operation to the peer is
    /// outstanding.
    #[cold]
    pub(crate) fn give_back(&self, offset: u32) {
        if offset == 0 || self.file.is_some() {
            return;
        }
        let number = offset / SLOT as u32;
        for share in self.shares() {
            let (peer, common) = (&share.peers[number as usize], &share.peers[0]);
            for (from, to) in words(peer).into_iter().zip(words(common)) {
                add(to, from.swap(0, Ordering::Relaxed), true);
            }
        }
        let peer = &self.shares()[0].peers[number as usize];
        peer.proc.store(NO_PEER, Ordering::Relaxed);
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // If there is no memory for the number, the slot stays unused.
        if slots.free.try_reserve(1).is_ok() {
            slots.free.push(number);
        }
    }

    /// Adds the counts of all peers to `stats`.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let used = self.front().used.load(Ordering::Relaxed) as usize;
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let shares = self.shares().iter();
        for peer in shares.flat_map(|share| share.peers.iter().take(used)) {
            for (carried, i) in peer.carried.iter().zip(0..) {
                stats.operations[i] += read(&carried.operations);
                stats.bytes[i] += read(&carried.bytes);
            }
            stats.revoked += read(&peer.revoked);
            stats.messages += read(&peer.messages);
            stats.waits += read(&peer.waits);
            stats.waited += read(&peer.waited);
        }
        stats.polls += self.shares().iter().map(|s| read(&s.polls)).sum::<u64>();
    }
}

impl CounterTable {
    /// Appends a line to the requested file. If this fails, the failure is logged, and the transport closes
    /// nevertheless.
    pub(crate) fn write(&self) {
        let Some(path) = &self.file else { return };
        let mut line = report::line(self.front(), self.shares());
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
        // SAFETY: `file` mapped the memory with this size, or `heap` allocated it with this layout, and nothing uses it
        // afterwards.
        unsafe {
            match &self.memory {
                Memory::File(_) => {
                    let size = start_of(self.shares);
                    if let Err(e) = sys::unmap(self.at.cast(), size) {
                        tracing::warn!(
                            "the counters of a transport stay mapped, {size} bytes: {e}"
                        );
                    }
                }
                Memory::Heap(layout) => alloc::dealloc(self.at.as_ptr().cast(), *layout),
            }
        }
    }
}

/// Number of counters in a slot.
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

/// Makes a file that has memory for its first page, its last page, and the first page of each share. `take` allocates the
/// other pages.
fn file(shares: usize) -> io::Result<(Memory, NonNull<c_void>)> {
    let file = sys::memory_file(NAME)?;
    allocate(&file, start_of(shares) - PAGE, PAGE)?;
    allocate(&file, 0, PAGE)?;
    for share in 0..shares {
        allocate(&file, start_of(share), PAGE)?;
    }
    let at = sys::map_shared(&file, 0, start_of(shares))?;
    Ok((Memory::File(file), at))
}

fn heap(shares: usize) -> Result<(Memory, NonNull<c_void>), Error> {
    let failed = || Error::OutOfMemory("the counters of a transport");
    let layout = Layout::from_size_align(start_of(shares), align_of::<Front>());
    let layout = layout.map_err(|_| failed())?;
    // SAFETY: the layout's size is not 0.
    let at = NonNull::new(unsafe { alloc::alloc_zeroed(layout) });
    Ok((Memory::Heap(layout), at.ok_or_else(failed)?.cast()))
}

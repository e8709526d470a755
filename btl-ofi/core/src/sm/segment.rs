//! The shared-memory segment in which local peers leave atomics and ring puts and gets for a process: its layout,
//! creation, opening, and the claim of a ring.
//!
//! Each process creates one segment. The segment holds the doorbells and one ring per requester; its owner, the
//! responder, executes the commands in the rings. The rings lie with the responder, so only a requester opens files:
//! the responder needs no permission for its requesters, maps nothing while it works, and is safe from a requester's
//! file that shrinks. A requester knows before its first command whether it may open the segment, so the path to each
//! peer is fixed once (`engine::commands`).
//!
//! The segment is a `memfd`: it has no name in `/dev/shm`, so a killed process leaves no orphaned segment. Peers open
//! the segment through `/proc/<pid>/fd/<n>`, which needs the same permission as cross-memory attach. Peers recognise
//! the segment by its nonce, the value that its owner also announces as its probe. A seal forbids shrinking, because
//! access beyond the end of a file kills the peer (SIGBUS). For the same reason `fallocate` allocates pages before
//! their first use: a shortage of memory is then the error of a call.
//!
//! The file is sparse: an unclaimed ring takes no memory, a claimed ring 12 KiB. Data that does not fit in a command
//! lies in a *block* of a pool that all requesters share (`pool`): 64 KiB per block, 4 MiB together. Each ring also has
//! a payload of its own, so an atomic waits only for its responder and never for another requester. The own payload is
//! 3.9 KiB, the rest of the ring's pages. The payload grows by up to 16 KiB when a longer vector finds every block
//! busy.
//!
//! After a fork the child shares the mapping, like the provider's mappings. The child forgets the segment
//! (`core::fork`), so neither its calls nor its exit or exec access the segment.

use std::fs::File;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::{cell::UnsafeCell, io};

use crate::base::mapping::{Mapped, allocate};
use crate::base::sys;
use crate::mem::shared::{Announced, SharedRegions};
use crate::peer::liveness::{ProcessId, State};

use crate::sm::pool::{BLOCKS, Owner};
use crate::sm::ring::{Bells, RINGS, Slot, Watch};

/// Maximum outstanding commands of one requester.
pub(crate) const SLOTS: u32 = 128;
/// Size in bytes of a block. A block holds operands and results of vectors and transfers of more than one word.
pub(crate) const PAYLOAD: usize = 64 * 1024;
/// Size in bytes of the largest operation. A block holds several.
pub(crate) const LARGEST: usize = PAYLOAD / 4;
/// Sizes in bytes of a ring's own payload: OWN_SHORT in the pages of every claimed ring, OWN_LONG after it
/// has grown.
pub(crate) const OWN_SHORT: usize = 3 * PAGE - offset_of!(Ring, own);
pub(crate) const OWN_LONG: usize = OWN_SHORT + 4 * PAGE;
/// Flag in a command's `payload`: the offset refers to the ring's own payload, not to the pool.
pub(crate) const OWN: u32 = 1 << 31;

pub(crate) const PAGE: usize = 4096;
/// Identifies this layout; a segment with another value is refused.
const MAGIC: u64 = u64::from_le_bytes(*b"BTLOATO8");
/// Set in a claim word if the ring is taken. The low 32 bits hold the next owner's first position. The bits above
/// this one hold the number of slots before that position that the responder may still have to skip.
const TAKEN: u64 = 1 << 32;
const SPENT: u32 = 33;

/// The holder of a ring that a process left with unanswered commands.
const DESERTED: u64 = u64::MAX;

/// The part that all requesters share.
#[repr(C, align(4096))]
pub(crate) struct Front {
    magic: AtomicU64,
    /// The owner's probe value.
    nonce: AtomicU64,
    /// 1 after the owner stops executing commands.
    closed: AtomicU32,
    pub(crate) bells: Bells,
    claims: [AtomicU64; RINGS],
    /// For each taken ring, the process that has it: the id in the low half, the start time in the high half. This is used
    /// to find rings and blocks of dead processes. [`DESERTED`] if the process left the ring with unanswered commands. 0
    /// while the ring is free, being claimed, or given back.
    holders: [AtomicU64; RINGS],
    owners: [Owner; BLOCKS],
    /// The owner's regions that its peers may map.
    shared: SharedRegions,
}

/// The commands of one requester.
#[repr(C, align(4096))]
pub(crate) struct Ring {
    pub(crate) watch: Watch,
    slots: [Slot; SLOTS as usize],
    own: Payload<OWN_BYTES>,
}

/// The value of [`OWN_LONG`], as a literal because `OWN_LONG` is computed from the layout.
const OWN_BYTES: usize = 20352;

/// One side at a time writes this memory. The state of the slot whose command names the memory determines the
/// side. Accessed through raw pointers, because a faulty process may write at any time.
#[repr(C, align(64))]
struct Payload<const N: usize>(UnsafeCell<[u8; N]>);

/// The blocks, in order.
#[repr(C, align(4096))]
struct Pool(Payload<{ BLOCKS * PAYLOAD }>);

#[repr(C)]
struct Layout {
    front: Front,
    rings: [Ring; RINGS],
    pool: Pool,
}

const SHARED_REGIONS: usize = offset_of!(Layout, front) + offset_of!(Front, shared);

const _: () = assert!(offset_of!(Front, nonce) == 8 && size_of::<Slot>() == 64);
const _: () = assert!(OWN_LONG == OWN_BYTES && OWN_LONG >= LARGEST);
const _: () = assert!(OWN_SHORT.is_multiple_of(64) && size_of::<Ring>() == 7 * PAGE);
const _: () = assert!(BLOCKS * PAYLOAD <= OWN as usize && size_of::<Pool>() == BLOCKS * PAYLOAD);
const _: () = assert!(size_of::<Layout>().is_multiple_of(PAGE) && align_of::<Layout>() == PAGE);

impl Ring {
    #[inline]
    pub(crate) fn slot(&self, position: u32) -> &Slot {
        &self.slots[(position % SLOTS) as usize]
    }

    /// The ring's own payload.
    pub(crate) fn own(&self) -> *mut u8 {
        self.own.0.get().cast()
    }

    /// Whether the responder may still execute a command of this ring.
    fn has_unanswered(&self) -> bool {
        self.slots.iter().any(Slot::may_be_executed)
    }
}

const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// This process's segment.
pub(crate) struct Segment {
    file: OwnedFd,
    layout: Mapped<Layout>,
}

impl Segment {
    /// Creates a segment that peers recognize by `nonce`.
    pub(crate) fn make(nonce: u64) -> io::Result<Segment> {
        let file = sys::memory_file(c"btl-ofi-atomics")?;
        // The allocation of the last page gives the file its size.
        allocate(&file, size_of::<Layout>() - PAGE, PAGE)?;
        allocate(&file, 0, size_of::<Front>())?;
        sys::add_seals(&file, SEALS)?;
        let layout = Mapped::<Layout>::new(&file, 0)?;
        layout.front.nonce.store(nonce, Ordering::Relaxed);
        // Relaxed: peers learn of the segment through the address, which is published later.
        layout.front.magic.store(MAGIC, Ordering::Relaxed);
        Ok(Segment { file, layout })
    }

    /// The descriptor under which peers open the segment. The descriptor is positive.
    pub(crate) fn descriptor(&self) -> u32 {
        self.file.as_raw_fd() as u32
    }

    /// The part in which this process announces regions. Returns `None` if this fails; peers then access the
    /// regions as if these could not be mapped.
    pub(crate) fn shared_regions(&self) -> Option<Announced> {
        let regions = Mapped::new(&self.file, SHARED_REGIONS).ok()?;
        Some(Announced::new(regions))
    }

    #[inline]
    pub(crate) fn bells(&self) -> &Bells {
        &self.layout.front.bells
    }

    #[inline]
    pub(crate) fn ring(&self, index: usize) -> &Ring {
        &self.layout.rings[index % RINGS]
    }

    /// Start of the `size` bytes that a command of `ring` names by `payload`; `None` if the bytes exceed the
    /// payload. A requester that names bytes of another ring corrupts only payloads of this segment.
    #[inline]
    pub(crate) fn payload(&self, ring: &Ring, payload: u32, size: usize) -> Option<*mut u8> {
        let (start, most) = if payload & OWN == 0 {
            (self.layout.pool.0.0.get().cast(), BLOCKS * PAYLOAD)
        } else {
            (ring.own(), OWN_LONG)
        };
        let offset = (payload & !OWN) as usize;
        // Neither operation overflows, because `offset <= most` is tested first.
        (offset <= most && size <= most - offset).then(|| start.wrapping_add(offset))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `Claim::is_closed`: a requester that reads 1 sees the last answer.
        self.layout.front.closed.store(1, Ordering::Release);
    }
}

/// Location of a peer's segment, or of another file of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) pid: u32,
    pub(crate) descriptor: u32,
    pub(crate) nonce: u64,
}

impl Place {
    /// Opens the segment, and checks that it is the announced one.
    pub(crate) fn open(self) -> io::Result<File> {
        let file = self.open_file()?;
        let other = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if file.metadata()?.size() != size_of::<Layout>() as u64 {
            return other("not a segment for atomics");
        }
        if sys::seals(&file)? & libc::F_SEAL_SHRINK == 0 {
            return other("the segment may shrink");
        }
        let mut start = [0u8; 16];
        file.read_exact_at(&mut start, 0)?;
        let expected = [MAGIC.to_ne_bytes(), self.nonce.to_ne_bytes()].concat();
        if start[..] != expected[..] {
            return other("a segment of another process or of another build");
        }
        Ok(file)
    }

    /// Opens the descriptor's file, with any content.
    pub(crate) fn open_file(self) -> io::Result<File> {
        self.open_of(&self.pid.to_string()).or_else(|e| {
            // After the main thread has ended, the kernel shows no files under the process id, but it shows them under
            // the ids of other threads.
            let threads = sys::threads(&self.pid.to_string()).unwrap_or_default();
            let mut threads = threads.into_iter().flatten();
            let found =
                threads.find_map(|id| self.open_of(&format!("{}/task/{id}", self.pid)).ok());
            found.ok_or(e)
        })
    }

    /// Opens the descriptor of a process or thread in this folder of `/proc`. Fails unless the descriptor is of
    /// a regular file.
    fn open_of(self, folder: &str) -> io::Result<File> {
        let path = format!("/proc/{folder}/fd/{}", self.descriptor);
        // The type is checked before the open, because opening a device or a pipe may have effects.
        if !std::fs::metadata(&path)?.is_file() {
            let what = "its descriptor is not one of a file";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mut options = File::options();
        options.read(true).write(true);
        options.custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY);
        options.open(path)
    }

    /// Opens the part of the segment in which its owner announces regions.
    pub(crate) fn shared_regions(self) -> io::Result<Mapped<SharedRegions>> {
        Mapped::new(self.open()?, SHARED_REGIONS)
    }

    /// Opens the segment and claims a ring.
    pub(crate) fn claim(self) -> io::Result<Claim> {
        let file = self.open()?;
        let front = Mapped::<Front>::new(&file, offset_of!(Layout, front))?;
        for (index, claim) in front.claims.iter().enumerate() {
            let found = claim.load(Ordering::Relaxed);
            if found & TAKEN != 0 {
                continue;
            }
            // Acquire pairs with the Release in `Claim::give_back` of the ring's last owner.
            let taken =
                claim.compare_exchange(found, found | TAKEN, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_err() {
                continue;
            }
            let ring = match map_ring(&file, index) {
                Ok(ring) => ring,
                Err(e) => {
                    // Release pairs with the Acquire of the next claim.
                    claim.store(found, Ordering::Release);
                    return Err(e);
                }
            };
            // A requester reads this word after it has seen a block that this ring took (`Owner::read`). Release pairs with
            // the Acquire in `reclaim`.
            front.holders[index].store(holder_of(ProcessId::own()), Ordering::Release);
            front.bells.enlist(index);
            return Ok(Claim {
                front,
                ring,
                pool: None,
                index,
                place: self,
                position: found as u32,
                spent: (found >> SPENT) as u32,
            });
        }
        self.reclaim(&file, front)
    }
}

/// Allocates and maps the memory of a claimed ring.
fn map_ring(file: &File, index: usize) -> io::Result<Mapped<Ring>> {
    let offset = offset_of!(Layout, rings) + index * size_of::<Ring>();
    allocate(file, offset, offset_of!(Ring, own) + OWN_SHORT)?;
    Mapped::new(file, offset)
}

/// A claimed ring of a peer's segment. If the value is dropped without [`give_back`](Self::give_back), the
/// ring stays taken.
pub(crate) struct Claim {
    front: Mapped<Front>,
    ring: Mapped<Ring>,
    /// Mapped when the ring takes its first block.
    pool: Option<Mapped<Pool>>,
    index: usize,
    place: Place,
    /// Position of the first command.
    pub(crate) position: u32,
    /// Number of slots before `position` with revoked commands that the responder may still have to
    /// skip.
    pub(crate) spent: u32,
}

impl Claim {
    #[inline]
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Tells the responder of a published command.
    #[inline(always)]
    pub(crate) fn announce(&self) {
        crate::sm::ring::announce(&self.ring.watch, &self.front.bells, self.index);
    }

    /// Whether the responder has stopped executing commands. If the responder has stopped, all its
    /// answers are visible after this call.
    pub(crate) fn is_closed(&self) -> bool {
        // Acquire pairs with the Release in the Drop of `Segment`.
        self.front.closed.load(Ordering::Acquire) != 0
    }

    /// Index of the ring in the segment.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Owner words of the responder's blocks.
    #[inline]
    pub(crate) fn owners(&self) -> &[Owner; BLOCKS] {
        &self.front.owners
    }

    /// Allocates `size` bytes of the ring's own payload before their first use. Returns the number of bytes that are
    /// then allocated, in whole pages. [`OWN_SHORT`] bytes are allocated from the beginning.
    pub(crate) fn allocate_own(&self, size: usize) -> io::Result<usize> {
        let file = self.place.open()?;
        let ring = offset_of!(Layout, rings) + self.index * size_of::<Ring>();
        let all = (offset_of!(Ring, own) + size.min(OWN_LONG)).next_multiple_of(PAGE);
        allocate(&file, ring, all)?;
        Ok(all - offset_of!(Ring, own))
    }

    /// Allocates the pages of a block before its first use.
    pub(crate) fn allocate_block(&self, block: usize) -> io::Result<()> {
        let file = self.place.open()?;
        let from = offset_of!(Layout, pool) + block % BLOCKS * PAYLOAD;
        allocate(&file, from, PAYLOAD)
    }

    /// Start of a block.
    pub(crate) fn block(&mut self, block: usize) -> io::Result<*mut u8> {
        let pool = match &mut self.pool {
            Some(pool) => pool,
            none => {
                let file = self.place.open()?;
                none.insert(Mapped::new(&file, offset_of!(Layout, pool))?)
            }
        };
        let Pool(Payload(bytes)) = &**pool;
        let start: *mut u8 = bytes.get().cast();
        Ok(start.wrapping_add(block % BLOCKS * PAYLOAD))
    }

    /// Whether another ring may take the block of `ring`: the process of `ring` is dead or closed the ring, and
    /// the responder has no command of it left to execute. The caller must have read the block's owner word,
    /// which names the ring, before this call.
    pub(crate) fn is_deserted(&self, ring: usize) -> io::Result<bool> {
        let ring = ring % RINGS;
        // Acquire pairs with the Release in `desert`.
        let holder = self.front.holders[ring].load(Ordering::Acquire);
        if holder != DESERTED && process_of(holder).state() != State::Gone {
            return Ok(false);
        }
        let file = self.place.open()?;
        let offset = offset_of!(Layout, rings) + ring * size_of::<Ring>();
        let ring = Mapped::<Ring>::new(&file, offset)?;
        Ok(!ring.has_unanswered())
    }

    /// Leaves the ring for good, because it holds unanswered commands. Another process claims the ring after all rings are
    /// taken and these commands are answered.
    pub(crate) fn desert(self) {
        // Release pairs with the Acquire in `is_deserted` and `reclaim`: all accesses to the block come before another ring
        // takes the block.
        self.front.holders[self.index].store(DESERTED, Ordering::Release);
    }

    /// Frees the ring for another process. The last `spent` commands before `next` were revoked, and all others were
    /// answered.
    pub(crate) fn give_back(self, next: u32, spent: u32) {
        let word = u64::from(next) | u64::from(spent) << SPENT;
        // The entry of `holders` is cleared before the ring is free. If this process ends in between, the entry must
        // not name this process while another process claims the ring.
        self.front.holders[self.index].store(0, Ordering::Relaxed);
        // Release pairs with the Acquire in `Place::claim`.
        self.front.claims[self.index].store(word, Ordering::Release);
    }
}

mod reclaim;
use reclaim::{holder_of, process_of};
#[cfg(test)]
mod tests;

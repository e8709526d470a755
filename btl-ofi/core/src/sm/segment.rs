//! The memory in which peers on this node leave atomics and small transfers for a process: laid out, made,
//! found, claimed.
//!
//! Each process makes one segment, holding its bells and a ring for each initiator, and executes what
//! arrives there. That the rings lie with the target, and not with the initiators, means that only the
//! initiator has to open anything: a target needs no permission towards its initiators, maps nothing
//! while it works, and cannot be hurt by a file of theirs that shrinks. Whether an initiator may open
//! the segment is known before it posts its first command, so what goes which way is settled once for
//! each peer (see `channel`).
//!
//! The segment is a `memfd`: it has no name in `/dev/shm` that a killed process could leave behind.
//! Peers open it through `/proc/<pid>/fd/<n>`, which asks for no more than cross-memory attach does, and
//! know it by the value that its owner also announced as its probe. It is sealed against shrinking, or
//! touching it could kill a peer (SIGBUS). For the same reason pages are allocated (`fallocate`), and
//! not only mapped, before they are first used: where memory is short that is an error of a call. The
//! file is sparse, so a ring costs nothing until it is claimed, then 12 KiB. What does not fit in a command lies
//! in a *block* of a pool that all initiators share (`pool`), 64 KiB each and 4 MiB together. A ring has some room
//! of its own as well, so that an atomic waits for its target only and never for another initiator: 3.9 KiB that
//! its pages hold anyway, and up to 16 KiB more once a longer vector finds every block in use.
//!
//! After a fork the child shares the mapping, as it shares the provider's; it must not use the
//! transport, and leaves it alone when it exits or executes another program.

use std::ffi::c_void;
use std::fs::File;
use std::mem::offset_of;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::{cell::UnsafeCell, io};

use crate::peer::liveness::{ProcessId, State};
use crate::sm::pool::{BLOCKS, Owner};
use crate::sm::ring::{Bells, RINGS, Slot, Watch};

/// Commands that one initiator may have outstanding.
pub(crate) const SLOTS: u32 = 128;
/// Bytes of a block, for operands and results of vectors and for transfers of more than a word.
pub(crate) const PAYLOAD: usize = 64 * 1024;
/// Most bytes of one of them: a block holds some.
pub(crate) const LARGEST: usize = PAYLOAD / 4;
/// Bytes of a ring's own payload: what its first pages have left, and all of it.
pub(crate) const OWN_SHORT: usize = 3 * PAGE - offset_of!(Ring, own);
pub(crate) const OWN_LONG: usize = OWN_SHORT + 4 * PAGE;
/// In a command's payload: an offset into the ring's own, and not into the pool.
pub(crate) const OWN: u32 = 1 << 31;

const PAGE: usize = 4096;
/// Says which layout this is; a process with another is not understood.
const MAGIC: u64 = u64::from_le_bytes(*b"BTLOATO3");
/// In a claim: the ring is taken. The low half is the position at which whoever has it next goes on, and what
/// is above this bit the number of slots before that position that the target has yet to pass over.
const TAKEN: u64 = 1 << 32;
const SPENT: u32 = 33;

/// What all initiators share.
#[repr(C, align(4096))]
pub(crate) struct Front {
    magic: AtomicU64,
    /// The owner's probe value.
    nonce: AtomicU64,
    /// Set when the owner will execute nothing more.
    closed: AtomicU32,
    pub(crate) bells: Bells,
    claims: [AtomicU64; RINGS],
    /// For each ring the process that claimed it last, to find blocks of the dead: id, and start above it. 0 for
    /// a ring that was left with commands unanswered.
    holders: [AtomicU64; RINGS],
    owners: [Owner; BLOCKS],
}

/// What one initiator writes its commands to.
#[repr(C, align(4096))]
pub(crate) struct Ring {
    pub(crate) watch: Watch,
    slots: [Slot; SLOTS as usize],
    own: Payload<OWN_BYTES>,
}

/// [`OWN_LONG`], spelled out because that is computed from the layout.
const OWN_BYTES: usize = 20352;

/// Written by one side at a time, as the slot's state that speaks of it says; read and written
/// through raw pointers, since a process that misbehaves may write at any time.
#[repr(C, align(64))]
struct Payload<const N: usize>(UnsafeCell<[u8; N]>);

/// The blocks, one after the other.
#[repr(C, align(4096))]
struct Pool(Payload<{ BLOCKS * PAYLOAD }>);

#[repr(C)]
struct Layout {
    front: Front,
    rings: [Ring; RINGS],
    pool: Pool,
}

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

    /// Whether the target may still execute a command of it.
    fn has_unanswered(&self) -> bool {
        self.slots.iter().any(Slot::may_be_executed)
    }
}

/// Shared memory, mapped until this is dropped.
struct Mapped<T>(NonNull<T>);

impl<T> Mapped<T> {
    /// Maps a `T` that lies `offset` bytes into a file of zeros and atomics.
    fn new(file: RawFd, offset: usize) -> io::Result<Mapped<T>> {
        let (rights, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping, placed by the kernel.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<T>(),
                rights,
                shared,
                file,
                offset as libc::off_t,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(at.cast())
            .map(Mapped)
            .ok_or_else(|| io::Error::other("mapped at NULL"))
    }
}

impl<T> Deref for Mapped<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: mapped for as long as this lives; the types that are mapped consist of atomics and
        // cells, for which any bytes are valid and other processes may write.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this size, and unmapped once.
        unsafe { libc::munmap(self.0.as_ptr().cast::<c_void>(), size_of::<T>()) };
    }
}

fn checked(rc: i32) -> io::Result<i32> {
    if rc < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(rc)
    }
}

/// Allocates pages, so that touching them cannot fail.
fn allocate(file: RawFd, offset: usize, size: usize) -> io::Result<()> {
    let end = offset + size;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit is written.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) })?;
    // Passing the limit would be a signal, not an error.
    if limit.rlim_cur < end as u64 {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    // SAFETY: plain numbers.
    checked(unsafe { libc::fallocate(file, 0, offset as libc::off_t, size as libc::off_t) })?;
    Ok(())
}

const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// This process's segment.
pub(crate) struct Segment {
    file: OwnedFd,
    layout: Mapped<Layout>,
}

impl Segment {
    /// Makes a segment that peers know by `nonce`.
    pub(crate) fn make(nonce: u64) -> io::Result<Segment> {
        let (name, flags) = (
            c"btl-ofi-atomics",
            libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
        );
        // SAFETY: a C string.
        let file = checked(unsafe { libc::memfd_create(name.as_ptr(), flags) })?;
        // SAFETY: a descriptor just made, owned by nobody else.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        let fd = file.as_raw_fd();
        // The file gets its size with its last page.
        allocate(fd, size_of::<Layout>() - PAGE, PAGE)?;
        allocate(fd, 0, size_of::<Front>())?;
        // SAFETY: plain numbers.
        checked(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, SEALS) })?;
        let layout = Mapped::<Layout>::new(fd, 0)?;
        layout.front.nonce.store(nonce, Ordering::Relaxed);
        // Peers learn of the segment through the address that is published after this.
        layout.front.magic.store(MAGIC, Ordering::Relaxed);
        Ok(Segment { file, layout })
    }

    /// Its descriptor, by which peers find it. Positive.
    pub(crate) fn descriptor(&self) -> u32 {
        self.file.as_raw_fd() as u32
    }

    #[inline]
    pub(crate) fn bells(&self) -> &Bells {
        &self.layout.front.bells
    }

    #[inline]
    pub(crate) fn ring(&self, index: usize) -> &Ring {
        &self.layout.rings[index % RINGS]
    }

    /// What a command of `ring` calls its payload; `None` if there are no `size` bytes there. An initiator that
    /// names what is not its own spoils payloads only, of this segment.
    #[inline]
    pub(crate) fn payload(&self, ring: &Ring, payload: u32, size: usize) -> Option<*mut u8> {
        let (start, most) = if payload & OWN == 0 {
            (self.layout.pool.0.0.get().cast(), BLOCKS * PAYLOAD)
        } else {
            (ring.own(), OWN_LONG)
        };
        let offset = (payload & !OWN) as usize;
        // Neither side overflows: `offset <= most` is tested first.
        (offset <= most && size <= most - offset).then(|| start.wrapping_add(offset))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `is_closed`: who sees it sees the last answer.
        self.layout.front.closed.store(1, Ordering::Release);
    }
}

/// Where a peer's segment is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) pid: u32,
    pub(crate) descriptor: u32,
    pub(crate) nonce: u64,
}

impl Place {
    /// Opens the segment and makes sure that it is the one announced.
    pub(crate) fn open(self) -> io::Result<File> {
        let path = format!("/proc/{}/fd/{}", self.pid, self.descriptor);
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?;
        let other = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.size() != size_of::<Layout>() as u64 {
            return other("not a segment for atomics");
        }
        // SAFETY: plain numbers.
        let seals = checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) })?;
        if seals & libc::F_SEAL_SHRINK == 0 {
            return other("the segment may shrink");
        }
        let mut start = [0u8; 16];
        file.read_exact_at(&mut start, 0)?;
        let expected = [MAGIC.to_ne_bytes(), self.nonce.to_ne_bytes()].concat();
        if start[..] != expected[..] {
            return other("another process's segment, or of another build");
        }
        Ok(file)
    }

    /// Finds the segment and takes a ring of it.
    pub(crate) fn claim(self) -> io::Result<Claim> {
        let file = self.open()?;
        let fd = file.as_raw_fd();
        let front = Mapped::<Front>::new(fd, offset_of!(Layout, front))?;
        for (index, claim) in front.claims.iter().enumerate() {
            let found = claim.load(Ordering::Relaxed);
            if found & TAKEN != 0 {
                continue;
            }
            // Acquire pairs with the Release of whoever had it before (`give_back`).
            let taken =
                claim.compare_exchange(found, found | TAKEN, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_err() {
                continue;
            }
            let offset = offset_of!(Layout, rings) + index * size_of::<Ring>();
            let ring = allocate(fd, offset, offset_of!(Ring, own) + OWN_SHORT)
                .and_then(|()| Mapped::<Ring>::new(fd, offset));
            let ring = match ring {
                Ok(ring) => ring,
                Err(e) => {
                    claim.store(found, Ordering::Release);
                    return Err(e);
                }
            };
            let own = ProcessId::own();
            let holder = u64::from(own.pid) | u64::from(own.started) << 32;
            // Seen by whoever sees that the ring took a block (`Owner::read`).
            front.holders[index].store(holder, Ordering::Relaxed);
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
        Err(io::Error::other("all rings are taken"))
    }
}

/// A ring of a peer's segment, this process's until dropped.
pub(crate) struct Claim {
    front: Mapped<Front>,
    ring: Mapped<Ring>,
    /// Mapped with the first block.
    pool: Option<Mapped<Pool>>,
    index: usize,
    place: Place,
    /// The position of the first command.
    pub(crate) position: u32,
    /// Slots before it that hold revoked commands, which the target may yet have to pass over.
    pub(crate) spent: u32,
}

impl Claim {
    #[inline]
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Tells the target of a published command.
    #[inline]
    pub(crate) fn announce(&self) {
        crate::sm::ring::announce(&self.ring.watch, &self.front.bells, self.index);
    }

    /// Whether the target will execute nothing more. The answers that it gave are seen after this.
    pub(crate) fn is_closed(&self) -> bool {
        // Acquire pairs with the Release in Segment's Drop.
        self.front.closed.load(Ordering::Acquire) != 0
    }

    /// The number of the ring.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The words of the target's blocks.
    #[inline]
    pub(crate) fn owners(&self) -> &[Owner; BLOCKS] {
        &self.front.owners
    }

    /// Allocates so many bytes of the ring's own payload, before their first use; gives how many are there now, which
    /// are whole pages. [`OWN_SHORT`] are there from the beginning.
    pub(crate) fn allocate_own(&self, size: usize) -> io::Result<usize> {
        let file = self.place.open()?;
        let ring = offset_of!(Layout, rings) + self.index * size_of::<Ring>();
        let all = (offset_of!(Ring, own) + size.min(OWN_LONG)).next_multiple_of(PAGE);
        allocate(file.as_raw_fd(), ring, all)?;
        Ok(all - offset_of!(Ring, own))
    }

    /// Allocates a block, before its first use.
    pub(crate) fn allocate_block(&self, block: usize) -> io::Result<()> {
        let file = self.place.open()?;
        let from = offset_of!(Layout, pool) + block % BLOCKS * PAYLOAD;
        allocate(file.as_raw_fd(), from, PAYLOAD)
    }

    /// Where a block is.
    pub(crate) fn block(&mut self, block: usize) -> io::Result<*mut u8> {
        let pool = match &mut self.pool {
            Some(pool) => pool,
            none => {
                let file = self.place.open()?;
                none.insert(Mapped::new(file.as_raw_fd(), offset_of!(Layout, pool))?)
            }
        };
        let Pool(Payload(bytes)) = &**pool;
        let start: *mut u8 = bytes.get().cast();
        Ok(start.wrapping_add(block % BLOCKS * PAYLOAD))
    }

    /// Whether nobody will use what a ring has in the pool any more: the process that had it is gone, or left it, and
    /// the target has nothing of it to execute. To be asked after the block's word was read, which names the ring.
    pub(crate) fn is_deserted(&self, ring: usize) -> io::Result<bool> {
        let ring = ring % RINGS;
        // Acquire pairs with the Release in `desert`.
        let holder = self.front.holders[ring].load(Ordering::Acquire);
        let process = ProcessId {
            pid: holder as u32,
            started: (holder >> 32) as u32,
        };
        if holder != 0 && process.state() != State::Gone {
            return Ok(false);
        }
        let file = self.place.open()?;
        let offset = offset_of!(Layout, rings) + ring * size_of::<Ring>();
        let ring = Mapped::<Ring>::new(file.as_raw_fd(), offset)?;
        Ok(!ring.has_unanswered())
    }

    /// Leaves the ring, which nobody has from now on: commands in it are unanswered.
    pub(crate) fn desert(self) {
        // Release: what this process did with its block comes before another takes it.
        self.front.holders[self.index].store(0, Ordering::Release);
    }

    /// Lets another process have the ring. The last `spent` commands before `next` were revoked, all
    /// others answered.
    pub(crate) fn give_back(self, next: u32, spent: u32) {
        let word = u64::from(next) | u64::from(spent) << SPENT;
        // Release pairs with the Acquire in `claim`.
        self.front.claims[self.index].store(word, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sm::ring::{Answer, Command};

    fn place(segment: &Segment, nonce: u64) -> Place {
        Place {
            pid: std::process::id(),
            descriptor: segment.descriptor(),
            nonce,
        }
    }

    #[test]
    fn rings_are_claimed_and_given_back() {
        let segment = Segment::make(42).unwrap();
        let first = place(&segment, 42).claim().unwrap();
        let second = place(&segment, 42).claim().unwrap();
        assert_eq!((first.index, second.index), (0, 1));
        let command = Command {
            value: 7,
            ..Command::default()
        };
        second.ring().slot(0).publish(0, &command);
        second.announce();
        assert_eq!(segment.bells().take(0), 2);
        let slot = segment.ring(1).slot(0);
        assert!(slot.is_published(0));
        let answer = Answer {
            status: 0,
            value: slot.command().value + 1,
        };
        slot.answer(0, answer);
        assert_eq!(second.ring().slot(0).answered(0), Some(answer));
        assert_eq!(first.allocate_own(OWN_SHORT).unwrap(), OWN_SHORT);
        assert_eq!(first.allocate_own(OWN_LONG).unwrap(), OWN_LONG);
        first.allocate_block(BLOCKS - 1).unwrap();
        second.give_back(1, 0);
        let again = place(&segment, 42).claim().unwrap();
        assert_eq!((again.index, again.position, again.spent), (1, 1, 0));
        again.give_back(u32::MAX, 128);
        let again = place(&segment, 42).claim().unwrap();
        assert_eq!((again.position, again.spent), (u32::MAX, 128));
        assert!(!again.is_closed());
        drop(segment);
        assert!(again.is_closed(), "the mapping outlives the owner");
    }

    #[test]
    fn no_more_rings_than_there_are() {
        let segment = Segment::make(1).unwrap();
        let all: Vec<_> = (0..RINGS)
            .map(|_| place(&segment, 1).claim().unwrap())
            .collect();
        assert!(place(&segment, 1).claim().is_err());
        assert_eq!(segment.bells().used(), RINGS / 64);
        drop(all);
        assert!(
            place(&segment, 1).claim().is_err(),
            "what is not given back stays taken"
        );
    }

    #[test]
    fn what_is_not_the_segment_is_refused() {
        let segment = Segment::make(1).unwrap();
        let right = place(&segment, 1);
        for wrong in [
            Place { nonce: 2, ..right },
            Place {
                descriptor: 1 << 20,
                ..right
            },
            Place {
                descriptor: 0,
                ..right
            },
            Place {
                pid: u32::MAX >> 1,
                ..right
            },
        ] {
            assert!(wrong.claim().is_err(), "{wrong:?}");
        }
        // A file of the right size that may shrink.
        // SAFETY: a C string.
        let fd = unsafe { libc::memfd_create(c"other".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: just made.
        let other = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        other.set_len(size_of::<Layout>() as u64).unwrap();
        let descriptor = fd as u32;
        assert!(
            Place {
                descriptor,
                ..right
            }
            .claim()
            .is_err()
        );
        assert!(right.claim().is_ok());
    }

    #[test]
    fn a_payload_is_never_left() {
        let segment = Segment::make(1).unwrap();
        let ring = segment.ring(3);
        let has = |payload, size| segment.payload(ring, payload, size).is_some();
        let pool = BLOCKS * PAYLOAD;
        for (most, flag) in [(pool, 0), (OWN_LONG, OWN)] {
            let end = most as u32 | flag;
            assert!(has(flag, most) && has(end, 0) && has(end - 64, 64));
            assert!(!has(end - 64, 65) && !has(64 | flag, most) && !has(end + 1, 0));
            assert!(!has(flag, usize::MAX) && !has(!OWN | flag, usize::MAX));
        }
        let end = segment.payload(ring, pool as u32, 0).unwrap().addr();
        let start = ptr::from_ref(&segment.layout.front).addr();
        assert_eq!(end - start, size_of::<Layout>());
    }

    #[test]
    fn a_ring_is_deserted_when_its_process_is_gone_and_all_is_answered() {
        let segment = Segment::make(1).unwrap();
        let (mut mine, other) = (
            place(&segment, 1).claim().unwrap(),
            place(&segment, 1).claim().unwrap(),
        );
        mine.block(BLOCKS - 1).unwrap();
        assert!(!mine.is_deserted(other.index).unwrap(), "it lives");
        let (ring, command) = (other.index, Command::default());
        other.ring().slot(0).publish(0, &command);
        other.desert();
        assert!(!mine.is_deserted(ring).unwrap(), "it may be executed");
        let answer = Answer {
            status: 0,
            value: 0,
        };
        segment.ring(ring).slot(0).answer(0, answer);
        assert!(mine.is_deserted(ring).unwrap());
        let own = ProcessId::own();
        let gone = u64::from(own.pid) | u64::from(own.started.wrapping_sub(1)) << 32;
        segment.layout.front.holders[ring].store(gone, Ordering::Relaxed);
        assert!(mine.is_deserted(ring).unwrap(), "the id serves another");
    }
}

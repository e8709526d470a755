//! The responder: finds commands of direct atomics and small transfers in this process's segment and executes them.
//!
//! Runs under the lock of the transport's first context: one thread executes at a time. The provider may execute atomics of
//! other peers at the same time, with other contexts or threads of its own (`peer::route` says why that is sound). The
//! responder trusts no field of a command. A command names its region by the key and
//! cookie of its handle. It is refused unless that region is registered here, contains all elements, and allows the
//! operation. The region table is locked during execution, so memory of a deregistered region is not accessed. An
//! access to unmapped memory of a region is an error (`base::guard`).

use plugin_api::{AtomicKind, AtomicOp, Datatype, Status};

use crate::base::guard::Reach;
use crate::base::lock::Lock;
use crate::mem::regions::{Known, Regions};
use crate::mem::rights;
use crate::op::element::{self, Elements};
use crate::sm::ring::{Answer, Command, RINGS};
use crate::sm::segment::{Ring, Segment};

/// Rings that are watched: their next slot is polled without a doorbell.
const MOST_WATCHED: usize = 4;
/// Polls without a command after which a watched ring gives way to a ring that rings the doorbell.
const STALE: u32 = 1024;
/// Commands executed for one ring before the next ring's turn.
const BATCH: u32 = 32;

/// Values of `Command::what` for transfers.
pub(crate) const PUT: u32 = 3 << 16;
pub(crate) const GET: u32 = 4 << 16;

/// Value of `Command::what` for an atomic, from the codes of its type and operation.
#[inline]
pub(crate) fn what(kind: AtomicKind, datatype: u32, op: u32) -> u32 {
    (kind as u32) << 16 | datatype << 8 | op
}

/// The kind, type and operation in a value of `Command::what`, if it is of an atomic that can be executed.
pub(crate) fn decode(what: u32) -> Option<(AtomicKind, Datatype, AtomicOp)> {
    let kind = match what >> 16 {
        0 => AtomicKind::Update,
        1 => AtomicKind::Fetch,
        2 => AtomicKind::Compare,
        _ => return None,
    };
    let datatype = Datatype::try_from(what >> 8 & 0xff).ok()?;
    let op = AtomicOp::try_from(what & 0xff).ok()?;
    element::serves(kind, datatype, op).then_some((kind, datatype, op))
}

/// This process's segment and the progress of its rings.
pub(crate) struct Responder {
    segment: Segment,
    /// For each ring, the position of the next command to execute.
    next: Box<[u32; RINGS]>,
    watched: [Watched; MOST_WATCHED],
    /// Number of entries of `watched` in use.
    watching: usize,
    polls: u32,
    last: Last,
}

#[derive(Clone, Copy, Default)]
struct Watched {
    ring: usize,
    /// The poll that last found a command.
    seen: u32,
}

/// The region of the last command; the next command nearly always names the same one.
#[derive(Default)]
struct Last(Option<(Known, u64)>);

impl Responder {
    pub(crate) fn new(segment: Segment) -> Responder {
        Responder {
            segment,
            next: Box::new([0; RINGS]),
            watched: [Watched::default(); MOST_WATCHED],
            watching: 0,
            polls: 0,
            last: Last::default(),
        }
    }

    /// Executes commands that have arrived. Without commands it reads one word per 64 requesters and one per watched
    /// ring.
    #[inline]
    pub(crate) fn attend(&mut self, regions: &Lock<Regions>) {
        self.polls = self.polls.wrapping_add(1);
        for slot in 0..self.watching {
            let index = self.watched[slot].ring;
            let next = self.next[index];
            if self.segment.ring(index).slot(next).is_published(next) {
                self.watched[slot].seen = self.polls;
                self.serve(index, regions);
            }
        }
        for word in 0..self.segment.bells().used() {
            let rung = self.segment.bells().take(word);
            if rung != 0 {
                self.serve_rung(word, rung, regions);
            }
        }
    }

    #[inline(never)]
    fn serve_rung(&mut self, word: usize, mut rung: u64, regions: &Lock<Regions>) {
        while rung != 0 {
            let index = word * 64 + rung.trailing_zeros() as usize;
            rung &= rung - 1;
            self.serve(index, regions);
            self.consider_watching(index, regions);
        }
    }

    /// Watches a ring that rang, if an entry is unused or belongs to a ring that has been idle for long.
    fn consider_watching(&mut self, index: usize, regions: &Lock<Regions>) {
        let watched = &mut self.watched[..self.watching];
        if watched.iter().any(|w| w.ring == index) {
            return;
        }
        let polls = self.polls;
        let new = Watched {
            ring: index,
            seen: polls,
        };
        if self.watching < MOST_WATCHED {
            self.watched[self.watching] = new;
            self.watching += 1;
            self.segment.ring(index).watch.begin();
            return;
        }
        let idle = |w: &Watched| polls.wrapping_sub(w.seen);
        let Some(stale) = watched.iter_mut().max_by_key(|w| idle(w)) else {
            return;
        };
        if idle(stale) < STALE {
            return;
        }
        let old = std::mem::replace(stale, new).ring;
        self.segment.ring(index).watch.begin();
        self.segment.ring(old).watch.end();
        // The old ring's requester may just have seen itself watched and not rung.
        self.serve(old, regions);
    }

    /// Executes the commands of one ring, in order.
    fn serve(&mut self, index: usize, regions: &Lock<Regions>) {
        let ring = self.segment.ring(index);
        let mut next = self.next[index];
        if !ring.slot(next).is_published(next) {
            return;
        }
        let regions = regions.lock();
        let from = (&self.segment, ring);
        for _ in 0..BATCH {
            let slot = ring.slot(next);
            if !slot.is_published(next) {
                break;
            }
            let command = slot.command();
            let put = command.what == PUT;
            let done = if put || command.what == GET {
                if slot.take(next) {
                    transfer(&regions, &mut self.last, from, &command, put)
                } else {
                    // The requester has revoked the transfer and waits for its slot.
                    Ok(0)
                }
            } else {
                execute(&regions, &mut self.last, from, &command)
            };
            let answer = match done {
                Ok(value) => Answer { status: 0, value },
                Err(status) => Answer {
                    status: status.0,
                    value: 0,
                },
            };
            slot.answer(next, answer);
            next = next.wrapping_add(1);
        }
        drop(regions);
        self.next[index] = next;
        if ring.slot(next).is_published(next) {
            // The ring's next turn comes after the other rings.
            self.segment.bells().ring(index);
        }
    }
}

impl Last {
    /// The region that a command names, if it is registered.
    #[inline]
    fn find(&mut self, regions: &Regions, key: u64, cookie: u64) -> Option<Known> {
        if let Some((known, removals)) = &self.0
            && *removals == regions.removals()
            && known.handle.is_named(key, cookie)
        {
            return Some(*known);
        }
        let known = *regions
            .find(key)
            .filter(|k| k.handle.is_named(key, cookie))?;
        self.0 = Some((known, regions.removals()));
        Some(known)
    }
}

#[inline]
fn execute(
    regions: &Regions,
    last: &mut Last,
    (segment, ring): (&Segment, &Ring),
    c: &Command,
) -> Result<u64, Status> {
    let (kind, datatype, op) = decode(c.what).ok_or(Status::BAD_PARAM)?;
    let known = last.find(regions, c.key, c.cookie).ok_or(Status::PERM)?;
    let count = c.count as usize;
    // No overflow: a count has 32 bits, an element at most 8 bytes.
    let size = count * datatype.size();
    let mut value = c.value;
    let operands: *mut u8 = if size <= size_of_val(&value) {
        (&raw mut value).cast()
    } else {
        segment
            .payload(ring, c.payload, size)
            .ok_or(Status::BAD_PARAM)?
    };
    let elements = Elements {
        datatype,
        op,
        count,
        at: std::ptr::with_exposed_provenance_mut(c.address as usize),
        operands,
        compare: c.compare,
        results: match kind {
            AtomicKind::Update => std::ptr::null_mut(),
            AtomicKind::Fetch | AtomicKind::Compare => operands,
        },
    };
    // SAFETY: the operands are the local word, or `size` bytes of the payload, whose bounds were checked. The caller
    // holds the lock of the region table, as `perform` requires.
    unsafe { perform(&known, regions.reach(), kind, &elements) }?;
    Ok(value)
}

/// Executes a transfer. Returns the data read if it fits in one word.
#[inline]
fn transfer(
    regions: &Regions,
    last: &mut Last,
    (segment, ring): (&Segment, &Ring),
    c: &Command,
    put: bool,
) -> Result<u64, Status> {
    let known = last.find(regions, c.key, c.cookie).ok_or(Status::PERM)?;
    if !rights::allow_transfer(known.access, put) {
        return Err(Status::PERM);
    }
    let size = c.count as usize;
    known.handle.covers(c.address, size as u64)?;
    let mut value = c.value;
    let here: *mut u8 = if size <= size_of_val(&value) {
        (&raw mut value).cast()
    } else {
        segment
            .payload(ring, c.payload, size)
            .ok_or(Status::BAD_PARAM)?
    };
    let there: *mut u8 = std::ptr::with_exposed_provenance_mut(c.address as usize);
    let reach = regions.reach();
    // SAFETY: `there` lies in a registered region, and the caller holds the lock of the region table, so the memory,
    // if mapped, belongs to that region's owner. `here` is the local word or `size` bytes of the payload, whose
    // bounds were checked.
    unsafe {
        if put {
            reach.put(here, there, size)?;
        } else {
            reach.get(there, here, size)?;
        }
    }
    Ok(value)
}

/// Executes an atomic on a region of this process, if the region allows it.
///
/// # Safety
/// `operands` and `results` are valid for the sizes that [`Elements`] states. The caller holds the lock of the region
/// table.
#[inline]
pub(crate) unsafe fn perform(
    known: &Known,
    reach: Reach,
    kind: AtomicKind,
    e: &Elements,
) -> Result<(), Status> {
    let address = e.at as u64;
    let size = e.count * e.datatype.size();
    known.handle.covers(address, size as u64)?;
    if !address.is_multiple_of(e.datatype.size() as u64) {
        return Err(Status::BAD_PARAM);
    }
    if !rights::allow_atomic(known.access, kind, e.op) {
        return Err(Status::PERM);
    }
    reach.expect(e.at, size, e.op != AtomicOp::Read)?;
    // SAFETY: the elements lie in a registered region and the lock of the region table is held, so the memory, if
    // mapped, belongs to that region's owner. The elements are aligned. `decode` or the transport's table let
    // only combinations through that `serves` accepts. The caller guarantees that `operands` and `results` are valid.
    Ok(unsafe { element::apply(e) }?)
}

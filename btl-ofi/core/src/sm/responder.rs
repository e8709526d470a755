//! The target's side of direct atomics and small transfers: finds commands in this process's segment and
//! executes them.
//!
//! Runs under the lock of the context that also holds the provider, so one thread executes at a time
//! and never beside the provider. Nothing that arrives is believed: a command names its region by key
//! and cookie, as its handle did, and is refused unless that region lives here, holds all the elements,
//! and allows what is asked. While commands are executed the regions are locked, so a region that has
//! been deregistered is not touched any more; one whose memory is not mapped so is an error (`guard`).

use plugin_api::{AtomicKind, AtomicOp, Datatype, Status};

use crate::base::guard::Reach;
use crate::base::lock::Lock;
use crate::mem::regions::{Known, Regions};
use crate::mem::rights;
use crate::op::element::{self, Elements};
use crate::sm::ring::{Answer, Command, RINGS};
use crate::sm::segment::{Ring, Segment};

/// Rings whose next slot is looked at each time, without a bell.
const WATCHES: usize = 4;
/// Looks without a command after which a watched ring makes room for another that rings its bell.
const STALE: u32 = 1024;
/// Commands executed for one ring before the next has its turn.
const BATCH: u32 = 32;

/// What a transfer's `what` says, instead of an atomic's.
pub(crate) const PUT: u32 = 3 << 16;
pub(crate) const GET: u32 = 4 << 16;

/// What an atomic's `what` says.
#[inline]
pub(crate) fn what(kind: AtomicKind, datatype: Datatype, op: AtomicOp) -> u32 {
    (kind as u32) << 16 | (datatype as u32) << 8 | op as u32
}

fn understand(what: u32) -> Option<(AtomicKind, Datatype, AtomicOp)> {
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

/// What this process executes for others.
pub(crate) struct Responder {
    segment: Segment,
    /// For each ring, the position of the command to execute next.
    next: Box<[u32; RINGS]>,
    watched: [Watched; WATCHES],
    /// How many of `watched` are in use.
    watching: usize,
    looks: u32,
    last: Last,
}

#[derive(Clone, Copy, Default)]
struct Watched {
    ring: usize,
    /// The look that last found a command.
    seen: u32,
}

/// The region of the last command, which is nearly always that of the next.
#[derive(Default)]
struct Last(Option<(Known, u64)>);

impl Responder {
    pub(crate) fn new(segment: Segment) -> Responder {
        Responder {
            segment,
            next: Box::new([0; RINGS]),
            watched: [Watched::default(); WATCHES],
            watching: 0,
            looks: 0,
            last: Last::default(),
        }
    }

    /// Executes what has arrived. With nothing there it reads one word for each 64 initiators, and one
    /// for each ring that is watched.
    #[inline]
    pub(crate) fn attend(&mut self, regions: &Lock<Regions>) {
        self.looks = self.looks.wrapping_add(1);
        for slot in 0..self.watching {
            let index = self.watched[slot].ring;
            let next = self.next[index];
            if self.segment.ring(index).slot(next).is_published(next) {
                self.watched[slot].seen = self.looks;
                self.serve(index, regions);
            }
        }
        for word in 0..self.segment.bells().used() {
            let rung = self.segment.bells().take(word);
            if rung != 0 {
                self.answer_bells(word, rung, regions);
            }
        }
    }

    #[inline(never)]
    fn answer_bells(&mut self, word: usize, mut rung: u64, regions: &Lock<Regions>) {
        while rung != 0 {
            let index = word * 64 + rung.trailing_zeros() as usize;
            rung &= rung - 1;
            self.serve(index, regions);
            self.consider_watching(index, regions);
        }
    }

    /// Watches a ring that rang, if there is room or one that has been idle for long makes room.
    fn consider_watching(&mut self, index: usize, regions: &Lock<Regions>) {
        let watched = &mut self.watched[..self.watching];
        if watched.iter().any(|w| w.ring == index) {
            return;
        }
        let looks = self.looks;
        let new = Watched {
            ring: index,
            seen: looks,
        };
        if self.watching < WATCHES {
            self.watched[self.watching] = new;
            self.watching += 1;
            self.segment.ring(index).watch.begin();
            return;
        }
        let idle = |w: &Watched| looks.wrapping_sub(w.seen);
        let Some(stale) = watched.iter_mut().max_by_key(|w| idle(w)) else {
            return;
        };
        if idle(stale) < STALE {
            return;
        }
        let old = std::mem::replace(stale, new).ring;
        self.segment.ring(index).watch.begin();
        self.segment.ring(old).watch.end();
        // Its initiator may just have found itself watched, and rung nothing.
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
                    // Its initiator has revoked it, and wants the slot back.
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
            // Another turn, after the others'.
            self.segment.bells().ring(index);
        }
    }
}

impl Last {
    /// The region that a command names, if it lives.
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
    let (kind, datatype, op) = understand(c.what).ok_or(Status::BAD_PARAM)?;
    let known = last.find(regions, c.key, c.cookie).ok_or(Status::PERM)?;
    let count = c.count as usize;
    // No overflow: a count has 32 bits, an element 8 bytes.
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
    // SAFETY: the operands are the word on the stack, or a part of the payload that was checked to
    // hold them; the regions are locked, since the caller lends them.
    unsafe { perform(&known, regions.reach(), kind, &elements) }?;
    Ok(value)
}

/// Makes a transfer; gives what was read, if it is a word at most.
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
    // SAFETY: `there` lies in a region that is registered while the lock is held, and so names memory of its
    // owner's if any; `here` is the word on the stack, or a part of the payload that was checked to hold as
    // much.
    unsafe {
        if put {
            reach.put(here, there, size)?;
        } else {
            reach.get(there, here, size)?;
        }
    }
    Ok(value)
}

/// Executes on a region of this process, if it allows that.
///
/// # Safety
/// `operands` and `results` are good for what [`Elements`] says. The lock of the regions is held.
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
    // SAFETY: the elements lie in a region that is registered while the lock is held, and so name memory of
    // its owner's if any; they are aligned; the combination is one that `serves` lets through, by
    // `understand` or the transport's table; the caller vouches for the rest.
    Ok(unsafe { element::apply(e) }?)
}

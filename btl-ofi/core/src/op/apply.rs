//! Apply: any operation on elements of any size and alignment, which lie in runs of the target's memory. One command, which
//! the target's responder executes.
//!
//! **Who changes an element.** Size and alignment alone decide, never the layout, the count, the operation or the origin:
//!
//! | element | changed by |
//! | --- | --- |
//! | 1, 2, 4 or 8 bytes, aligned to its size | the processor's atomics, one element at a time: by [`element`](crate::op::element) if it has the operation, otherwise by a compare-and-swap loop around the user's function |
//! | any other, and any that lies in several runs (MPI_SHORT_INT, which has a gap) | the responder alone, under its lock, with the user's function on a copy |
//! | on a device | the responder alone, on a copy, under the lock of all commands on such memory |
//! | in a region that [commands alone](crate::Transport::register_sole) change | the responder alone, under its lock: by a load and a store, or with the user's function on a copy |
//!
//! A put or get of several runs is such a command, too: one that replaces or reads bytes ([`Change::is_transfer`]). The
//! runs of such a command are copied like those of any put or get: only a word of 4 or 8 bytes that is a run by itself
//! is guaranteed to be one access.
//!
//! So an aligned element excludes the typed atomics of all carriers and the atomics of threads of the target, and any
//! other element is changed by one thread at a time, whichever command brings it. If a network card executes the
//! atomics to a target, the origin refuses elements of the first row whose type the card serves, because the
//! processor's atomics would not exclude those of the card. The same holds on a device, whose typed atomics come by
//! other paths.
//!
//! **Form.** The operands of the command ([`Area`]) are words:
//!
//! | word | holds |
//! | --- | --- |
//! | 0 | the user's code, bytes of an element, type and operation if [`element`](crate::op::element) has them, whether it is a put or get, whether the runs are listed |
//! | 1 | number of runs |
//! | 2, 3, 4; ... | a run: offset from the command's address; bytes and count of its blocks; distance of two blocks |
//! | after the runs | the operands, packed; of a compare-and-swap, the values to compare with and then the new ones |
//!
//! Blocks of one length are *listed* if that takes fewer words: the halves of word 1 have the number of blocks and
//! their length, and each word behind it has the offsets of two blocks, in the largest power of two that divides an
//! element's size.
//!
//! An element may lie in several runs, in the order of its bytes: the runs are whole elements
//! together. The bytes between the runs stay as they are. Such an element has no type of the typed
//! atomics.
//!
//! The results are packed in the same way. Everything is checked before the first element is
//! changed.

mod carried;
mod runs;

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::{ptr, slice};

use plugin_api::{
    Access, ApplyRun, AtomicKind, AtomicOp, Datatype, MOST_APPLIED, MOST_ELEMENT, Status,
};

pub(crate) use self::carried::Carried;
use self::runs::{Received, Sent, Total};
use crate::mem::handle::Handle;
use crate::mem::rights;
use crate::op::completion::Completion;

/// The change of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Size of an element in bytes, from 1 to [`MOST_ELEMENT`].
    pub size: usize,
    /// The elements' type, if the typed atomics have it.
    pub datatype: Option<Datatype>,
    /// The operation, if the typed atomics have it.
    pub op: Option<AtomicOp>,
    /// The operation and type that are passed to the user's function at the target.
    pub code: u32,
    /// Whether the runs are the bytes of a put ([`AtomicOp::Write`] without results) or of a get ([`AtomicOp::Read`]).
    /// These bytes are copied like the bytes of any put or get, and need its rights. Such a change has size 1, no type
    /// and code 0.
    pub is_transfer: bool,
}

/// A request to change elements of a peer's memory.
#[derive(Clone, Copy)]
pub struct Apply<'a> {
    /// The peer's region.
    pub remote: &'a Handle,
    /// The address in the region to which the offsets of the runs are added.
    pub address: u64,
    /// The locations of the elements.
    pub runs: &'a [ApplyRun],
    /// The change of each element.
    pub change: Change,
    /// The packed operands. The operands are copied during the call. [`AtomicOp::Read`] does not read the
    /// operands. For [`AtomicOp::Cswap`], the values to compare with come first, then the new values.
    pub operands: *const c_void,
    /// Memory for the old values, packed, or NULL.
    pub results: *mut c_void,
    /// Reported after the elements were changed.
    pub completion: Option<Completion>,
}

/// Words before the runs.
const HEAD: usize = 2;

/// The code in place of a type or operation that the typed atomics do not have.
const OTHER: u64 = 0xff;

/// Words of the longest operands.
const WORDS: usize = MOST_APPLIED / 8;

/// Memory for the operands of a command. Words that were not written are undefined.
pub(crate) struct Area(MaybeUninit<[u64; WORDS]>);

/// Set in the first word of a put or get.
const TRANSFER: u64 = 1 << 56;
/// Set in the first word if the runs are listed.
const LISTED: u64 = 1 << 57;

/// Bytes of operands, and bytes of results, for each byte of the elements.
fn factors(change: &Change, has_results: bool) -> Result<(usize, usize), Status> {
    match change.op {
        _ if change.is_transfer && has_results != (change.op == Some(AtomicOp::Read)) => {
            Err(Status::BAD_PARAM)
        }
        Some(AtomicOp::Read | AtomicOp::Cswap) if !has_results => Err(Status::BAD_PARAM),
        Some(AtomicOp::Read) => Ok((0, 1)),
        Some(AtomicOp::Cswap) => Ok((2, 1)),
        _ => Ok((1, usize::from(has_results))),
    }
}

impl Change {
    /// Checks the size, and the fields that a transfer must not set.
    fn check(&self) -> Result<(), Status> {
        let fits = match self.is_transfer {
            true => {
                let transfers = matches!(self.op, Some(AtomicOp::Read | AtomicOp::Write));
                transfers && (self.size, self.datatype, self.code) == (1, None, 0)
            }
            false => self.datatype.is_none_or(|d| d.size() == self.size),
        };
        match (1..=MOST_ELEMENT).contains(&self.size) && fits {
            true => Ok(()),
            false => Err(Status::BAD_PARAM),
        }
    }

    /// Size in bytes of the elements in some runs. Refuses elements in several runs if the typed
    /// atomics have their type.
    fn bytes(&self, held: Total) -> Result<usize, Status> {
        match held.in_parts && self.datatype.is_some() {
            true => Err(Status::BAD_PARAM),
            false => Ok(held.bytes),
        }
    }

    /// The kind of the typed AMO that makes the same change.
    pub(crate) fn kind(&self, has_results: bool) -> AtomicKind {
        match (self.op, has_results) {
            (Some(AtomicOp::Cswap), _) => AtomicKind::Compare,
            (_, true) => AtomicKind::Fetch,
            (_, false) => AtomicKind::Update,
        }
    }

    /// Whether a region with these rights allows the change.
    pub(crate) fn is_allowed(&self, access: Access, has_results: bool) -> bool {
        if self.is_transfer {
            return rights::allow_transfer(access, self.op == Some(AtomicOp::Write));
        }
        let op = self.op.unwrap_or(AtomicOp::Sum);
        rights::allow_atomic(access, self.kind(has_results), op)
    }

    /// Whether the processor's atomics can change an element at this address.
    #[inline]
    pub(crate) fn is_atomic_at(&self, address: u64) -> bool {
        matches!(self.size, 1 | 2 | 4 | 8) && address.is_multiple_of(self.size as u64)
    }

    /// The unsigned type of an element's size, for the processor's atomics.
    pub(crate) fn bits(&self) -> Datatype {
        match self.size {
            1 => Datatype::Uint8,
            2 => Datatype::Uint16,
            4 => Datatype::Uint32,
            _ => Datatype::Uint64,
        }
    }

    fn word(&self, is_listed: bool) -> u64 {
        let datatype = self.datatype.map_or(OTHER, |datatype| datatype as u64);
        let op = self.op.map_or(OTHER, |op| op as u64);
        let transfer = if self.is_transfer { TRANSFER } else { 0 };
        let listed = if is_listed { LISTED } else { 0 };
        let kind = transfer | listed;
        u64::from(self.code) | (self.size as u64) << 32 | datatype << 40 | op << 48 | kind
    }

    /// Decodes a change from a word. Also returns whether the runs are listed.
    fn of_word(word: u64) -> Result<(Change, bool), Status> {
        let byte = |at: u32| word >> at & 0xff;
        let known = |code: u64| (code != OTHER).then_some(code as u32);
        let change = Change {
            size: byte(32) as usize,
            datatype: known(byte(40))
                .map(Datatype::try_from)
                .transpose()
                .map_err(|_| Status::BAD_PARAM)?,
            op: known(byte(48))
                .map(AtomicOp::try_from)
                .transpose()
                .map_err(|_| Status::BAD_PARAM)?,
            code: word as u32,
            is_transfer: word & TRANSFER != 0,
        };
        if word & !(LISTED | TRANSFER | (TRANSFER - 1)) != 0 {
            return Err(Status::BAD_PARAM);
        }
        change.check().map(|()| (change, word & LISTED != 0))
    }
}

impl Area {
    #[inline]
    pub(crate) fn new() -> Area {
        Area(MaybeUninit::uninit())
    }

    /// Writes the operands of a command, padded to whole words. Returns the number of bytes that the command carries.
    ///
    /// # Errors
    /// The request is invalid, is larger than a command, or does not lie in its region as far as the handle shows. The
    /// handle of staged device memory does not show the region.
    ///
    /// # Safety
    /// The operands are readable.
    pub(crate) unsafe fn fill(&mut self, apply: &Apply<'_>) -> Result<Carried, Status> {
        let change = &apply.change;
        change.check()?;
        let (sent, returned) = factors(change, !apply.results.is_null())?;
        let runs = Sent::new(apply.runs, change.size);
        let (head, held) = (HEAD + runs.words(), runs.total()?);
        let total = change.bytes(held)?;
        let carried = Carried {
            operands: 8 * head + sent * total,
            results: returned * total,
        };
        if carried.operands > MOST_APPLIED {
            return Err(Status::VALUE_OUT_OF_BOUNDS);
        }
        if sent > 0 && apply.operands.is_null() {
            return Err(Status::BAD_PARAM);
        }
        let at = self.0.as_mut_ptr().cast::<u64>();
        // SAFETY: the head, the operands and the last word are inside the area, which has room for the longest command; the
        // caller guarantees the operands.
        unsafe {
            at.write(change.word(runs.are_listed()));
            runs.write(at.add(1), apply.address, |first, size| {
                match apply.remote.is_device() {
                    true => Ok(()),
                    false => apply.remote.covers(first, size),
                }
            })?;
            if sent > 0 {
                at.add(carried.operands.div_ceil(8) - 1).write(0);
                copy_few(apply.operands.cast(), at.add(head).cast(), sent * total);
            }
        }
        Ok(carried)
    }

    /// Copies the operands of a command. Another process may change the operands meanwhile.
    ///
    /// # Safety
    /// `from` is readable for the carried bytes, and their number [is possible](Carried::is_possible).
    pub(crate) unsafe fn copy(&mut self, from: *const u8, carried: Carried) -> &[u64] {
        let at = self.0.as_mut_ptr().cast::<u64>();
        let words = carried.operands.div_ceil(8);
        // SAFETY: the area has room for all bytes of a command; the last word may be filled only in part.
        unsafe {
            at.add(words - 1).write(0);
            ptr::copy_nonoverlapping(from, at.cast(), carried.operands);
        }
        self.words(carried)
    }

    /// The words that [`fill`](Self::fill) or [`copy`](Self::copy) has written.
    pub(crate) fn words(&self, carried: Carried) -> &[u64] {
        // SAFETY: these words were written.
        unsafe { slice::from_raw_parts(self.0.as_ptr().cast(), carried.operands.div_ceil(8)) }
    }

    /// The address of the operands.
    pub(crate) fn start(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }
}

/// Copies packed elements. The elements are often one word, and a call of memcpy would cost more.
///
/// # Safety
/// `from` is readable and `to` writable for `size` bytes, and the two ranges do not overlap.
#[inline(always)]
unsafe fn copy_few(from: *const u8, to: *mut u8, size: usize) {
    // SAFETY: the caller guarantees both ranges.
    unsafe {
        match size {
            8 => to
                .cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned()),
            _ => ptr::copy_nonoverlapping(from, to, size),
        }
    }
}

/// The checked operands of a command: whole elements, matching operands and results, and no number that overflows. A
/// separate [check](Plan::check) tests whether the runs lie in the region.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) change: Change,
    pub(crate) address: u64,
    runs: Received<'a>,
    /// The operands; for a compare-and-swap, the new values.
    pub(crate) operands: *const u8,
    /// For a compare-and-swap, the values to compare with.
    pub(crate) compare: *const u8,
    pub(crate) has_results: bool,
    /// Whether an element lies in several blocks.
    pub(crate) in_parts: bool,
}

impl<'a> Plan<'a> {
    /// Reads the operands of a command to `address`. The command carries `carried` bytes.
    pub(crate) fn read(
        words: &'a [u64],
        carried: Carried,
        address: u64,
    ) -> Result<Plan<'a>, Status> {
        let wrong = Status::BAD_PARAM;
        let words = words.get(..carried.operands.div_ceil(8)).ok_or(wrong)?;
        let (&[first, second], rest) = words.split_first_chunk().ok_or(wrong)?;
        let (change, is_listed) = Change::of_word(first)?;
        let (runs, held, operands) = Received::read((second, rest), is_listed, change.size)?;
        let total = change.bytes(held)?;
        let has_results = carried.results > 0;
        let (sent, returned) = factors(&change, has_results)?;
        let head = 8 * (words.len() - operands.len());
        if carried.operands != head + sent * total || carried.results != returned * total {
            return Err(wrong);
        }
        let start = operands.as_ptr().cast::<u8>();
        let is_compare = change.op == Some(AtomicOp::Cswap);
        Ok(Plan {
            change,
            address,
            runs,
            operands: if is_compare {
                start.wrapping_add(total)
            } else {
                start
            },
            compare: start,
            has_results,
            in_parts: held.in_parts,
        })
    }

    /// Checks that all runs lie in the memory that `covers` accepts.
    pub(crate) fn check(
        &self,
        covers: impl FnMut(u64, u64) -> Result<(), Status>,
    ) -> Result<(), Status> {
        self.runs.check(self.address, covers)
    }

    /// Address and size of the block, if there is only one block and it is not listed. The plan was
    /// [checked](Self::check) before.
    #[inline]
    pub(crate) fn only_block(&self) -> Option<(u64, usize)> {
        let (offset, length) = self.runs.only_block()?;
        Some((self.address.wrapping_add(offset), length as usize))
    }

    /// The blocks in order: address and size of each. The plan was [checked](Self::check) before.
    #[inline]
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u64, usize)> + Clone {
        let address = self.address;
        self.runs.iter().flat_map(move |run| {
            let first = address.wrapping_add(run.offset);
            let at = move |i: u64| first.wrapping_add(i.wrapping_mul(run.stride));
            (0..run.count).map(move |i| (at(i), run.length as usize))
        })
    }

    /// The same plan at another address.
    pub(crate) fn moved_to(self, address: u64) -> Plan<'a> {
        Plan { address, ..self }
    }

    /// Size of all elements in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks().map(|(_, bytes)| bytes).sum()
    }

    /// The positions of single elements, counted in elements from the address, if they are listed
    /// in this form.
    #[inline]
    pub(crate) fn listed_elements(&self) -> Option<&'a [u32]> {
        self.runs.elements(self.change.size)
    }
}

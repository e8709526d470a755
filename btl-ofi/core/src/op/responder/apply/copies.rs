//! Changes of elements on copies, for changes that no atomic makes, and for elements that lie in several blocks.

use std::iter::{self, Empty};
use std::mem::MaybeUninit;
use std::ptr;

use plugin_api::{AtomicOp, MOST_ELEMENT, Status};

use super::{Packed, Target, call, is_equal};
use crate::mem::regions::Arithmetic;
use crate::op::apply::Change;

/// Maximum bytes of elements that are copied at a time.
const CHUNK: usize = 1024;

const _: () = assert!(CHUNK >= MOST_ELEMENT);

/// Buffers for copies of elements and of their operands, aligned for every type.
#[repr(C, align(64))]
struct Copies {
    elements: MaybeUninit<[u8; CHUNK]>,
    operands: MaybeUninit<[u8; CHUNK]>,
}

/// An iteration over blocks. The iteration may take a part of a block.
#[derive(Clone)]
pub(super) struct Blocks<I> {
    blocks: I,
    /// Address and size of the rest of a block that was taken in part.
    rest: (u64, usize),
}

impl Blocks<Empty<(u64, usize)>> {
    pub(super) fn one(block: (u64, usize)) -> Self {
        Blocks {
            blocks: iter::empty(),
            rest: block,
        }
    }
}

impl<I: Iterator<Item = (u64, usize)>> Blocks<I> {
    pub(super) fn new(blocks: I) -> Blocks<I> {
        Blocks {
            blocks,
            rest: (0, 0),
        }
    }

    /// Takes the next `bytes` bytes. `copy` gets the address of each part, its offset among these bytes, and
    /// its size.
    #[inline(always)]
    fn take(
        &mut self,
        bytes: usize,
        mut copy: impl FnMut(u64, usize, usize) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let mut taken = 0;
        while taken < bytes {
            let (address, left) = match self.rest {
                (_, 0) => self.blocks.next().ok_or(Status::ERROR)?,
                rest => rest,
            };
            let length = left.min(bytes - taken);
            copy(address, taken, length)?;
            self.rest = (address.wrapping_add(length as u64), left - length);
            taken += length;
        }
        Ok(())
    }
}

/// Changes the elements of blocks on copies. The blocks have `bytes` bytes, which are whole elements. Only the caller
/// changes the elements, under its lock.
///
/// # Safety
/// The region has the blocks; there are as many operands, and as many results unless NULL.
#[inline(never)]
pub(super) unsafe fn by_copies<I: Iterator<Item = (u64, usize)> + Clone>(
    target: &impl Target,
    change: &Change,
    (mut blocks, mut left): (Blocks<I>, usize),
    mut packed: Packed,
    arithmetic: Option<Arithmetic>,
) -> Result<(), Status> {
    let mut copies = Copies {
        elements: MaybeUninit::uninit(),
        operands: MaybeUninit::uninit(),
    };
    let elements = copies.elements.as_mut_ptr().cast::<u8>();
    let operands = copies.operands.as_mut_ptr().cast::<u8>();
    while left > 0 {
        let bytes = left.min(CHUNK / change.size * change.size);
        let mut changed = blocks.clone();
        // SAFETY: the blocks are in the region, and the copies have room for `bytes` bytes.
        let get = |address, at, length| unsafe { target.get(address, elements.add(at), length) };
        blocks.take(bytes, get)?;
        if !packed.results.is_null() {
            // SAFETY: the caller guarantees the results.
            unsafe { ptr::copy_nonoverlapping(elements, packed.results, bytes) };
        }
        let room = (elements, operands);
        // SAFETY: there are copies of `bytes` bytes of elements and room for their operands, and the caller guarantees
        // the operands.
        let new = unsafe { changed_copies(change, room, &packed, (bytes, arithmetic))? };
        if let Some(new) = new {
            // SAFETY: the blocks are in the region, and `new` has `bytes` bytes.
            let put = |address, at, length| unsafe { target.put(new.add(at), address, length) };
            changed.take(bytes, put)?;
        }
        packed.advance(bytes);
        left -= bytes;
    }
    Ok(())
}

/// Changes copies of elements. Returns the address of the new values; `None` if the elements stay unchanged.
///
/// # Safety
/// There are copies of this many bytes of elements, as many operands, and room for as many operands at the second pointer.
#[inline(always)]
unsafe fn changed_copies(
    change: &Change,
    (elements, operands): (*mut u8, *mut u8),
    packed: &Packed,
    (bytes, arithmetic): (usize, Option<Arithmetic>),
) -> Result<Option<*const u8>, Status> {
    let size = change.size;
    let mut is_changed = true;
    // SAFETY: the caller guarantees copies and operands, and the offsets are those of elements.
    unsafe {
        match change.op {
            Some(AtomicOp::Read) => is_changed = false,
            Some(AtomicOp::Write) => return Ok(Some(packed.operands)),
            Some(AtomicOp::Cswap) => {
                is_changed = false;
                for offset in (0..bytes).step_by(size) {
                    let (found, compare) = (elements.add(offset), packed.compare.add(offset));
                    if is_equal(found, compare, size) {
                        ptr::copy_nonoverlapping(packed.operands.add(offset), found, size);
                        is_changed = true;
                    }
                }
            }
            _ => {
                let arithmetic = arithmetic.ok_or(Status::NOT_SUPPORTED)?;
                ptr::copy_nonoverlapping(packed.operands, operands, bytes);
                call(arithmetic, change, (elements, operands), bytes / size)?;
            }
        }
    }
    Ok(is_changed.then_some(elements.cast_const()))
}

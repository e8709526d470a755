//! Reductions through shared memory.

use super::lines::Mark;
use super::state::Steps;
use crate::coll::{CollArgs, Collective};
use crate::comm::CommResult;
use crate::schedule::combine_into;

/// Elements of a part, split among ranks: first and end of one's.
fn share_of(count: usize, rank: usize, size: usize) -> (usize, usize) {
    (count * rank / size, count * (rank + 1) / size)
}

/// Copies bytes that do not overlap.
///
/// # Safety
/// Both ranges are good.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller vouches for both.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

/// Allreduce of what fits into a slot: everyone shows its operand, and everyone combines all.
///
/// # Safety
/// The arguments were checked and their buffers are good.
pub(super) unsafe fn allreduce_short(steps: &mut Steps<'_>, args: &CollArgs<'_>) -> CommResult<()> {
    let step = steps.step();
    let bytes = args.count * args.datatype.size();
    let operand = if args.send.is_null() {
        args.recv.cast_const()
    } else {
        args.send
    };
    steps.wait_for_room(step)?;
    // SAFETY: the slot is this rank's to fill; the operand is the caller's.
    unsafe { copy(operand, steps.slot(steps.me, step), bytes) };
    steps.tell(Mark::Ready, step);
    steps.wait_for_all(Mark::Ready, step)?;
    // In the order of the ranks, so that all compute the same bits.
    // SAFETY: every slot is ready; the result is the caller's buffer.
    unsafe {
        let mut left = steps.slot(0, step).cast_const();
        for rank in 1..steps.size {
            let right = steps.slot(rank, step);
            combine_into(args.datatype, args.op, left, right, args.recv, args.count);
            left = args.recv;
        }
    }
    steps.tell(Mark::Done, step);
    Ok(())
}

/// Allreduce and reduce in pieces, of which each rank combines a share: it shows the others' shares
/// of its operand, combines its own of all operands, and everyone who wants the result collects the
/// shares.
///
/// # Safety
/// The arguments were checked and their buffers are good.
pub(super) unsafe fn reduce_shared(
    steps: &mut Steps<'_>,
    collective: Collective,
    args: &CollArgs<'_>,
) -> CommResult<()> {
    if args.count == 0 {
        return Ok(());
    }
    let wants = collective == Collective::Allreduce || steps.me == args.root;
    let pieces = Pieces::new(steps, args);
    pieces.show(steps, 0)?;
    for index in 0..pieces.number() {
        // The next piece is shown while others still combine this one.
        if index + 1 < pieces.number() {
            pieces.show(steps, index + 1)?;
        }
        pieces.combine(steps, index)?;
        if wants {
            pieces.collect(steps, index)?;
        }
        steps.tell(Mark::Done, pieces.first + index as u64);
    }
    Ok(())
}

/// The pieces of a reduction's elements, each of which goes through the slots of one step. The caller of [`reduce_shared`]
/// vouches for the buffers.
struct Pieces<'a> {
    args: &'a CollArgs<'a>,
    operand: *const u8,
    /// Bytes of an element.
    unit: usize,
    /// Elements of a piece.
    piece: usize,
    /// The step of the first piece.
    first: u64,
}

impl<'a> Pieces<'a> {
    fn new(steps: &mut Steps<'_>, args: &'a CollArgs<'a>) -> Pieces<'a> {
        let unit = args.datatype.size();
        let pieces = Pieces {
            args,
            operand: match args.send.is_null() {
                true => args.recv.cast_const(),
                false => args.send,
            },
            unit,
            piece: steps.class.capacity() / unit,
            first: steps.step(),
        };
        for _ in 1..pieces.number() {
            steps.step();
        }
        pieces
    }

    fn number(&self) -> usize {
        self.args.count.div_ceil(self.piece)
    }

    /// The first element of a piece, and their number.
    fn part(&self, index: usize) -> (usize, usize) {
        let start = index * self.piece;
        (start, self.piece.min(self.args.count - start))
    }

    /// Fills this rank's slot with the others' shares of its operand.
    fn show(&self, steps: &Steps<'_>, index: usize) -> CommResult<()> {
        let (unit, step) = (self.unit, self.first + index as u64);
        let (start, count) = self.part(index);
        steps.wait_for_room(step)?;
        let (own, end) = share_of(count, steps.me, steps.size);
        let slot = steps.slot(steps.me, step);
        let from = self.operand.wrapping_add(start * unit);
        let rest = end * unit;
        // SAFETY: the slot is this rank's to fill; the operand is the caller's.
        unsafe {
            copy(from, slot, own * unit);
            let (from, slot) = (from.wrapping_add(rest), slot.wrapping_add(rest));
            copy(from, slot, (count - end) * unit);
        }
        steps.tell(Mark::Ready, step);
        Ok(())
    }

    /// Combines this rank's share of all operands, in the order of the ranks. This rank's operand comes from where it is,
    /// and its share of its own slot, which nobody reads as an operand, takes the result.
    fn combine(&self, steps: &Steps<'_>, index: usize) -> CommResult<()> {
        let (unit, step) = (self.unit, self.first + index as u64);
        let (start, count) = self.part(index);
        let (own, end) = share_of(count, steps.me, steps.size);
        steps.wait_for_all(Mark::Ready, step)?;
        let share = |rank: usize| steps.slot(rank, step).wrapping_add(own * unit);
        let result = share(steps.me);
        let source = |rank: usize| match rank == steps.me {
            true => self.operand.wrapping_add((start + own) * unit),
            false => share(rank).cast_const(),
        };
        let (datatype, op) = (self.args.datatype, self.args.op);
        let mut left = source(0);
        for rank in 1..steps.size {
            // SAFETY: every slot is ready, and its share of this rank is read here only.
            unsafe { combine_into(datatype, op, left, source(rank), result, end - own) };
            left = result;
        }
        steps.tell(Mark::Reduced, step);
        Ok(())
    }

    /// Takes every rank's share of the result.
    fn collect(&self, steps: &Steps<'_>, index: usize) -> CommResult<()> {
        let (unit, step) = (self.unit, self.first + index as u64);
        let (start, count) = self.part(index);
        for distance in 0..steps.size {
            let rank = (steps.me + distance) % steps.size;
            if rank != steps.me {
                steps.wait_for(rank, Mark::Reduced, step)?;
            }
            let (first, end) = share_of(count, rank, steps.size);
            let from = steps.slot(rank, step).wrapping_add(first * unit);
            let to = self.args.recv.wrapping_add((start + first) * unit);
            // SAFETY: the share is reduced; the result is the caller's buffer.
            unsafe { copy(from, to, (end - first) * unit) };
        }
        Ok(())
    }
}

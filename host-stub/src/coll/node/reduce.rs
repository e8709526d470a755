//! Reductions through shared memory: each rank copies its operand to its slot, and the ranks that
//! need the result combine all operands.

use super::lines::Mark;
use super::state::Steps;
use crate::coll::CollArgs;
use crate::comm::CommResult;
use crate::schedule::combine_into;

/// Copies bytes that do not overlap.
///
/// # Safety
/// Both ranges are good.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller vouches for both.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

/// Reduce and, where everyone `wants` the result, allreduce.
///
/// # Safety
/// The arguments were checked and their buffers are good.
pub(super) unsafe fn reduce(
    steps: &mut Steps<'_>,
    args: &CollArgs<'_>,
    wants: bool,
) -> CommResult<()> {
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
    if wants {
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
    }
    steps.tell(Mark::Done, step);
    Ok(())
}

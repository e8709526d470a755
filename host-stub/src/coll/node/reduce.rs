//! Reductions through shared memory: each rank copies its operand to its slot, and the ranks that
//! need the result combine all operands.

use super::lines::Mark;
use super::state::Steps;
use crate::base::combine_into;
use crate::coll::CollArgs;
use crate::comm::CommResult;

/// Copies bytes between ranges that do not overlap.
///
/// # Safety
/// Both ranges are valid.
#[inline]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller guarantees both ranges.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

/// Reduce, or allreduce if every rank `wants` the result.
///
/// # Safety
/// The arguments were checked, and their buffers are valid.
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
    // SAFETY: this rank may fill the slot; the operand belongs to the caller.
    unsafe { copy(operand, steps.slot(steps.me, step), bytes) };
    steps.tell(Mark::Ready, step);
    if wants {
        steps.wait_for_all(Mark::Ready, step)?;
        // The operands are combined in rank order, so that all ranks compute the same bits. SAFETY:
        // every slot is ready; the result buffer belongs to the caller.
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

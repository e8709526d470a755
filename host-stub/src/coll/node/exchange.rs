//! Barrier and broadcast through shared memory.

use super::lines::Mark;
use super::reduce::copy;
use super::state::Steps;
use crate::coll::CollArgs;
use crate::comm::CommResult;

/// Barrier.
pub(super) fn barrier(steps: &mut Steps<'_>) -> CommResult<()> {
    let step = steps.step();
    steps.tell(Mark::Ready, step);
    steps.wait_for_all(Mark::Ready, step)?;
    steps.tell(Mark::Done, step);
    Ok(())
}

/// Broadcast: the root fills its slot, and the other ranks read it.
///
/// # Safety
/// The arguments were checked, and their buffers are valid.
pub(super) unsafe fn bcast(steps: &mut Steps<'_>, args: &CollArgs<'_>) -> CommResult<()> {
    let (step, len) = (steps.step(), args.block());
    let slot = steps.slot(args.root, step);
    if steps.me == args.root {
        steps.wait_for_room(step)?;
        // SAFETY: this rank may fill the slot; the buffer belongs to the caller.
        unsafe { copy(args.recv, slot, len) };
        steps.tell(Mark::Ready, step);
    } else {
        steps.wait_for(args.root, Mark::Ready, step)?;
        // SAFETY: the slot is ready; the buffer belongs to the caller.
        unsafe { copy(slot, args.recv, len) };
    }
    steps.tell(Mark::Done, step);
    Ok(())
}

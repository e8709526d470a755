//! Barrier, broadcast and the gathers through shared memory.

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

/// Broadcast: the root fills its slot, piece by piece, and the others read it.
///
/// # Safety
/// The arguments were checked and their buffers are good.
pub(super) unsafe fn bcast(steps: &mut Steps<'_>, args: &CollArgs<'_>) -> CommResult<()> {
    let bytes = args.count * args.datatype.size();
    let piece = steps.class.capacity();
    for start in (0..bytes).step_by(piece) {
        let step = steps.step();
        let len = piece.min(bytes - start);
        let slot = steps.slot(args.root, step);
        let buffer = args.recv.wrapping_add(start);
        if steps.me == args.root {
            steps.wait_for_room(step)?;
            // SAFETY: the slot is this rank's to fill; the buffer is the caller's.
            unsafe { copy(buffer, slot, len) };
            steps.tell(Mark::Ready, step);
        } else {
            steps.wait_for(args.root, Mark::Ready, step)?;
            // SAFETY: the slot is ready; the buffer is the caller's.
            unsafe { copy(slot, buffer, len) };
        }
        steps.tell(Mark::Done, step);
    }
    Ok(())
}

/// Gather, to the root or to all: everyone shows its block, piece by piece.
///
/// # Safety
/// The arguments were checked and their buffers are good.
pub(super) unsafe fn gather(
    steps: &mut Steps<'_>,
    args: &CollArgs<'_>,
    root: Option<usize>,
) -> CommResult<()> {
    let block = args.count * args.datatype.size();
    let piece = steps.class.capacity();
    let (me, size) = (steps.me, steps.size);
    let wants = root.is_none_or(|root| root == me);
    let own = args.recv.wrapping_add(me * block);
    let mine = if args.send.is_null() {
        own.cast_const()
    } else {
        args.send
    };
    for start in (0..block).step_by(piece) {
        let step = steps.step();
        let len = piece.min(block - start);
        if root != Some(me) {
            steps.wait_for_room(step)?;
            // SAFETY: the slot is this rank's to fill; the block is the caller's.
            unsafe { copy(mine.wrapping_add(start), steps.slot(me, step), len) };
            steps.tell(Mark::Ready, step);
        }
        if wants {
            for distance in 1..size {
                let rank = (me + distance) % size;
                steps.wait_for(rank, Mark::Ready, step)?;
                let to = args.recv.wrapping_add(rank * block + start);
                // SAFETY: the slot is ready; the buffer is the caller's.
                unsafe { copy(steps.slot(rank, step), to, len) };
            }
        }
        steps.tell(Mark::Done, step);
    }
    if wants && !args.send.is_null() {
        // SAFETY: the caller's buffers, which do not overlap.
        unsafe { copy(mine, own, block) };
    }
    Ok(())
}

/// Scatter: the root shows a part of every block at a time.
///
/// # Safety
/// The arguments were checked and their buffers are good.
pub(super) unsafe fn scatter(steps: &mut Steps<'_>, args: &CollArgs<'_>) -> CommResult<()> {
    let block = args.count * args.datatype.size();
    let (me, size, root) = (steps.me, steps.size, args.root);
    let piece = steps.class.capacity() / size;
    for start in (0..block).step_by(piece) {
        let step = steps.step();
        let len = piece.min(block - start);
        let slot = steps.slot(root, step);
        if me == root {
            steps.wait_for_room(step)?;
            for rank in (0..size).filter(|rank| *rank != root) {
                let from = args.send.wrapping_add(rank * block + start);
                // SAFETY: the slot is this rank's to fill; the buffer is the caller's.
                unsafe { copy(from, slot.wrapping_add(rank * piece), len) };
            }
            steps.tell(Mark::Ready, step);
        } else {
            steps.wait_for(root, Mark::Ready, step)?;
            let to = args.recv.wrapping_add(start);
            // SAFETY: the slot is ready; the block is the caller's.
            unsafe { copy(slot.wrapping_add(me * piece), to, len) };
        }
        steps.tell(Mark::Done, step);
    }
    if me == root && !args.recv.is_null() {
        // SAFETY: the caller's buffers, which do not overlap.
        unsafe { copy(args.send.wrapping_add(root * block), args.recv, block) };
    }
    Ok(())
}

/// All to all: everyone shows a part of every block at a time.
///
/// # Safety
/// The arguments were checked and their buffers are good.
pub(super) unsafe fn alltoall(steps: &mut Steps<'_>, args: &CollArgs<'_>) -> CommResult<()> {
    let block = args.count * args.datatype.size();
    let (me, size) = (steps.me, steps.size);
    let piece = steps.class.capacity() / size;
    // In place a part is shown before others' take its place.
    let from = if args.send.is_null() {
        args.recv.cast_const()
    } else {
        args.send
    };
    for start in (0..block).step_by(piece) {
        let step = steps.step();
        let len = piece.min(block - start);
        steps.wait_for_room(step)?;
        let slot = steps.slot(me, step);
        for rank in (0..size).filter(|rank| *rank != me) {
            let from = from.wrapping_add(rank * block + start);
            // SAFETY: the slot is this rank's to fill; the buffer is the caller's.
            unsafe { copy(from, slot.wrapping_add(rank * piece), len) };
        }
        steps.tell(Mark::Ready, step);
        for distance in 1..size {
            let rank = (me + distance) % size;
            steps.wait_for(rank, Mark::Ready, step)?;
            let to = args.recv.wrapping_add(rank * block + start);
            // SAFETY: the slot is ready; the buffer is the caller's.
            unsafe { copy(steps.slot(rank, step).wrapping_add(me * piece), to, len) };
        }
        steps.tell(Mark::Done, step);
    }
    if !args.send.is_null() {
        let own = me * block;
        // SAFETY: the caller's buffers, which do not overlap.
        unsafe { copy(from.wrapping_add(own), args.recv.wrapping_add(own), block) };
    }
    Ok(())
}

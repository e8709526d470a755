//! Broadcast.

use super::{at, at_mut};
use crate::schedule::Plan;

/// Bytes of a segment of [`pipelined`].
const SEGMENT: usize = 128 << 10;
/// Segments that the root hands on at once.
const AHEAD: usize = 4;

/// Down a binomial tree, in ceil(log2 n) steps: Thakur, Rabenseifner, Gropp, "Optimization of
/// Collective Communication Operations in MPICH", 2005.
pub(super) fn binomial(plan: &mut Plan, buffer: *mut u8, len: usize, root: usize) {
    let (rank, size) = (plan.rank(), plan.size());
    let relative = (rank + size - root) % size;
    let mut mask = 1;
    while mask < size && relative & mask == 0 {
        mask <<= 1;
    }
    if mask < size {
        plan.receive((relative - mask + root) % size, buffer, len);
        plan.round();
    }
    // The farthest first: it has most to pass on.
    mask >>= 1;
    while mask > 0 {
        if relative + mask < size {
            plan.send((relative + mask + root) % size, buffer, len);
        }
        mask >>= 1;
    }
}

/// Along a chain in segments, each passed on while the next arrives: every byte crosses every link
/// once, and the time is that of the data plus n - 2 segments. (Pipelined trees: Watts, van de
/// Geijn, "A Pipelined Broadcast for Multidimensional Meshes", 1995.)
pub(super) fn pipelined(plan: &mut Plan, buffer: *mut u8, len: usize, root: usize) {
    let (rank, size) = (plan.rank(), plan.size());
    let relative = (rank + size - root) % size;
    let before = (rank + size - 1) % size;
    let next = (relative + 1 < size).then_some((rank + 1) % size);
    let segments = len.div_ceil(SEGMENT);
    let part = |index: usize| {
        let start = index * SEGMENT;
        (start, SEGMENT.min(len - start))
    };
    for index in 0..segments {
        let (start, bytes) = part(index);
        if relative == 0 {
            if let Some(next) = next {
                plan.send(next, at(buffer, start), bytes);
            }
            if index % AHEAD == AHEAD - 1 {
                plan.round();
            }
            continue;
        }
        plan.receive(before, at_mut(buffer, start), bytes);
        if let (Some(next), Some(last)) = (next, index.checked_sub(1)) {
            let (start, bytes) = part(last);
            plan.send(next, at(buffer, start), bytes);
        }
        plan.round();
    }
    if let (true, Some(next), Some(last)) = (relative > 0, next, segments.checked_sub(1)) {
        let (start, bytes) = part(last);
        plan.send(next, at(buffer, start), bytes);
    }
}

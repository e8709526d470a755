//! What a window takes by the number of its ranks, for models of large jobs. From the code that sends and stores.

use plugin_api::Handle;

use super::control::ControlPlan;
use super::peer::{self, Peer};
use super::slots::SLOTS;
use super::{intent, share};

/// What a rank sends in the first round of a creation.
pub const INTENT: usize = intent::WORDS * size_of::<u64>();
/// What the first rank of a node sends of the node's segment.
pub const CARD: usize = share::CARD_WORDS * size_of::<u64>();

/// What a rank sends in the last round, with handles of this size.
pub const fn offer(handle: usize) -> usize {
    peer::HEADER + 2 * handle
}

/// Bytes of a rank's control block in a window of so many ranks.
pub fn control(ranks: usize) -> usize {
    ControlPlan::new(ranks, 0, SLOTS).bytes()
}

/// What a rank keeps of each rank, its two handles of this size included, without the allocator's headers.
pub const fn peer(handle: usize) -> usize {
    size_of::<Peer>() + 2 * handle
}

const _: () = assert!(align_of::<Handle>() <= 8);

//! What collectives send and keep by the number of ranks, for models of large jobs. From the code that sends and stores.

use crate::coll::node;
use crate::mailbox::{self, Layout};
pub use crate::schedule::{FETCHED, OFFER_WORDS};

/// The rings of a job's mailboxes.
#[derive(Clone, Copy, Debug)]
pub struct Rings {
    /// Bytes of a rank's region.
    pub bytes: usize,
    /// Messages that a ring holds. After each half of them the receiver says by a put of one byte what it took.
    pub slots: usize,
    /// Payload bytes of the longest message; what is longer is offered, and the receiver gets it.
    pub capacity: usize,
    /// What a rank knows of each other rank, without the allocator's headers.
    pub peer: usize,
}

impl Rings {
    /// Those of a job of so many ranks, over a transport without a limit of puts that matters, with handles of this size.
    pub fn of(ranks: usize, handle: usize) -> Rings {
        let layout = Layout::new(ranks, usize::MAX);
        Rings {
            bytes: layout.bytes(),
            slots: layout.slots,
            capacity: layout.capacity(),
            peer: mailbox::peer(&layout) + handle,
        }
    }
}

/// Bytes of the put that carries a payload.
pub const fn message(payload: usize) -> usize {
    mailbox::message(payload)
}

/// Bytes of the segments that ranks of a node share for their collectives, once long payloads were sent.
pub fn node_segments(ranks: usize) -> usize {
    node::bytes(ranks)
}

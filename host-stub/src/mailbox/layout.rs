//! The positions of the parts of a rank's region. The layout is the same on every rank of a job.

use super::header::Header;
use super::packing::GROUP;

/// The maximum size of a rank's region, in bytes. The region is larger only if the smallest rings
/// need more.
const BUDGET: usize = 8 << 20;
const SLOTS: [usize; 2] = [8, 4];
const SLOT_BYTES: [usize; 2] = [1024, 512];

/// The plan of the regions of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    ranks: usize,
    /// The number of slots of a ring; at most 128, so that a byte can count them.
    pub(crate) slots: usize,
    /// The size of a slot in bytes, a multiple of 8.
    pub(super) slot_bytes: usize,
}

impl Layout {
    /// The layout for `ranks` ranks, over a transport whose puts take at most `put_limit` bytes.
    pub(crate) fn new(ranks: usize, put_limit: usize) -> Layout {
        let most = put_limit / 8 * 8;
        let sizes = SLOTS
            .into_iter()
            .flat_map(|slots| SLOT_BYTES.map(|bytes| (slots, bytes)));
        let mut layout = Layout {
            ranks,
            slots: SLOTS[1],
            slot_bytes: SLOT_BYTES[1].min(most),
        };
        for (slots, bytes) in sizes {
            let candidate = Layout {
                ranks,
                slots,
                slot_bytes: bytes.min(most),
            };
            if candidate.bytes() <= BUDGET {
                layout = candidate;
                break;
            }
        }
        layout
    }

    /// The payload bytes of a message.
    pub(crate) fn capacity(&self) -> usize {
        ((self.slot_bytes / 8).saturating_sub(1) * GROUP).min(Header::MAX_LEN)
    }

    /// The offset, in words, of a slot of the ring that `from` writes.
    pub(super) fn inbox(&self, from: usize, slot: usize) -> usize {
        (from * self.slots + slot) * (self.slot_bytes / 8)
    }

    /// The offset, in words, of the slot in which a message to `to` is assembled.
    pub(super) fn staging(&self, to: usize, slot: usize) -> usize {
        self.inbox(self.ranks + to, slot)
    }

    /// The offset of the word in whose first byte `by` reports how many messages it has taken.
    pub(super) fn credit(&self, by: usize) -> usize {
        self.inbox(2 * self.ranks, 0) + by
    }

    /// The offset of the word from which this rank reports to `to` how many messages it has taken.
    pub(super) fn given(&self, to: usize) -> usize {
        self.credit(self.ranks) + to
    }

    /// The offset of the word in which this rank reports to `to` that it has given up; looks of
    /// `to` read the word.
    pub(super) fn given_up(&self, to: usize) -> usize {
        self.given(self.ranks) + to
    }

    /// The offset of the word that receives the result of a look at `to`.
    pub(super) fn seen(&self, to: usize) -> usize {
        self.given_up(self.ranks) + to
    }

    pub(crate) fn bytes(&self) -> usize {
        self.seen(self.ranks) * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        let layout = Layout::new(5, usize::MAX);
        assert_eq!((layout.slots, layout.slot_bytes), (8, 1024));
        let slot = layout.slot_bytes / 8;
        assert_eq!(layout.inbox(0, 0), 0);
        assert!(layout.inbox(4, 7) + slot <= layout.staging(0, 0));
        assert!(layout.staging(4, 7) + slot <= layout.credit(0));
        assert!(layout.credit(4) < layout.given(0));
        assert!(layout.given(4) < layout.given_up(0));
        assert!(layout.given_up(4) < layout.seen(0));
        assert_eq!(layout.seen(5) * 8, layout.bytes());
    }

    #[test]
    fn many_ranks_get_smaller_rings() {
        let few = Layout::new(4, usize::MAX);
        let many = Layout::new(2000, usize::MAX);
        assert!(many.slots < few.slots && many.slot_bytes < few.slot_bytes);
    }

    #[test]
    fn slots_keep_to_the_put_limit() {
        let layout = Layout::new(4, 203);
        assert_eq!(layout.slot_bytes, 200);
        assert_eq!(layout.capacity(), 24 * 7);
    }
}

//! The places of the ranks' blocks in a buffer.

use super::plan::Plan;

/// The location of a block, in bytes from the beginning of its buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

impl Extent {
    /// The offset of the first byte behind the block.
    pub(crate) fn end(self) -> usize {
        self.offset + self.len
    }
}

/// The blocks of a buffer, one of each rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extents {
    /// The blocks follow one another in the order of the ranks, each with this many bytes.
    Even(usize),
    /// The blocks lie anywhere and have any lengths.
    Listed(Vec<Extent>),
}

impl Extents {
    /// The block of a rank.
    pub(crate) fn of(&self, rank: usize) -> Extent {
        match self {
            Extents::Even(len) => Extent {
                offset: rank * len,
                len: *len,
            },
            Extents::Listed(blocks) => blocks.get(rank).copied().unwrap_or_default(),
        }
    }

    /// The total bytes of the blocks of `count` ranks, starting at rank `first`; rank 0 follows the
    /// last of `size` ranks.
    pub(crate) fn bytes(&self, first: usize, count: usize, size: usize) -> usize {
        match self {
            Extents::Even(len) => count * len,
            Extents::Listed(_) => (first..first + count)
                .map(|rank| self.of(rank % size).len)
                .sum(),
        }
    }

    /// The same blocks, packed in the order of `size` ranks.
    pub(crate) fn packed(&self, size: usize) -> Extents {
        match self {
            Extents::Even(len) => Extents::Even(*len),
            Extents::Listed(_) => {
                let mut offset = 0;
                let packed = (0..size).map(|rank| {
                    let len = self.of(rank).len;
                    let block = Extent { offset, len };
                    offset = block.end();
                    block
                });
                Extents::Listed(packed.collect())
            }
        }
    }

    /// Checks that no two receive blocks overlap; an error names two that do.
    pub(crate) fn apart(&self) -> Result<(), String> {
        let Extents::Listed(blocks) = self else {
            return Ok(());
        };
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.retain(|index| blocks[*index].len > 0);
        order.sort_by_key(|index| blocks[*index].offset);
        for pair in order.windows(2) {
            let (first, second) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
            if blocks[pair[0]].end() > blocks[pair[1]].offset {
                let bytes = |index: usize| (blocks[index].offset, blocks[index].end());
                let ((a, b), (c, d)) = (bytes(first), bytes(second));
                return Err(format!(
                    "the receive blocks {first} (bytes {a} to {b}) and {second} (bytes {c} to {d}) overlap"
                ));
            }
        }
        Ok(())
    }

    /// Calls `each` for the blocks of all `size` ranks, with the block's place in a packed buffer.
    /// The order starts at rank `first`; rank 0 follows the last rank. Adjacent blocks are merged.
    fn runs(&self, first: usize, size: usize, mut each: impl FnMut(usize, Extent)) {
        let mut run = Extent::default();
        let mut packed = 0;
        for rank in (first..first + size).map(|rank| rank % size) {
            let block = self.of(rank);
            if block.len == 0 {
                continue;
            }
            if run.end() == block.offset {
                run.len += block.len;
            } else {
                each(packed - run.len, run);
                run = block;
            }
            packed += block.len;
        }
        each(packed - run.len, run);
    }

    /// Copies the blocks of `size` ranks to `packed`, in the order of the ranks.
    pub(crate) fn pack(&self, plan: &mut Plan, size: usize, from: *const u8, packed: *mut u8) {
        self.runs(0, size, |place, block| {
            let from = from.wrapping_add(block.offset);
            plan.copy(from, packed.wrapping_add(place), block.len);
        });
    }

    /// Copies the blocks of `size` ranks from `packed`, which begins with the block of `first`.
    pub(crate) fn unpack(
        &self,
        plan: &mut Plan,
        packed: *const u8,
        (first, size): (usize, usize),
        into: *mut u8,
    ) {
        self.runs(first, size, |place, block| {
            let into = into.wrapping_add(block.offset);
            plan.copy(packed.wrapping_add(place), into, block.len);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(blocks: &[(usize, usize)]) -> Extents {
        let blocks = blocks.iter();
        Extents::Listed(
            blocks
                .map(|&(offset, len)| Extent { offset, len })
                .collect(),
        )
    }

    fn runs(blocks: &Extents, first: usize) -> Vec<(usize, usize, usize)> {
        let mut runs = Vec::new();
        blocks.runs(first, 3, |place, block| {
            if block.len > 0 {
                runs.push((place, block.offset, block.len));
            }
        });
        runs
    }

    #[test]
    fn neighbours_are_copied_at_once() {
        assert_eq!(runs(&Extents::Even(4), 0), [(0, 0, 12)]);
        assert_eq!(runs(&Extents::Even(4), 1), [(0, 4, 8), (8, 0, 4)]);
        // The second block lies before the first, the third directly behind the first.
        let blocks = listed(&[(10, 2), (3, 5), (12, 1)]);
        assert_eq!(runs(&blocks, 0), [(0, 10, 2), (2, 3, 5), (7, 12, 1)]);
        assert_eq!(runs(&blocks, 2), [(0, 12, 1), (1, 10, 2), (3, 3, 5)]);
        // An empty block between two adjacent blocks does not separate them.
        let blocks = listed(&[(10, 2), (0, 0), (12, 1)]);
        assert_eq!(runs(&blocks, 0), [(0, 10, 3)]);
    }

    #[test]
    fn packed_blocks_follow_each_other() {
        let blocks = listed(&[(10, 2), (3, 5), (12, 1)]);
        assert_eq!(blocks.packed(3), listed(&[(0, 2), (2, 5), (7, 1)]));
        assert_eq!(blocks.bytes(1, 3, 3), 8);
        assert_eq!(blocks.bytes(2, 2, 3), 3);
    }
}

//! The lists of blocks that are arguments of the v forms of collectives.

use plugin_api::Datatype;

use crate::schedule::{Extent, Extents};

/// The positions of the blocks in a buffer, one for each rank, for the v forms. The list is empty
/// for the other collectives, whose blocks are contiguous and of one size.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockList<'a> {
    /// Number of elements of each block.
    pub counts: &'a [usize],
    /// Start of each block, in elements from the beginning of the buffer.
    pub displacements: &'a [usize],
}

impl BlockList<'_> {
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.displacements.is_empty()
    }

    /// The positions of the blocks. The list was checked.
    pub(super) fn extents(&self, datatype: Datatype) -> Extents {
        let size = datatype.size();
        let blocks = self.counts.iter().zip(self.displacements);
        let blocks = blocks.map(|(count, displacement)| Extent {
            offset: displacement * size,
            len: count * size,
        });
        Extents::Listed(blocks.collect())
    }

    /// Returns the error in a list of `size` blocks. Blocks that are `written` must not overlap.
    pub(super) fn check(
        &self,
        (which, written): (&str, bool),
        datatype: Datatype,
        size: usize,
    ) -> Result<(), String> {
        let lists = [
            ("counts", self.counts.len()),
            ("displacements", self.displacements.len()),
        ];
        for (name, found) in lists {
            if found != size {
                return Err(format!("{found} {which} {name} for {size} blocks"));
            }
        }
        for rank in 0..size {
            let (count, displacement) = (self.counts[rank], self.displacements[rank]);
            let end = displacement
                .checked_mul(datatype.size())
                .and_then(|offset| {
                    let len = count.checked_mul(datatype.size())?;
                    isize::try_from(offset.checked_add(len)?).ok()
                });
            if end.is_none() {
                return Err(format!(
                    "{which} block {rank}, of {count} elements at displacement {displacement}, would \
                     end behind all memory; is one of them a negative number?"
                ));
            }
        }
        match written {
            true => self.extents(datatype).apart(),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(counts: &[usize], displacements: &[usize], written: bool) -> Result<(), String> {
        let list = BlockList {
            counts,
            displacements,
        };
        list.check(("receive", written), Datatype::Int32, 2)
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(checked(&[3, 2], &[2, 0], true), Ok(()));
        let said = |outcome: Result<(), String>| outcome.unwrap_err();
        let overlap = said(checked(&[3, 2], &[1, 0], true));
        assert!(
            overlap.contains("0 (bytes 4 to 16) and 1 (bytes 0 to 8)"),
            "{overlap}"
        );
        // Blocks that are only read may overlap, and empty blocks occupy no memory.
        assert_eq!(checked(&[3, 2], &[1, 0], false), Ok(()));
        assert_eq!(checked(&[3, 0], &[0, 1], true), Ok(()));
        let negative = said(checked(&[3, (-1_isize) as usize], &[0, 3], true));
        assert!(
            negative.contains("block 1, of 18446744073709551615"),
            "{negative}"
        );
        let negative = said(checked(&[3, 1], &[(-4_isize) as usize, 3], true));
        assert!(negative.contains("block 0"), "{negative}");
        let short = said(checked(&[3], &[0, 3], true));
        assert_eq!(short, "1 receive counts for 2 blocks");
    }
}

//! The lists of blocks that v and w forms of collectives are called with.

use crate::base::ElementType;
use crate::schedule::{Extent, Extents};

/// Where the blocks of a buffer lie, one of each rank, as the v and w forms are told. Empty for the
/// other collectives, whose blocks are all of one size and lie one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockList<'a> {
    /// Elements of each block.
    pub counts: &'a [usize],
    /// Where each begins: so many elements from the beginning of the buffer, or bytes where there
    /// are `types`.
    pub displacements: &'a [usize],
    /// The type of each block in an alltoallw; none: that of the call.
    pub types: &'a [ElementType],
}

impl BlockList<'_> {
    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.displacements.is_empty() && self.types.is_empty()
    }

    /// Where the blocks lie; of a list that was checked.
    pub(super) fn extents(&self, datatype: ElementType) -> Extents {
        let blocks = self.counts.iter().zip(self.displacements).enumerate();
        let blocks = blocks.map(|(rank, (count, displacement))| {
            let (size, unit) = match self.types.get(rank) {
                Some(datatype) => (datatype.size(), 1),
                None => (datatype.size(), datatype.size()),
            };
            Extent {
                offset: displacement * unit,
                len: count * size,
            }
        });
        Extents::Listed(blocks.collect())
    }

    /// Says what is wrong with a list of `size` blocks. Blocks that are `written` must not overlap.
    pub(super) fn check(
        &self,
        (which, written): (&str, bool),
        datatype: ElementType,
        (size, typed): (usize, bool),
    ) -> Result<(), String> {
        let lists = [
            ("counts", self.counts.len(), true),
            ("displacements", self.displacements.len(), true),
            ("types", self.types.len(), typed),
        ];
        for (name, found, wanted) in lists {
            if found != if wanted { size } else { 0 } {
                let wanted = if wanted {
                    ""
                } else {
                    " of a call with one type"
                };
                return Err(format!("{found} {which} {name} for {size} blocks{wanted}"));
            }
        }
        for rank in 0..size {
            let (count, displacement) = (self.counts[rank], self.displacements[rank]);
            let bytes = self.types.get(rank).unwrap_or(&datatype).size();
            let unit = if typed { 1 } else { bytes };
            let end = displacement.checked_mul(unit).and_then(|offset| {
                let len = count.checked_mul(bytes)?;
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
    use plugin_api::Datatype;

    use super::*;

    fn checked(counts: &[usize], displacements: &[usize], written: bool) -> Result<(), String> {
        let list = BlockList {
            counts,
            displacements,
            types: &[],
        };
        list.check(("receive", written), Datatype::Int32.into(), (2, false))
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
        // Blocks that are only read may, and empty ones lie nowhere.
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

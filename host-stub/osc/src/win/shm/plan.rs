//! The layout of a segment: header, the control blocks of the ranks, and each rank's memory.

use crate::base::SEGMENT_HEADER;
use crate::win::control::{ControlPlan, Word};

/// One rank's memory in a segment, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::win) struct Part {
    pub(in crate::win) offset: usize,
    pub(in crate::win) len: usize,
}

/// The layout of a segment; every rank computes the same layout from the lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::win) struct Plan {
    /// The layout of each control block. Blocks have whole cache lines.
    pub(in crate::win) control: ControlPlan,
    pub(in crate::win) parts: Vec<Part>,
    pub(in crate::win) bytes: usize,
}

impl Plan {
    /// Plans the segment for ranks with parts of the given lengths. `contiguous` parts follow each
    /// other without gaps; other parts begin on page boundaries. `None` if the parts exceed the
    /// address space.
    pub(in crate::win) fn new(lengths: &[usize], contiguous: bool, page: usize) -> Option<Plan> {
        let ranks = lengths.len();
        let control = ControlPlan::new(ranks, 0, 0);
        let words = control.words().checked_mul(ranks)? + SEGMENT_HEADER / 8;
        let mut end = words.checked_mul(8)?.checked_next_multiple_of(page)?;
        let mut parts = Vec::with_capacity(ranks);
        for len in lengths {
            if !contiguous {
                end = end.checked_next_multiple_of(page)?;
            }
            parts.push(Part {
                offset: end,
                len: *len,
            });
            end = end.checked_add(*len)?;
        }
        // At least one byte of data, so that the segment contains an address for it.
        let bytes = end.checked_add(1)?.checked_next_multiple_of(page)?;
        Some(Plan {
            control,
            parts,
            bytes,
        })
    }

    /// Bytes before the first rank's memory.
    pub(in crate::win) fn control_bytes(&self) -> usize {
        self.parts.first().map_or(0, |part| part.offset)
    }

    /// The place of a word of a rank's control block.
    pub(super) fn word(&self, rank: usize, word: Word) -> usize {
        SEGMENT_HEADER / 8 + rank * self.control.words() + word.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::win::control::LOCK;

    #[test]
    fn nothing_overlaps() {
        for lengths in [vec![0], vec![10, 0, 4097, 8], vec![1; 70]] {
            for contiguous in [false, true] {
                let plan = Plan::new(&lengths, contiguous, 4096).unwrap();
                let ranks = lengths.len();
                assert_eq!(plan.word(0, LOCK), SEGMENT_HEADER / 8);
                assert_eq!(plan.control.words() % (SEGMENT_HEADER / 8), 0);
                for rank in 0..ranks {
                    let last = plan.word(rank, plan.control.post_of(ranks - 1));
                    assert!(last < plan.word(rank + 1, LOCK));
                    assert!(last * 8 + 8 <= plan.control_bytes());
                }
                for (index, part) in plan.parts.iter().enumerate() {
                    assert_eq!(part.len, lengths[index]);
                    assert!(part.offset + part.len < plan.bytes);
                    if let Some(next) = plan.parts.get(index + 1) {
                        if contiguous {
                            assert_eq!(part.offset + part.len, next.offset);
                        } else {
                            assert!(part.offset + part.len <= next.offset);
                            assert_eq!(next.offset % 4096, 0);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn too_much_is_no_plan() {
        assert_eq!(Plan::new(&[usize::MAX], true, 4096), None);
        assert_eq!(
            Plan::new(&[usize::MAX / 2, usize::MAX / 2 + 9], false, 4096),
            None
        );
    }
}

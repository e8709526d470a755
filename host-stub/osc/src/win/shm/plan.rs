//! The layout of a segment: header, words of synchronisation, and each rank's memory.

use crate::base::SEGMENT_HEADER;
use crate::win::control::SAID_WORDS;

/// Words of a cache line, so that words with different users do not share one.
const LINE: usize = 8;
/// The first line of a rank's statements to the others.
const SAID: usize = 4;
/// Lines of one rank's synchronisation words.
const LINES: usize = SAID + 2 * SAID_WORDS / LINE;
/// Lines that all ranks use.
const COMMON: usize = 2;

/// One rank's memory in a segment, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::win) struct Part {
    pub(in crate::win) offset: usize,
    pub(in crate::win) len: usize,
}

/// The layout of a segment; every rank computes the same layout from the lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::win) struct Plan {
    ranks: usize,
    pub(in crate::win) parts: Vec<Part>,
    pub(in crate::win) bytes: usize,
}

impl Plan {
    /// Plans the segment for ranks with parts of the given lengths. `contiguous` parts follow each
    /// other without gaps; other parts begin on page boundaries. `None` if the parts exceed the
    /// address space.
    pub(in crate::win) fn new(lengths: &[usize], contiguous: bool, page: usize) -> Option<Plan> {
        let ranks = lengths.len();
        let lines = COMMON + ranks * LINES;
        let words = SEGMENT_HEADER / 8 + lines * LINE + ranks.checked_mul(ranks)?;
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
            ranks,
            parts,
            bytes,
        })
    }

    /// Bytes before the first rank's memory.
    pub(in crate::win) fn control_bytes(&self) -> usize {
        self.parts.first().map_or(0, |part| part.offset)
    }

    /// The total number of ranks that have entered barriers.
    pub(super) fn barrier(&self) -> usize {
        SEGMENT_HEADER / 8
    }

    /// Locks of all ranks' memory ([`crate::win::lock_words`]).
    pub(super) fn lock_of_all(&self) -> usize {
        SEGMENT_HEADER / 8 + LINE
    }

    fn line(&self, rank: usize, line: usize) -> usize {
        SEGMENT_HEADER / 8 + (COMMON + rank * LINES + line) * LINE
    }

    /// Locks of a rank's memory.
    pub(super) fn lock(&self, rank: usize) -> usize {
        self.line(rank, 0)
    }

    /// The lock for updates of a rank's memory that the processor's atomics do not serve.
    pub(super) fn update_lock(&self, rank: usize) -> usize {
        self.line(rank, 1)
    }

    /// The number of completed access epochs to a rank.
    pub(super) fn completed(&self, rank: usize) -> usize {
        self.line(rank, 2)
    }

    /// A counter of puts with notification.
    pub(in crate::win) fn notified(&self, rank: usize, counter: usize) -> usize {
        self.line(rank, 3) + counter % LINE
    }

    /// A word of a rank's statement at a turn.
    pub(in crate::win) fn said(&self, rank: usize, turn: u64, index: usize) -> usize {
        self.line(rank, SAID) + (turn % 2) as usize * SAID_WORDS + index % SAID_WORDS
    }

    /// The number of exposure epochs that `target` posted to `origin`.
    pub(super) fn posts(&self, origin: usize, target: usize) -> usize {
        self.line(self.ranks, 0) + origin * self.ranks + target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps() {
        for lengths in [vec![0], vec![10, 0, 4097, 8], vec![1; 70]] {
            for contiguous in [false, true] {
                let plan = Plan::new(&lengths, contiguous, 4096).unwrap();
                let ranks = lengths.len();
                let mut words = vec![plan.barrier(), plan.lock_of_all()];
                for rank in 0..ranks {
                    words.extend([
                        plan.lock(rank),
                        plan.update_lock(rank),
                        plan.completed(rank),
                        plan.notified(rank, 0),
                        plan.said(rank, 0, 0),
                        plan.said(rank, 1, 0),
                        plan.said(rank, 3, SAID_WORDS - LINE),
                    ]);
                }
                assert!(words.windows(2).all(|pair| pair[0] + LINE <= pair[1]));
                for origin in 0..ranks {
                    words.extend((0..ranks).map(|target| plan.posts(origin, target)));
                }
                assert!(words.is_sorted() && words[0] * 8 >= SEGMENT_HEADER);
                let last = words[words.len() - 1] * 8 + 8;
                assert!(last <= plan.control_bytes());
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

//! The runs of a command to the target ([`super::apply`]).

use std::mem::MaybeUninit;

use plugin_api::{APPLY_HEAD, APPLY_RUN, ApplyRun};

use crate::win::layout::Segment;
use crate::win::pieces::Cursor;

/// Maximum runs of a command.
const RUNS: usize = 256;

/// The runs of one command.
pub(super) struct Runs {
    all: [MaybeUninit<ApplyRun>; RUNS],
    count: usize,
    /// Bytes of the elements of all runs.
    bytes: usize,
    /// Maximum bytes of the command.
    most: usize,
}

impl Runs {
    /// The runs of a command of at most `most` bytes.
    pub(super) const fn new(most: usize) -> Runs {
        Runs {
            all: [const { MaybeUninit::uninit() }; RUNS],
            count: 0,
            bytes: 0,
            most,
        }
    }

    /// Takes the next runs of a layout for a command of at most `most` bytes: whole elements, each of which may lie in several
    /// runs.
    pub(super) fn take(cursor: &mut Cursor<'_>, size: usize, most: usize) -> Runs {
        let start = *cursor;
        let mut runs = Runs::new(most);
        runs.fill(cursor, size, usize::MAX);
        let excess = runs.bytes % size;
        if excess > 0 {
            // The last element does not fit whole, so it goes with the next command.
            let whole = runs.bytes - excess;
            (*cursor, runs.count, runs.bytes) = (start, 0, 0);
            runs.fill(cursor, size, whole);
        }
        runs
    }

    /// Adds the next runs of a layout, up to `bytes` bytes, as long as there is room.
    fn fill(&mut self, cursor: &mut Cursor<'_>, size: usize, bytes: usize) {
        let limit = |runs: &Runs| (runs.room() / size * size).min(bytes - runs.bytes);
        while let Some(segment) = cursor.take(limit(self)) {
            self.push(segment);
        }
    }

    /// Bytes that one more run can have.
    #[inline]
    pub(super) fn room(&self) -> usize {
        let used = APPLY_HEAD + (self.count + 1) * APPLY_RUN + self.bytes;
        match self.count < RUNS {
            true => self.most.saturating_sub(used),
            false => 0,
        }
    }

    /// Bytes of all elements.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn clear(&mut self) {
        (self.count, self.bytes) = (0, 0);
    }

    /// The runs.
    pub(super) fn all(&self) -> &[ApplyRun] {
        // SAFETY: the first `count` runs were written.
        unsafe { std::slice::from_raw_parts(self.all.as_ptr().cast(), self.count) }
    }

    /// Adds elements, for which there is room. Contiguous elements, and elements at equal distances,
    /// become one run.
    pub(super) fn push(&mut self, Segment { offset, len }: Segment) {
        self.bytes += len;
        let (offset, length) = (offset as u64, len as u64);
        if let Some(last) = self.newest()
            && let Some(stride) = offset.checked_sub(last.offset)
        {
            if last.count == 1 && stride == last.length {
                last.length += length;
                return;
            }
            if last.length == length && last.count == 1 {
                (last.stride, last.count) = (stride, 2);
                return;
            }
            if last.length == length && stride == last.count * last.stride {
                last.count += 1;
                return;
            }
        }
        self.all[self.count].write(ApplyRun {
            offset,
            length,
            stride: 0,
            count: 1,
        });
        self.count += 1;
    }

    fn newest(&mut self) -> Option<&mut ApplyRun> {
        let last = self.count.checked_sub(1)?;
        // SAFETY: the first `count` runs were written.
        Some(unsafe { self.all[last].assume_init_mut() })
    }
}

#[cfg(test)]
mod tests {
    use plugin_api::{Datatype, MOST_APPLIED};

    use super::*;
    use crate::win::layout::{Block, Layout};

    const I16: Datatype = Datatype::Int16;

    fn runs(layout: &Layout) -> Vec<Vec<(u64, u64, u64, u64)>> {
        runs_of(layout, 2)
    }

    /// The runs of each command, of elements of this size.
    fn runs_of(layout: &Layout, size: usize) -> Vec<Vec<(u64, u64, u64, u64)>> {
        let mut cursor = Cursor::new(layout);
        let mut all = Vec::new();
        loop {
            let runs = Runs::take(&mut cursor, size, MOST_APPLIED);
            if runs.bytes == 0 {
                return all;
            }
            let written = runs.all().iter();
            all.push(
                written
                    .map(|run| (run.offset, run.length, run.stride, run.count))
                    .collect(),
            );
        }
    }

    #[test]
    fn equal_distances_are_one_run() {
        let one = Layout::contiguous(I16, 5);
        assert_eq!(runs(&one), [[(0, 10, 0, 1)]]);
        let strided = Layout::strided(I16, 512, 1, 3).unwrap();
        assert_eq!(runs(&strided), [[(0, 2, 6, 512)]]);
        let at = |displacement, length| Block {
            displacement,
            length,
        };
        let blocks = [at(1, 1), at(4, 1), at(7, 1), at(9, 1), at(11, 2), at(5, 1)];
        let indexed = Layout::indexed(I16, &blocks).unwrap();
        assert_eq!(
            runs(&indexed),
            [[(2, 2, 6, 3), (18, 2, 0, 1), (22, 4, 0, 1), (10, 2, 0, 1)]]
        );
    }

    /// A run of several blocks is not extended: elements after its last block are a run of their own.
    #[test]
    fn what_lies_in_a_row_is_one_run() {
        let of = |segments: &[(usize, usize)]| {
            let mut runs = Runs::new(MOST_APPLIED);
            for (offset, len) in segments {
                runs.push(Segment {
                    offset: *offset,
                    len: *len,
                });
            }
            let runs = runs.all().iter();
            let parts = runs.map(|run| (run.offset, run.length, run.stride, run.count));
            parts.collect::<Vec<_>>()
        };
        assert_eq!(of(&[(8, 8), (16, 8), (24, 4)]), [(8, 20, 0, 1)]);
        assert_eq!(
            of(&[(0, 8), (16, 8), (24, 8)]),
            [(0, 8, 16, 2), (24, 8, 0, 1)]
        );
        assert_eq!(of(&[(8, 8), (0, 8)]), [(8, 8, 0, 1), (0, 8, 0, 1)]);
        assert_eq!(of(&[(8, 8), (8, 8)]), [(8, 8, 0, 2)]);
    }

    /// Elements with gaps, adjacent or not, need few runs, and no command ends inside an element.
    #[test]
    fn elements_in_parts_stay_whole() {
        let of = |places: &[usize]| {
            let parts = places.iter().flat_map(|at| [(*at, 2), (at + 4, 4)]);
            let blocks: Vec<Block> = parts
                .map(|(displacement, length)| Block {
                    displacement,
                    length,
                })
                .collect();
            let layout = Layout::indexed(Datatype::Uint8, &blocks).unwrap();
            (runs_of(&layout, 6), layout)
        };
        let in_a_row: Vec<usize> = (0..10).map(|i| 8 * i).collect();
        let expected = [[(0, 2, 0, 1), (4, 6, 8, 9), (76, 4, 0, 1)]];
        assert_eq!(of(&in_a_row).0, expected);
        let large: Vec<usize> = (0..5000).map(|i| 8 * i).collect();
        let apart: Vec<usize> = (0..5000).map(|i| 8 * i + 24 * (i * i % 7)).collect();
        let far: Vec<usize> = (0..700).map(|i| 8 * i * i).collect();
        for places in [large, apart, far] {
            let (commands, layout) = of(&places);
            let mut cursor = Cursor::new(&layout);
            assert!(commands.len() > 2);
            for runs in commands {
                let bytes: u64 = runs.iter().map(|run| run.1 * run.3).sum();
                assert!(bytes.is_multiple_of(6) && bytes > 0, "{bytes}");
                let used = APPLY_HEAD + runs.len() * APPLY_RUN + bytes as usize;
                assert!(used <= MOST_APPLIED && runs.len() <= RUNS, "{used}");
                let blocks = runs.iter().flat_map(|(offset, length, stride, count)| {
                    (0..*count).map(move |i| (offset + i * stride, *length))
                });
                for (mut offset, mut length) in blocks {
                    while length > 0 {
                        let next = cursor.take(length as usize).expect("no byte is left out");
                        assert_eq!(next.offset as u64, offset);
                        (offset, length) = (offset + next.len as u64, length - next.len as u64);
                    }
                }
            }
            assert!(cursor.take(1).is_none());
        }
    }

    /// Whole elements, as many as there is room for.
    #[test]
    fn what_is_larger_goes_in_several_commands() {
        let room = MOST_APPLIED - APPLY_HEAD - APPLY_RUN;
        let large = Layout::contiguous(I16, MOST_APPLIED);
        let (first, rest) = (room as u64, (2 * MOST_APPLIED - 2 * room) as u64);
        let expected = [
            [(0, first, 0, 1)],
            [(first, first, 0, 1)],
            [(2 * first, rest, 0, 1)],
        ];
        assert_eq!(runs(&large), expected);
        let blocks: Vec<Block> = (0..700)
            .map(|i| Block {
                displacement: i * i,
                length: 1 + i % 2,
            })
            .filter(|block| block.displacement > 1)
            .collect();
        let counts: Vec<usize> = runs(&Layout::indexed(I16, &blocks).unwrap())
            .iter()
            .map(Vec::len)
            .collect();
        assert_eq!(counts, [RUNS, RUNS, 698 - 2 * RUNS]);
    }
}

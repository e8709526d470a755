//! Walks all layouts of an operation together, in pieces that are contiguous on every side.

use super::layout::{Layout, Segment, Shape};

/// The walk over one layout.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    layout: &'a Layout,
    /// Bytes not yet taken.
    left: usize,
    /// Index of the current run.
    index: usize,
    /// Bytes taken of the current run.
    taken: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(layout: &'a Layout) -> Self {
        Cursor {
            layout,
            left: layout.bytes(),
            index: 0,
            taken: 0,
        }
    }

    /// The rest of the current run; empty at the end.
    fn run(&self) -> Segment {
        let segment = match self.layout.shape() {
            _ if self.left == 0 => Segment { offset: 0, len: 0 },
            Shape::Contiguous => Segment {
                offset: 0,
                len: self.layout.bytes(),
            },
            Shape::Strided { run, stride } => Segment {
                offset: self.index * stride,
                len: *run,
            },
            Shape::Indexed(segments) => segments
                .get(self.index)
                .copied()
                .unwrap_or(Segment { offset: 0, len: 0 }),
        };
        Segment {
            offset: segment.offset + self.taken.min(segment.len),
            len: segment.len - self.taken.min(segment.len),
        }
    }

    fn advance(&mut self, run: Segment, len: usize) {
        self.left = self.left.saturating_sub(len);
        if len == run.len {
            self.index += 1;
            self.taken = 0;
        } else {
            self.taken += len;
        }
    }

    pub(super) fn take(&mut self, limit: usize) -> Option<Segment> {
        let run = self.run();
        let len = run.len.min(limit);
        if len == 0 {
            return None;
        }
        self.advance(run, len);
        Some(Segment {
            offset: run.offset,
            len,
        })
    }
}

/// A part of an operation that is contiguous on every side, in bytes from each buffer's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// In the origin's buffer.
    pub origin: usize,
    /// In the result buffer of a fetching call; equal to `origin` if the call has none.
    pub result: usize,
    /// From the target's displacement.
    pub target: usize,
    /// Bytes.
    pub len: usize,
}

/// The pieces of an operation between layouts that hold the same elements, each at most a limit
/// long. Allocates nothing.
pub struct Pieces<'a> {
    origin: Cursor<'a>,
    result: Option<Cursor<'a>>,
    target: Cursor<'a>,
    limit: usize,
}

impl<'a> Pieces<'a> {
    /// Walks `origin` and `target`, and `result` if the call has one. `limit` is in bytes and
    /// is rounded down to whole elements; it is at least one element long.
    pub fn new(
        origin: &'a Layout,
        result: Option<&'a Layout>,
        target: &'a Layout,
        limit: usize,
    ) -> Self {
        let size = target.datatype().size();
        Pieces {
            origin: Cursor::new(origin),
            result: result.map(Cursor::new),
            target: Cursor::new(target),
            limit: (limit / size * size).max(size),
        }
    }
}

impl Pieces<'_> {
    /// Returns the pieces in groups of at most `most` bytes, which are whole elements.
    pub(super) fn in_groups<E>(
        mut self,
        most: usize,
        mut group: impl FnMut(&mut dyn Iterator<Item = Piece>) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.target.left > 0 {
            let mut left = most;
            group(&mut std::iter::from_fn(|| {
                let piece = self.next_within(left)?;
                left -= piece.len;
                Some(piece)
            }))?;
        }
        Ok(())
    }

    /// Skips the next bytes, which are whole elements.
    pub(super) fn pass_over(&mut self, mut bytes: usize) {
        while let Some(piece) = self.next_within(bytes) {
            bytes -= piece.len;
        }
    }

    /// The next piece, with at most `most` bytes.
    #[inline]
    pub(super) fn next_within(&mut self, most: usize) -> Option<Piece> {
        let (origin, target) = (self.origin.run(), self.target.run());
        let result = self.result.as_ref().map_or(origin, Cursor::run);
        let len = origin
            .len
            .min(target.len)
            .min(result.len)
            .min(self.limit.min(most));
        if len == 0 {
            return None;
        }
        self.origin.advance(origin, len);
        self.target.advance(target, len);
        if let Some(cursor) = &mut self.result {
            cursor.advance(result, len);
        }
        Some(Piece {
            origin: origin.offset,
            result: result.offset,
            target: target.offset,
            len,
        })
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        self.next_within(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use plugin_api::Datatype;

    use super::super::layout::Block;
    use super::*;

    const I16: Datatype = Datatype::Int16;

    fn pieces(origin: &Layout, target: &Layout, limit: usize) -> Vec<(usize, usize, usize)> {
        Pieces::new(origin, None, target, limit)
            .map(|p| (p.origin, p.target, p.len))
            .collect()
    }

    #[test]
    fn contiguous_is_one_piece_up_to_the_limit() {
        let layout = Layout::contiguous(I16, 5);
        assert_eq!(pieces(&layout, &layout, usize::MAX), [(0, 0, 10)]);
        assert_eq!(
            pieces(&layout, &layout, 5),
            [(0, 0, 4), (4, 4, 4), (8, 8, 2)]
        );
        assert_eq!(pieces(&layout, &layout, 0).len(), 5);
    }

    #[test]
    fn nothing_gives_no_piece() {
        let empty = Layout::contiguous(I16, 0);
        assert!(pieces(&empty, &empty, 8).is_empty());
        let empty = Layout::strided(I16, 0, 4, 9).unwrap();
        assert_eq!((empty.bytes(), empty.extent()), (0, 0));
        let empty = Layout::indexed(
            I16,
            &[Block {
                displacement: 9,
                length: 0,
            }],
        )
        .unwrap();
        assert_eq!((empty.bytes(), empty.extent()), (0, 0));
    }

    #[test]
    fn strided_against_indexed_splits_where_either_breaks() {
        let strided = Layout::strided(I16, 3, 2, 5).unwrap();
        assert_eq!((strided.count(), strided.extent()), (6, 24));
        let indexed = Layout::indexed(
            I16,
            &[
                Block {
                    displacement: 7,
                    length: 3,
                },
                Block {
                    displacement: 0,
                    length: 3,
                },
            ],
        )
        .unwrap();
        assert_eq!(indexed.extent(), 20);
        assert_eq!(
            pieces(&strided, &indexed, usize::MAX),
            [(0, 14, 4), (10, 18, 2), (12, 0, 2), (20, 2, 4)]
        );
    }

    #[test]
    fn a_third_side_breaks_pieces_too() {
        let contiguous = Layout::contiguous(I16, 4);
        let strided = Layout::strided(I16, 2, 2, 3).unwrap();
        let got: Vec<Piece> =
            Pieces::new(&contiguous, Some(&strided), &contiguous, usize::MAX).collect();
        assert_eq!(
            got,
            [
                Piece {
                    origin: 0,
                    result: 0,
                    target: 0,
                    len: 4
                },
                Piece {
                    origin: 4,
                    result: 6,
                    target: 4,
                    len: 4
                },
            ]
        );
    }
}

//! Where the elements of one side of an operation lie: contiguous, strided or indexed, in whole
//! elements of one type, and the walk over two such layouts at once.

use std::sync::Arc;

use plugin_api::Datatype;

use super::error::{WinError, WinResult};

/// A run of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Elements between the buffer's start and the run.
    pub displacement: usize,
    /// Elements in the run.
    pub length: usize,
}

/// A datatype description: an element type and the places of its elements, relative to a buffer's
/// start. Cheap to clone; making a contiguous or strided one allocates nothing.
#[derive(Clone, Debug)]
pub struct Layout {
    datatype: Datatype,
    /// Bytes of all elements.
    bytes: usize,
    /// Bytes from the buffer's start to the end of the last element.
    extent: usize,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Contiguous,
    /// Runs of `run` bytes, `stride` bytes from start to start.
    Strided {
        run: usize,
        stride: usize,
    },
    Indexed(Arc<[Segment]>),
}

/// A contiguous part of one side, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    offset: usize,
    len: usize,
}

const TOO_LARGE: WinError = WinError::InvalidLayout {
    reason: "it reaches beyond the address space",
};

impl Layout {
    /// `count` elements, one after the other.
    #[inline]
    pub const fn contiguous(datatype: Datatype, count: usize) -> Layout {
        // Saturating keeps this constructor infallible: no buffer or window holds usize::MAX
        // bytes, so the bounds check of every call refuses such a layout.
        let bytes = count.saturating_mul(datatype.size());
        Layout {
            datatype,
            bytes,
            extent: bytes,
            shape: Shape::Contiguous,
        }
    }

    /// `count` runs of `length` elements whose starts are `stride` elements apart.
    /// [`WinError::InvalidLayout`]: runs that overlap, or reach beyond the address space.
    pub fn strided(
        datatype: Datatype,
        count: usize,
        length: usize,
        stride: usize,
    ) -> WinResult<Layout> {
        let size = datatype.size();
        if count == 0 || length == 0 {
            return Ok(Layout::contiguous(datatype, 0));
        }
        if count > 1 && stride < length {
            return Err(WinError::InvalidLayout {
                reason: "the stride is shorter than a run, so runs overlap",
            });
        }
        let product = |a: usize, b: usize| a.checked_mul(b).ok_or(TOO_LARGE);
        let run = product(length, size)?;
        let bytes = product(count, run)?;
        if count == 1 || stride == length {
            return Ok(Layout::contiguous(datatype, bytes / size));
        }
        let stride = product(stride, size)?;
        let extent = product(count - 1, stride)?
            .checked_add(run)
            .ok_or(TOO_LARGE)?;
        Ok(Layout {
            datatype,
            bytes,
            extent,
            shape: Shape::Strided { run, stride },
        })
    }

    /// The given runs, in their order. Runs of no elements are dropped, and runs that follow each
    /// other without a gap become one. Runs may overlap; a call that writes them in an undefined
    /// order is the caller's mistake.
    pub fn indexed(datatype: Datatype, blocks: &[Block]) -> WinResult<Layout> {
        let size = datatype.size();
        let mut segments: Vec<Segment> = Vec::with_capacity(blocks.len());
        let (mut bytes, mut extent) = (0usize, 0usize);
        for block in blocks.iter().filter(|block| block.length > 0) {
            let offset = block.displacement.checked_mul(size).ok_or(TOO_LARGE)?;
            let len = block.length.checked_mul(size).ok_or(TOO_LARGE)?;
            let end = offset.checked_add(len).ok_or(TOO_LARGE)?;
            bytes = bytes.checked_add(len).ok_or(TOO_LARGE)?;
            extent = extent.max(end);
            match segments.last_mut() {
                Some(last) if last.offset + last.len == offset => last.len += len,
                _ => segments.push(Segment { offset, len }),
            }
        }
        let shape = match segments.as_slice() {
            [] | [Segment { offset: 0, .. }] => Shape::Contiguous,
            _ => Shape::Indexed(segments.into()),
        };
        Ok(Layout {
            datatype,
            bytes,
            extent,
            shape,
        })
    }

    /// The element type.
    #[inline]
    pub const fn datatype(&self) -> Datatype {
        self.datatype
    }

    /// Elements.
    #[inline]
    pub const fn count(&self) -> usize {
        self.bytes / self.datatype.size()
    }

    /// Bytes of all elements.
    #[inline]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes from the buffer's start to the end of the last element: what the buffer must hold.
    #[inline]
    pub const fn extent(&self) -> usize {
        self.extent
    }

    /// Whether the elements fill the buffer's start without gaps.
    #[inline]
    pub const fn is_contiguous(&self) -> bool {
        matches!(self.shape, Shape::Contiguous)
    }

    /// Copies the elements out of `buffer`, one after the other.
    /// [`WinError::InvalidLayout`]: `buffer` is shorter than [`extent`](Self::extent).
    pub fn gather(&self, buffer: &[u8]) -> WinResult<Vec<u8>> {
        let mut packed = Vec::with_capacity(self.bytes.min(buffer.len()));
        let mut cursor = Cursor::new(self);
        while let Some(segment) = cursor.take(usize::MAX) {
            let end = segment.offset + segment.len;
            packed.extend_from_slice(buffer.get(segment.offset..end).ok_or(SHORT)?);
        }
        Ok(packed)
    }

    /// Copies packed elements to their places in `buffer`.
    /// [`WinError::InvalidLayout`]: one of the slices is too short.
    pub fn scatter(&self, packed: &[u8], buffer: &mut [u8]) -> WinResult<()> {
        let mut at = 0;
        let mut cursor = Cursor::new(self);
        while let Some(segment) = cursor.take(usize::MAX) {
            let from = packed.get(at..at + segment.len).ok_or(SHORT)?;
            buffer
                .get_mut(segment.offset..segment.offset + segment.len)
                .ok_or(SHORT)?
                .copy_from_slice(from);
            at += segment.len;
        }
        Ok(())
    }
}

const SHORT: WinError = WinError::InvalidLayout {
    reason: "the buffer is shorter than the layout's extent",
};

/// The walk over one layout.
struct Cursor<'a> {
    layout: &'a Layout,
    /// Bytes not yet taken.
    left: usize,
    /// Index of the current run.
    index: usize,
    /// Bytes taken of the current run.
    taken: usize,
}

impl<'a> Cursor<'a> {
    fn new(layout: &'a Layout) -> Self {
        Cursor {
            layout,
            left: layout.bytes,
            index: 0,
            taken: 0,
        }
    }

    /// The rest of the current run; empty at the end.
    fn run(&self) -> Segment {
        let segment = match &self.layout.shape {
            _ if self.left == 0 => Segment { offset: 0, len: 0 },
            Shape::Contiguous => Segment {
                offset: 0,
                len: self.layout.bytes,
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

    fn take(&mut self, limit: usize) -> Option<Segment> {
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
    /// In the result buffer of a fetching call; equal to `origin` where there is none.
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
    /// Walks `origin` and `target`, and `result` where the call has one. `limit` is in bytes and
    /// is rounded down to whole elements; it is at least one element long.
    pub fn new(
        origin: &'a Layout,
        result: Option<&'a Layout>,
        target: &'a Layout,
        limit: usize,
    ) -> Self {
        let size = target.datatype.size();
        Pieces {
            origin: Cursor::new(origin),
            result: result.map(Cursor::new),
            target: Cursor::new(target),
            limit: (limit / size * size).max(size),
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let (origin, target) = (self.origin.run(), self.target.run());
        let result = self.result.as_ref().map_or(origin, Cursor::run);
        let len = origin.len.min(target.len).min(result.len).min(self.limit);
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

#[cfg(test)]
mod tests {
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

    #[test]
    fn layouts_without_gaps_are_contiguous() {
        assert!(Layout::strided(I16, 4, 3, 3).unwrap().is_contiguous());
        assert!(Layout::strided(I16, 1, 3, 9).unwrap().is_contiguous());
        let joined = Layout::indexed(
            I16,
            &[
                Block {
                    displacement: 0,
                    length: 2,
                },
                Block {
                    displacement: 2,
                    length: 1,
                },
            ],
        )
        .unwrap();
        assert!(joined.is_contiguous());
        assert_eq!(joined.count(), 3);
    }

    #[test]
    fn impossible_layouts_are_refused() {
        assert!(Layout::strided(I16, 2, 4, 3).is_err());
        assert!(Layout::strided(I16, usize::MAX, 2, 3).is_err());
        assert!(
            Layout::indexed(
                I16,
                &[Block {
                    displacement: usize::MAX,
                    length: 1
                }]
            )
            .is_err()
        );
        assert_eq!(Layout::contiguous(I16, usize::MAX).extent(), usize::MAX);
    }

    #[test]
    fn gather_and_scatter_are_each_others_inverse() {
        let layout = Layout::strided(I16, 3, 1, 2).unwrap();
        let buffer: Vec<u8> = (0..10).collect();
        let packed = layout.gather(&buffer).unwrap();
        assert_eq!(packed, [0, 1, 4, 5, 8, 9]);
        let mut back = vec![0xff; 10];
        layout.scatter(&packed, &mut back).unwrap();
        assert_eq!(back, [0, 1, 0xff, 0xff, 4, 5, 0xff, 0xff, 8, 9]);
        assert!(layout.gather(&buffer[..9]).is_err());
    }
}

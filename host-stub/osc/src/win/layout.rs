//! The positions of the elements of one side of an operation: contiguous, strided or indexed, in whole elements of one type.

use std::sync::Arc;

use plugin_api::Datatype;

use super::error::{WinError, WinResult};
use super::op::Target;
use super::pieces::Cursor;

/// A run of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Elements between the buffer's start and the run.
    pub displacement: usize,
    /// Elements in the run.
    pub length: usize,
}

/// A run of elements with its own location: a pointer, or a location that
/// [`encode_location`](crate::door::encode_location) made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The place of its first element.
    pub pointer: *mut u8,
    /// Elements in the run.
    pub length: usize,
}

/// A datatype description: an element type and the places of its elements, relative to a buffer's
/// start. Cheap to clone; a contiguous or strided layout allocates nothing.
#[derive(Clone, Debug)]
pub struct Layout {
    datatype: Datatype,
    /// Bytes of all elements.
    bytes: usize,
    /// Bytes from the buffer's start to the end of the last element.
    extent: usize,
    shape: Shape,
    on_device: bool,
    /// Whether each run has its own location.
    absolute: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Shape {
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
pub(super) struct Segment {
    pub(super) offset: usize,
    pub(super) len: usize,
}

const TOO_LARGE: WinError = WinError::InvalidLayout {
    reason: "it reaches beyond the address space",
};

impl Layout {
    /// The target side of a call: this layout at a rank, from a displacement on.
    #[inline]
    pub const fn at(&self, rank: usize, displacement: u64) -> Target<'_> {
        Target {
            rank,
            displacement,
            layout: self,
        }
    }

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
            on_device: false,
            absolute: false,
        }
    }

    /// `count` runs of `length` elements whose starts are `stride` elements apart.
    /// [`WinError::InvalidLayout`]: the runs overlap, or reach beyond the address space.
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
            return Err(Box::new(WinError::InvalidLayout {
                reason: "the stride is shorter than a run, so runs overlap",
            }));
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
            on_device: false,
            absolute: false,
        })
    }

    /// The given runs, in their order. Empty runs are dropped, and runs that follow each other
    /// without a gap become one run. Runs may overlap; a call that writes overlapping runs in an
    /// undefined order is the caller's mistake.
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
            on_device: false,
            absolute: false,
        })
    }

    /// Runs with their own locations, on the host or on a device, in their order; MPI describes such runs by absolute
    /// addresses and MPI_BOTTOM. Only for buffers at the origin of a call, whose pointer is null then. One call of the copy
    /// functions packs or unpacks up to 256 runs.
    pub fn absolute(datatype: Datatype, runs: &[Run]) -> WinResult<Layout> {
        crate::door::look_from_now_on();
        let mut segments: Vec<Segment> = Vec::with_capacity(runs.len());
        let mut bytes = 0usize;
        for run in runs.iter().filter(|run| run.length > 0) {
            let offset = run.pointer.expose_provenance();
            let len = run.length.checked_mul(datatype.size()).ok_or(TOO_LARGE)?;
            bytes = bytes.checked_add(len).ok_or(TOO_LARGE)?;
            segments.push(Segment { offset, len });
        }
        if segments.is_empty() {
            return Ok(Layout::contiguous(datatype, 0));
        }
        Ok(Layout {
            datatype,
            bytes,
            extent: usize::MAX,
            shape: Shape::Indexed(segments.into()),
            on_device: false,
            absolute: true,
        })
    }

    /// Whether each run has its own location.
    #[inline]
    pub const fn is_absolute(&self) -> bool {
        self.absolute
    }

    /// The same places, for buffers on a device (the bit in a datatype of the note "MPI-OpenMP
    /// Interface"): the host then looks for the device of the buffer's pointer.
    pub fn on_device(mut self) -> Layout {
        crate::door::look_from_now_on();
        self.on_device = true;
        self
    }

    /// Whether the buffer is on a device.
    #[inline(always)]
    pub const fn is_on_device(&self) -> bool {
        self.on_device
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

    /// Bytes from the buffer's start to the end of the last element: the minimum size of the buffer. The whole
    /// address space for an [`absolute`](Self::absolute) layout.
    #[inline]
    pub const fn extent(&self) -> usize {
        self.extent
    }

    /// Bytes from the buffer's start to the first byte of an element.
    pub(super) fn begin(&self) -> usize {
        match &self.shape {
            Shape::Contiguous | Shape::Strided { .. } => 0,
            Shape::Indexed(segments) => segments.iter().map(|run| run.offset).min().unwrap_or(0),
        }
    }

    /// Whether the elements fill the buffer's start without gaps.
    #[inline]
    pub const fn is_contiguous(&self) -> bool {
        matches!(self.shape, Shape::Contiguous)
    }

    /// The number of runs of the elements; none for no elements.
    pub(super) fn runs(&self) -> usize {
        match &self.shape {
            Shape::Contiguous => usize::from(self.bytes > 0),
            Shape::Strided { run, .. } => self.bytes / run,
            Shape::Indexed(segments) => segments.len(),
        }
    }

    #[inline]
    pub(super) const fn shape(&self) -> &Shape {
        &self.shape
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

#[cfg(test)]
mod tests {
    use super::*;

    const I16: Datatype = Datatype::Int16;

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
    fn a_layout_begins_at_its_lowest_run() {
        let block = |displacement, length| Block {
            displacement,
            length,
        };
        let later = [block(9, 1), block(0, 0), block(3, 2), block(5, 1)];
        let layout = Layout::indexed(I16, &later).unwrap();
        assert_eq!((layout.begin(), layout.extent()), (6, 20));
        for layout in [
            Layout::indexed(I16, &[block(3, 0)]).unwrap(),
            Layout::contiguous(I16, 4),
            Layout::strided(I16, 2, 1, 2).unwrap(),
        ] {
            assert_eq!(layout.begin(), 0);
        }
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

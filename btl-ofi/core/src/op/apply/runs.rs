//! The runs of an apply: as its origin writes them, and as its target reads them. The module above describes their form.

use std::slice;

use plugin_api::{ApplyRun, MOST_APPLIED, Status};

/// Words of a run that is not listed.
const RUN: usize = 3;

/// Exponent of the power of two in which offsets of listed runs are counted.
fn unit(size: usize) -> u32 {
    size.trailing_zeros()
}

/// The sum of some runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Total {
    /// Bytes of all elements.
    pub(super) bytes: usize,
    /// Whether an element lies in several runs.
    pub(super) in_parts: bool,
}

impl Total {
    fn new(bytes: u64, in_parts: bool, size: usize) -> Result<Total, Status> {
        if bytes == 0 || in_parts && !bytes.is_multiple_of(size as u64) {
            return Err(Status::BAD_PARAM);
        }
        let bytes = bytes as usize;
        Ok(Total { bytes, in_parts })
    }
}

/// The sum of some runs, which together are whole elements. Fails if there are none, or more than a command may have.
fn total(runs: impl Iterator<Item = ApplyRun>, size: usize) -> Result<Total, Status> {
    let (mut total, mut in_parts) = (0u64, false);
    for run in runs {
        if run.length == 0 || run.count == 0 {
            return Err(Status::BAD_PARAM);
        }
        in_parts |= run.length % size as u64 != 0;
        let bytes = run.length.checked_mul(run.count);
        total = bytes
            .and_then(|bytes| total.checked_add(bytes))
            .ok_or(Status::VALUE_OUT_OF_BOUNDS)?;
    }
    match total > MOST_APPLIED as u64 {
        true => Err(Status::VALUE_OUT_OF_BOUNDS),
        false => Total::new(total, in_parts, size),
    }
}

/// Whether the runs are exactly one element in one run.
#[inline]
fn is_one_element(runs: &[ApplyRun], size: usize) -> bool {
    matches!(runs, [run] if run.count == 1 && run.length == size as u64)
}

/// Like [`total`], for `number` runs of `length` bytes.
fn total_of_listed(number: u64, length: u64, size: usize) -> Result<Total, Status> {
    match number.checked_mul(length) {
        Some(total) if total <= MOST_APPLIED as u64 => {
            Total::new(total, !length.is_multiple_of(size as u64), size)
        }
        _ => Err(Status::VALUE_OUT_OF_BOUNDS),
    }
}

/// The first byte of a run, and the number of bytes up to its end.
fn span(address: u64, run: &ApplyRun) -> Result<(u64, u64), Status> {
    let last = (run.count - 1).checked_mul(run.stride);
    let size = last.and_then(|last| last.checked_add(run.length));
    let first = address.checked_add(run.offset);
    first.zip(size).ok_or(Status::VALUE_OUT_OF_BOUNDS)
}

/// A run of one block.
#[inline]
fn block(offset: u64, length: u64) -> ApplyRun {
    ApplyRun {
        offset,
        length,
        stride: 0,
        count: 1,
    }
}

/// The runs as the origin sends them.
#[derive(Clone, Copy)]
pub(super) struct Sent<'a> {
    runs: &'a [ApplyRun],
    /// Size of an element in bytes.
    size: usize,
    list: Option<List>,
}

/// Blocks that are listed.
#[derive(Clone, Copy)]
struct List {
    number: usize,
    /// Size of each block in bytes.
    length: u64,
    /// The smallest offset and the largest offset.
    ends: [u64; 2],
}

impl<'a> Sent<'a> {
    pub(super) fn new(runs: &'a [ApplyRun], size: usize) -> Sent<'a> {
        let list = List::of(runs, size);
        Sent { runs, size, list }
    }

    pub(super) fn are_listed(&self) -> bool {
        self.list.is_some()
    }

    /// Number of words of the runs.
    pub(super) fn words(&self) -> usize {
        match self.list {
            Some(list) => list.number.div_ceil(2),
            None => RUN * self.runs.len(),
        }
    }

    /// The sum of the runs.
    #[inline]
    pub(super) fn total(&self) -> Result<Total, Status> {
        match &self.list {
            None if is_one_element(self.runs, self.size) => Ok(Total {
                bytes: self.size,
                in_parts: false,
            }),
            Some(list) => total_of_listed(list.number as u64, list.length, self.size),
            None => total(self.runs.iter().copied(), self.size),
        }
    }

    /// Writes the number of runs, and behind it the runs, whose [`total`](Self::total) was checked. `covers` checks that
    /// memory is in the region.
    ///
    /// # Safety
    /// There is room for one word and for the words of the runs.
    pub(super) unsafe fn write(
        &self,
        at: *mut u64,
        address: u64,
        mut covers: impl FnMut(u64, u64) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let mut check = |run: &ApplyRun| {
            let (first, size) = span(address, run)?;
            covers(first, size)
        };
        let Some(list) = &self.list else {
            // SAFETY: the caller guarantees the room.
            unsafe { at.write(self.runs.len() as u64) };
            let mut next = at.wrapping_add(1);
            for run in self.runs {
                check(run)?;
                // SAFETY: the caller guarantees the room. Length and count do not exceed the limits of a
                // command.
                unsafe {
                    next.write(run.offset);
                    next.add(1).write(run.length | run.count << 32);
                    next.add(2).write(run.stride);
                    next = next.add(RUN);
                }
            }
            return Ok(());
        };
        // All offsets between the two ends are then also in the region.
        for offset in list.ends {
            check(&block(offset, list.length))?;
        }
        let shift = unit(self.size);
        // SAFETY: the caller guarantees the room; the last word may be filled only in part. Number and length do not exceed
        // the limits of a command.
        unsafe {
            at.write(list.number as u64 | list.length << 32);
            at.add(self.words()).write(0);
            let mut place = at.add(1).cast::<u32>();
            for run in self.runs {
                let mut offset = run.offset;
                for _ in 0..run.count {
                    place.write((offset >> shift) as u32);
                    place = place.add(1);
                    offset = offset.wrapping_add(run.stride);
                }
            }
        }
        Ok(())
    }
}

impl List {
    /// The list of the runs' blocks, if they can be listed and this takes fewer words.
    #[inline]
    fn of(runs: &[ApplyRun], size: usize) -> Option<List> {
        // Most applies have one block.
        if let [ApplyRun { count: 1, .. }] = runs {
            return None;
        }
        let length = runs.first()?.length;
        let (mut bits, mut differs, mut number) = (0, false, 0u64);
        let mut ends = [u64::MAX, 0];
        for run in runs {
            let mut last = run.offset;
            if run.count != 1 {
                let distance = run.count.checked_sub(1)?.checked_mul(run.stride)?;
                last = last.checked_add(distance)?;
                bits |= run.stride;
            }
            bits |= run.offset;
            differs |= run.length != length;
            number = number.checked_add(run.count)?;
            ends = [ends[0].min(run.offset), ends[1].max(last)];
        }
        let shift = unit(size);
        let is_whole = bits.trailing_zeros() >= shift;
        let is_near = ends[1] >> shift <= u64::from(u32::MAX);
        let is_shorter = number > 1 && number.div_ceil(2) < (RUN * runs.len()) as u64;
        (!differs && is_whole && is_near && is_shorter).then_some(List {
            number: number as usize,
            length,
            ends,
        })
    }
}

/// The runs as the target received them.
#[derive(Clone, Copy)]
pub(super) enum Received<'a> {
    Any(&'a [u64]),
    Listed {
        places: &'a [u32],
        /// Size of each run in bytes.
        length: u64,
        /// Exponent of the unit of the offsets.
        unit: u32,
    },
}

impl<'a> Received<'a> {
    /// Reads the word with the number of runs, and the runs that follow it. Returns the runs, their sum, and the words
    /// behind them.
    pub(super) fn read(
        (second, words): (u64, &'a [u64]),
        is_listed: bool,
        size: usize,
    ) -> Result<(Received<'a>, Total, &'a [u64]), Status> {
        let wrong = Status::BAD_PARAM;
        if is_listed {
            let (number, length) = ((second & 0xffff_ffff) as usize, second >> 32);
            let (halves, rest) = words.split_at_checked(number.div_ceil(2)).ok_or(wrong)?;
            let total = total_of_listed(number as u64, length, size)?;
            // SAFETY: the words have this number of halves.
            let places = unsafe { slice::from_raw_parts(halves.as_ptr().cast(), number) };
            let unit = unit(size);
            let runs = Received::Listed {
                places,
                length,
                unit,
            };
            return Ok((runs, total, rest));
        }
        let number = usize::try_from(second).map_err(|_| wrong)?;
        let used = number.checked_mul(RUN).ok_or(wrong)?;
        let (runs, rest) = words.split_at_checked(used).ok_or(wrong)?;
        let total = total(runs.chunks_exact(RUN).map(run), size)?;
        Ok((Received::Any(runs), total, rest))
    }

    /// Checks that all runs lie in the memory that `covers` accepts.
    pub(super) fn check(
        self,
        address: u64,
        mut covers: impl FnMut(u64, u64) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let mut check = |run: &ApplyRun| {
            let (first, size) = span(address, run)?;
            covers(first, size)
        };
        match self {
            Received::Any(words) => words
                .chunks_exact(RUN)
                .try_for_each(|words| check(&run(words))),
            Received::Listed {
                places,
                length,
                unit,
            } => {
                let ends = places.iter().fold([u32::MAX, 0], |[least, most], place| {
                    [least.min(*place), most.max(*place)]
                });
                // All offsets between the two ends are then also in the memory.
                let mut ends = ends.into_iter().map(|place| u64::from(place) << unit);
                ends.try_for_each(|offset| check(&block(offset, length)))
            }
        }
    }

    /// Offset and size of the block, if there is only one block and it is not listed.
    #[inline]
    pub(super) fn only_block(self) -> Option<(u64, u64)> {
        match self {
            Received::Any(&[offset, size, _]) if size >> 32 == 1 => {
                Some((offset, size & 0xffff_ffff))
            }
            _ => None,
        }
    }

    /// The positions of runs of one element each, counted in elements, if they are listed.
    #[inline]
    pub(super) fn elements(self, size: usize) -> Option<&'a [u32]> {
        match self {
            Received::Listed { places, length, .. }
                if length == size as u64 && size.is_power_of_two() =>
            {
                Some(places)
            }
            _ => None,
        }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = ApplyRun> + Clone {
        let none = (&[][..], 0, 0);
        let (any, (places, length, unit)) = match self {
            Received::Any(words) => (words, none),
            Received::Listed {
                places,
                length,
                unit,
            } => (&[][..], (places, length, unit)),
        };
        let listed = places
            .iter()
            .map(move |place| block(u64::from(*place) << unit, length));
        any.chunks_exact(RUN).map(run).chain(listed)
    }
}

/// A run in the form in which it was sent.
#[inline]
fn run(words: &[u64]) -> ApplyRun {
    let &[offset, size, stride] = words else {
        return ApplyRun::default();
    };
    ApplyRun {
        offset,
        length: size & 0xffff_ffff,
        count: size >> 32,
        stride,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of runs of elements of this size.
    fn written(runs: &[ApplyRun], size: usize) -> Vec<u64> {
        let blocks = |run: ApplyRun| {
            (0..run.count).map(move |i| block(run.offset + i * run.stride, run.length))
        };
        let sent = Sent::new(runs, size);
        let mut words = vec![u64::MAX; 1 + sent.words()];
        let covers = |_, _| Ok(());
        // SAFETY: the buffer has this number of words.
        unsafe { sent.write(words.as_mut_ptr(), 0, covers) }.unwrap();
        let are_listed = sent.are_listed();
        let (received, total, rest) =
            Received::read((words[0], &words[1..]), are_listed, size).unwrap();
        assert_eq!(total, sent.total().unwrap());
        let all = runs.iter().copied().flat_map(blocks);
        assert!(rest.is_empty() && received.iter().flat_map(blocks).eq(all));
        words
    }

    #[test]
    fn blocks_of_one_length_are_listed_where_that_is_shorter() {
        let far = 8 * u64::from(u32::MAX);
        let runs = [24, 0, far].map(|offset| block(offset, 8));
        let expected = [3 | 8 << 32, 3, u64::from(u32::MAX)];
        assert_eq!(written(&runs, 8), expected);
        let pairs = |count| ApplyRun {
            stride: 16,
            count,
            ..block(8, 8)
        };
        let expected = [4 | 8 << 32, 1 | 3 << 32, 1 << 32];
        assert_eq!(written(&[pairs(2), block(0, 8), block(8, 8)], 8), expected);
        // The offsets are counted in bytes.
        let runs = [block(5, 6), block(2, 6)];
        assert_eq!(written(&runs, 3), [2 | 6 << 32, 5 | 2 << 32]);
        // Each element is in two parts.
        let runs = [block(0, 4), block(6, 4)];
        assert_eq!(written(&runs, 8).len(), 1 + RUN * 2);
        let runs = [block(0, 4), block(8, 4), block(24, 4), block(16, 4)];
        assert_eq!(written(&runs, 8), [4 | 4 << 32, 1 << 32, 3 | 2 << 32]);
        let others = [
            (vec![block(0, 8)], 8),
            (vec![block(0, 8), block(8, 16)], 8),
            (vec![block(0, 8), block(12, 8)], 8),
            (vec![block(0, 8), block(far + 8, 8)], 8),
            (vec![pairs(6)], 8),
            (
                vec![ApplyRun {
                    stride: 12,
                    ..pairs(2)
                }],
                8,
            ),
        ];
        for (runs, size) in others {
            assert_eq!(written(&runs, size).len(), 1 + RUN * runs.len(), "{runs:?}");
        }
    }
}

//! Ranges of addresses with a value each: found by what they cover, given up by age.
//!
//! They may overlap, but none lies inside another. So their ends have the order of their starts.
//!
//! The order of use is kept lazily: finding a range only notes when, and the search for the oldest puts each that
//! was found since in its place. So finding allocates nothing, and giving up costs a logarithm for each time that
//! something was found.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

struct Held<T> {
    end: usize,
    /// When it was last found.
    used: u64,
    /// Its place in the order of use: when that was last put right, so no later than `used`.
    queued: u64,
    value: Arc<T>,
}

/// The map. A value that nobody else holds is idle.
pub(super) struct Ranges<T> {
    by_start: BTreeMap<usize, Held<T>>,
    /// Where the range starts that has this place.
    by_use: BTreeMap<u64, usize>,
    bytes: usize,
    clock: u64,
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Ranges {
            by_start: BTreeMap::new(),
            by_use: BTreeMap::new(),
            bytes: 0,
            clock: 0,
        }
    }
}

impl<T> Ranges<T> {
    pub(super) fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Bytes that the ranges cover.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The value of the range that covers all of `wanted`.
    pub(super) fn covering(&mut self, wanted: &Range<usize>) -> Option<Arc<T>> {
        let (_, held) = self.by_start.range_mut(..=wanted.start).next_back()?;
        if held.end < wanted.end {
            return None;
        }
        self.clock += 1;
        held.used = self.clock;
        Some(Arc::clone(&held.value))
    }

    /// The part of `pages` that no range covers. `pages` lies inside no range, and no range inside it.
    pub(super) fn uncovered(&self, pages: &Range<usize>) -> Range<usize> {
        let before = self.by_start.range(..pages.start).next_back();
        let after = self.by_start.range(pages.start..).next();
        let start = before.map_or(pages.start, |(_, held)| held.end.max(pages.start));
        let end = after.map_or(pages.end, |(start, _)| (*start).min(pages.end));
        start..end
    }

    /// Takes out every range that overlaps `gone`.
    pub(super) fn take_overlapping(&mut self, gone: &Range<usize>, taken: &mut Vec<Arc<T>>) {
        while let Some((start, held)) = self.by_start.range(..gone.end).next_back()
            && held.end > gone.start
        {
            let start = *start;
            taken.extend(self.take(start).map(|(_, value)| value));
        }
    }

    /// Takes out the idle range that was not found for longest. One in use is counted as found now, so that it is
    /// not looked at again soon.
    pub(super) fn take_oldest_idle(&mut self) -> Option<(Range<usize>, Arc<T>)> {
        let mut in_use = 0;
        while in_use < self.by_start.len() {
            let (queued, start) = self.by_use.pop_first()?;
            let held = self.by_start.get_mut(&start)?;
            let idle = Arc::strong_count(&held.value) == 1;
            if idle && held.used == queued {
                return self.take(start);
            }
            if !idle {
                in_use += 1;
                self.clock += 1;
                held.used = self.clock;
            }
            held.queued = held.used;
            self.by_use.insert(held.used, start);
        }
        None
    }

    /// Takes out the range that starts there.
    pub(super) fn take(&mut self, start: usize) -> Option<(Range<usize>, Arc<T>)> {
        let held = self.by_start.remove(&start)?;
        self.by_use.remove(&held.queued);
        self.bytes -= held.end - start;
        Some((start..held.end, held.value))
    }

    /// Adds a range that lies inside none, in the place of those inside it.
    pub(super) fn insert(&mut self, range: Range<usize>, value: Arc<T>, taken: &mut Vec<Arc<T>>) {
        while let Some((start, held)) = self.by_start.range(range.start..).next()
            && held.end <= range.end
        {
            let start = *start;
            taken.extend(self.take(start).map(|(_, value)| value));
        }
        self.clock += 1;
        self.bytes += range.end - range.start;
        let held = Held {
            end: range.end,
            used: self.clock,
            queued: self.clock,
            value,
        };
        self.by_use.insert(self.clock, range.start);
        self.by_start.insert(range.start, held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[(Range<usize>, u32)]) -> Ranges<u32> {
        let (mut ranges, mut taken) = (Ranges::default(), Vec::new());
        for (range, value) in parts {
            ranges.insert(range.clone(), Arc::new(*value), &mut taken);
        }
        assert!(taken.is_empty());
        ranges
    }

    #[test]
    fn only_a_range_that_covers_all_is_found() {
        let mut ranges = of(&[(10..20, 1), (20..30, 2), (27..37, 3), (40..50, 4)]);
        let mut found = |range| ranges.covering(&range).map(|value| *value);
        assert_eq!(found(10..20), Some(1));
        assert_eq!(found(12..13), Some(1));
        assert_eq!(found(20..30), Some(2));
        assert_eq!(found(27..30), Some(3));
        assert_eq!(found(26..31), None);
        assert_eq!(found(19..21), None);
        assert_eq!(found(9..11), None);
        assert_eq!(found(37..38), None);
        assert_eq!(found(49..51), None);
    }

    #[test]
    fn what_others_cover_is_left_out() {
        let ranges = of(&[(10..20, 1), (15..24, 2), (40..50, 3)]);
        assert_eq!(ranges.uncovered(&(20..45)), 24..40);
        assert_eq!(ranges.uncovered(&(5..12)), 5..10);
        assert_eq!(ranges.uncovered(&(45..60)), 50..60);
        assert_eq!(ranges.uncovered(&(25..30)), 25..30);
        assert!(ranges.uncovered(&(12..22)).is_empty());
        assert_eq!(of(&[]).uncovered(&(1..2)), 1..2);
    }

    #[test]
    fn a_range_takes_the_place_of_those_inside_it() {
        let mut ranges = of(&[(5..12, 1), (10..20, 2), (22..24, 3), (23..31, 4)]);
        let mut taken = Vec::new();
        ranges.insert(10..30, Arc::new(5), &mut taken);
        let taken: Vec<u32> = taken.iter().map(|value| **value).collect();
        assert_eq!(taken, [2, 3]);
        assert_eq!((ranges.len(), ranges.bytes()), (3, 7 + 20 + 8));
        assert_eq!(ranges.covering(&(11..12)).map(|value| *value), Some(5));
        assert_eq!(ranges.covering(&(9..12)).map(|value| *value), Some(1));
    }

    #[test]
    fn overlapping_ranges_go_and_others_stay() {
        let mut ranges = of(&[(10..20, 1), (15..30, 2), (28..40, 3), (50..60, 4)]);
        let mut taken = Vec::new();
        ranges.take_overlapping(&(20..31), &mut taken);
        let mut taken: Vec<u32> = taken.iter().map(|value| **value).collect();
        taken.sort_unstable();
        assert_eq!(taken, [2, 3]);
        assert_eq!((ranges.len(), ranges.bytes()), (2, 20));
        let mut none = Vec::new();
        ranges.take_overlapping(&(40..50), &mut none);
        assert!(none.is_empty());
    }

    #[test]
    fn the_oldest_idle_goes_first() {
        let mut ranges = of(&[(10..20, 1), (20..30, 2), (30..40, 3)]);
        let held = ranges.covering(&(20..21));
        assert!(ranges.covering(&(10..11)).is_some());
        let mut next = || ranges.take_oldest_idle().map(|(_, value)| *value);
        assert_eq!(next(), Some(3));
        assert_eq!(next(), Some(1));
        assert_eq!(next(), None);
        drop(held);
        assert_eq!(next(), Some(2));
    }

    /// Beside a list in the order of use, over a few thousand steps of all kinds.
    #[test]
    fn the_order_of_use_is_kept() {
        let mut ranges = Ranges::default();
        let mut order: Vec<Range<usize>> = Vec::new();
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let inside = |inner: &Range<usize>, outer: &Range<usize>| {
            outer.start <= inner.start && inner.end <= outer.end
        };
        for _ in 0..5000 {
            let start = random(640);
            let wanted = start..start + 1 + random(20);
            // Of several that cover it, the one that starts last.
            let known = (0..order.len())
                .filter(|at| inside(&wanted, &order[*at]))
                .max_by_key(|at| order[*at].start);
            match (random(8), known) {
                (0, _) => {
                    let oldest = ranges.take_oldest_idle().map(|(range, _)| range);
                    let expected = (!order.is_empty()).then(|| order.remove(0));
                    assert_eq!(oldest, expected);
                }
                (1, _) => {
                    ranges.take_overlapping(&wanted, &mut Vec::new());
                    order.retain(|range| range.end <= wanted.start || wanted.end <= range.start);
                }
                (_, Some(at)) => {
                    assert!(ranges.covering(&wanted).is_some());
                    let found = order.remove(at);
                    order.push(found);
                }
                (_, None) => {
                    assert!(ranges.covering(&wanted).is_none());
                    ranges.insert(wanted.clone(), Arc::new(()), &mut Vec::new());
                    order.retain(|range| !inside(range, &wanted));
                    order.push(wanted);
                }
            }
            assert_eq!(ranges.len(), order.len());
            assert_eq!(ranges.by_use.len(), order.len());
            assert_eq!(ranges.bytes(), order.iter().map(Range::len).sum::<usize>());
        }
    }
}

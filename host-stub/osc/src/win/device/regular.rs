//! Recognises layouts of equal blocks at regular distances, which one call of a copy function can move.

use crate::transport::Blocks;
use crate::win::layout::{Layout, Segment, Shape};

/// The blocks of a layout whose buffer is at `base`; `None` for one run, and for runs that are not regular.
pub(in crate::win) fn blocks(layout: &Layout, base: u64) -> Option<Blocks> {
    match layout.shape() {
        Shape::Contiguous => None,
        Shape::Strided { run, stride } => Some(Blocks {
            base,
            block: *run,
            stride: [*stride, 0],
            count: [layout.bytes() / run, 1],
        }),
        Shape::Indexed(segments) => rows(segments, base),
    }
}

/// Segments that are rows of blocks. A row ends where the distance between blocks differs from the
/// distance of the first two.
fn rows(segments: &[Segment], base: u64) -> Option<Blocks> {
    let [first, second, ..] = segments else {
        return None;
    };
    let step = second.offset.checked_sub(first.offset)?;
    let same = |pair: &&[Segment]| pair[1].offset.checked_sub(pair[0].offset) == Some(step);
    let columns = 1 + segments.windows(2).take_while(same).count();
    let row_step = match segments.get(columns) {
        Some(next) => next.offset.checked_sub(first.offset)?,
        None => 0,
    };
    let at = |i: usize| first.offset + i % columns * step + i / columns * row_step;
    let mut numbered = segments.iter().enumerate();
    let regular = segments.len().is_multiple_of(columns)
        && numbered.all(|(i, s)| s.len == first.len && s.offset == at(i));
    regular.then(|| Blocks {
        base: base.wrapping_add(first.offset as u64),
        block: first.len,
        stride: [step, row_step],
        count: [columns, segments.len() / columns],
    })
}

#[cfg(test)]
mod tests {
    use plugin_api::Datatype;

    use super::*;
    use crate::win::layout::Block;

    fn indexed(displacements: &[usize], length: usize) -> Option<Blocks> {
        let block = |displacement: &usize| Block {
            displacement: *displacement,
            length,
        };
        let all: Vec<Block> = displacements.iter().map(block).collect();
        blocks(&Layout::indexed(Datatype::Int16, &all).unwrap(), 100)
    }

    #[test]
    fn strided_runs_are_one_row() {
        let layout = Layout::strided(Datatype::Int16, 300, 2, 5).unwrap();
        let wanted = Blocks {
            base: 100,
            block: 4,
            stride: [10, 0],
            count: [300, 1],
        };
        assert_eq!(blocks(&layout, 100), Some(wanted));
    }

    #[test]
    fn indexed_runs_are_rows_if_their_distances_repeat() {
        let row = Blocks {
            base: 102,
            block: 2,
            stride: [6, 0],
            count: [3, 1],
        };
        assert_eq!(indexed(&[1, 4, 7], 1), Some(row));
        let face = Blocks {
            base: 100,
            block: 2,
            stride: [6, 40],
            count: [2, 3],
        };
        assert_eq!(indexed(&[0, 3, 20, 23, 40, 43], 1), Some(face));
    }

    #[test]
    fn other_runs_are_not_regular() {
        assert_eq!(indexed(&[0, 3, 20, 23, 40], 1), None);
        assert_eq!(indexed(&[0, 3, 20, 24], 1), None);
        assert_eq!(indexed(&[9, 3], 1), None);
        assert_eq!(indexed(&[9], 1), None);
        let unequal = [(0, 1), (4, 2)].map(|(displacement, length)| Block {
            displacement,
            length,
        });
        let unequal = Layout::indexed(Datatype::Int16, &unequal).unwrap();
        assert_eq!(blocks(&unequal, 0), None);
        assert_eq!(blocks(&Layout::contiguous(Datatype::Int16, 9), 0), None);
    }
}

//! Random layouts, each with the list of its elements' places for the model.

use plugin_api::Datatype;

use super::random::Random;
use host_stub::win::{Block, Layout, Target, WinResult};

osc_engine::named_enum! {
    /// The kinds of layout.
    pub(super) enum Shape {
        Contiguous = "contiguous",
        Strided = "strided",
        Indexed = "indexed",
    }
}

/// A layout and the places of its elements, in elements from the start.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) layout: Layout,
    pub(super) places: Vec<usize>,
}

/// The extent of a random layout is at most this multiple of its number of elements.
pub(super) const SPREAD: usize = 6;

impl Placed {
    /// The target side of a call.
    pub(super) fn at(&self, rank: usize, displacement: u64) -> Target<'_> {
        self.layout.at(rank, displacement)
    }

    /// A random layout of `count` elements. `count` is a multiple of 12.
    pub(super) fn new(
        shape: Shape,
        datatype: Datatype,
        count: usize,
        random: &mut Random,
    ) -> WinResult<Placed> {
        let mut places = Vec::with_capacity(count);
        let layout = match shape {
            Shape::Contiguous => {
                places.extend(0..count);
                Layout::contiguous(datatype, count)
            }
            Shape::Strided => {
                let length = random.pick(&[1, 2, 3, 4]);
                let stride = length + random.below(4);
                for run in 0..count / length {
                    places.extend(run * stride..run * stride + length);
                }
                Layout::strided(datatype, count / length, length, stride)?
            }
            Shape::Indexed => {
                let mut blocks = Vec::new();
                let (mut left, mut at) = (count, 0);
                while left > 0 {
                    at += random.below(4);
                    let length = (1 + random.below(4)).min(left);
                    blocks.push(Block {
                        displacement: at,
                        length,
                    });
                    at += length;
                    left -= length;
                }
                random.shuffle(&mut blocks);
                for block in &blocks {
                    places.extend(block.displacement..block.displacement + block.length);
                }
                Layout::indexed(datatype, &blocks)?
            }
        };
        Ok(Placed { layout, places })
    }

    /// `count` contiguous elements.
    pub(super) fn row(datatype: Datatype, count: usize) -> Placed {
        Placed {
            layout: Layout::contiguous(datatype, count),
            places: (0..count).collect(),
        }
    }

    /// Byte ranges of the elements, in order.
    pub(super) fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let size = self.layout.datatype().size();
        self.places
            .iter()
            .map(move |place| place * size..place * size + size)
    }
}

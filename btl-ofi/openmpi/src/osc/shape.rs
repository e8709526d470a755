//! The positions of the bytes of types with gaps, kept for later calls: a program makes few types and many calls with them.
//!
//! A shape is found by the content of the type's description, not by the type's address: a program may free a type and get
//! another one at the same address. Each thread keeps the shapes of its own calls, in up to [`MOST_BYTES`] bytes, so no call
//! waits for another thread.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use osc_engine::win::{Block, Layout, WinResult};
use plugin_api::Datatype;

use crate::bindings as ffi;

/// A run of bytes, from a buffer's address on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) offset: isize,
    pub(crate) len: usize,
}

/// The places of the bytes of some items of a type, in the order of the type map, and the form in which the
/// engine takes them.
#[derive(Debug)]
pub(crate) struct Shape {
    /// No run is empty.
    runs: Box<[Bytes]>,
    /// The lowest offset.
    begin: isize,
    as_bytes: Layout,
    /// The layout as elements of the type that was requested first; `None` if distances are not multiples of the
    /// element size.
    as_elements: OnceLock<(Datatype, Option<Layout>)>,
}

impl Shape {
    pub(crate) fn new(runs: Vec<Bytes>) -> WinResult<Shape> {
        let begin = runs.iter().map(|run| run.offset).min().unwrap_or(0);
        let as_bytes = layout(&runs, begin, Datatype::Uint8)?;
        Ok(Shape {
            runs: runs.into(),
            begin,
            as_bytes: as_bytes.unwrap_or(const { Layout::contiguous(Datatype::Uint8, 0) }),
            as_elements: OnceLock::new(),
        })
    }

    pub(crate) fn runs(&self) -> &[Bytes] {
        &self.runs
    }

    /// Bytes of all runs.
    pub(crate) const fn len(&self) -> usize {
        self.as_bytes.bytes()
    }

    /// The beginning of layouts, from the buffer's address on.
    pub(crate) const fn begin(&self) -> isize {
        self.begin
    }

    /// The runs as elements of a type, if their distances are multiples of the element size.
    pub(crate) fn layout(&self, datatype: Datatype) -> WinResult<Option<Layout>> {
        if datatype == Datatype::Uint8 {
            return Ok(Some(self.as_bytes.clone()));
        }
        match self.as_elements.get() {
            Some((kept, layout)) if *kept == datatype => Ok(layout.clone()),
            Some(_) => layout(&self.runs, self.begin, datatype),
            None => {
                let layout = layout(&self.runs, self.begin, datatype)?;
                let (_, layout) = self.as_elements.get_or_init(|| (datatype, layout));
                Ok(layout.clone())
            }
        }
    }

    /// Bytes of the shape, with both layouts.
    fn size(&self) -> usize {
        3 * size_of_val(&*self.runs)
    }
}

fn layout(runs: &[Bytes], begin: isize, datatype: Datatype) -> WinResult<Option<Layout>> {
    let size = datatype.size();
    let mut blocks = Vec::with_capacity(runs.len());
    for run in runs {
        let offset = run.offset.wrapping_sub(begin) as usize;
        if !offset.is_multiple_of(size) || !run.len.is_multiple_of(size) {
            return Ok(None);
        }
        blocks.push(Block {
            displacement: offset / size,
            length: run.len / size,
        });
    }
    Layout::indexed(datatype, &blocks).map(Some)
}

/// The values that determine the places of the bytes of some items of a type.
#[derive(Clone, Copy)]
pub(crate) struct Description<'a> {
    /// Open MPI's description of an item. The shape of an item without a description is not kept.
    pub(crate) entries: &'a [ffi::dt_elem_desc],
    /// Bytes from one item to the next.
    pub(crate) extent: isize,
    pub(crate) count: usize,
}

/// Whether two entries have the same meaning. Entries have bytes without meaning, which may never
/// have been written.
fn are_alike(one: &ffi::dt_elem_desc, other: &ffi::dt_elem_desc) -> bool {
    // SAFETY: all kinds of entries begin with the same fields, by which Open MPI distinguishes the kinds, and it writes all
    // fields of a kind that are read here.
    unsafe {
        let (kind, others) = (&one.elem.common, &other.elem.common);
        if kind.type_ != others.type_ || kind.flags != others.flags {
            return false;
        }
        match u32::from(kind.type_) {
            ffi::OPAL_DATATYPE_LOOP => {
                let (one, other) = (&one.loop_, &other.loop_);
                (one.items, one.loops, one.extent) == (other.items, other.loops, other.extent)
            }
            ffi::OPAL_DATATYPE_END_LOOP => {
                let (one, other) = (&one.end_loop, &other.end_loop);
                (one.items, one.size, one.first_elem_disp)
                    == (other.items, other.size, other.first_elem_disp)
            }
            _ => {
                let (one, other) = (&one.elem, &other.elem);
                (one.count, one.blocklen, one.extent, one.disp)
                    == (other.count, other.blocklen, other.extent, other.disp)
            }
        }
    }
}

/// A shape and its description.
struct Entry {
    entries: Box<[ffi::dt_elem_desc]>,
    extent: isize,
    count: usize,
    shape: Arc<Shape>,
    /// The time of its last use.
    used: u64,
}

impl Entry {
    fn is_of(&self, asked: &Description<'_>) -> bool {
        self.count == asked.count
            && self.extent == asked.extent
            && self.entries.len() == asked.entries.len()
            && self
                .entries
                .iter()
                .zip(asked.entries)
                .all(|(one, other)| are_alike(one, other))
    }

    fn size(&self) -> usize {
        size_of_val(&*self.entries) + self.shape.size()
    }
}

/// The maximum number of shapes that a thread keeps, and the maximum of their bytes.
const MOST: usize = 16;
const MOST_BYTES: usize = 1 << 20;

/// The shapes that a thread keeps.
struct Kept {
    entries: Vec<Entry>,
    bytes: usize,
    clock: u64,
}

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept::new()) };
}

impl Kept {
    const fn new() -> Kept {
        Kept {
            entries: Vec::new(),
            bytes: 0,
            clock: 0,
        }
    }

    fn find(&mut self, asked: &Description<'_>) -> Option<Arc<Shape>> {
        let found = self.entries.iter_mut().find(|entry| entry.is_of(asked))?;
        self.clock += 1;
        found.used = self.clock;
        Some(Arc::clone(&found.shape))
    }

    /// Keeps a shape, and drops the shapes that were unused for the longest time if there are too
    /// many.
    fn keep(&mut self, of: &Description<'_>, shape: &Arc<Shape>) {
        let entry = Entry {
            entries: of.entries.into(),
            extent: of.extent,
            count: of.count,
            shape: Arc::clone(shape),
            used: self.clock + 1,
        };
        let size = entry.size();
        if size > MOST_BYTES || entry.entries.is_empty() {
            return;
        }
        while self.entries.len() == MOST || self.bytes + size > MOST_BYTES {
            let oldest = (0..self.entries.len()).min_by_key(|at| self.entries[*at].used);
            let Some(oldest) = oldest else {
                return;
            };
            self.bytes -= self.entries.swap_remove(oldest).size();
        }
        self.clock += 1;
        self.bytes += size;
        self.entries.push(entry);
    }
}

/// The shape of such items: found by an earlier call, or by `walk`.
pub(crate) fn of<E>(
    asked: &Description<'_>,
    walk: impl FnOnce() -> Result<Shape, E>,
) -> Result<Arc<Shape>, E> {
    // A thread that is ending keeps no shapes.
    let kept = KEPT.try_with(|kept| kept.borrow_mut().find(asked));
    if let Ok(Some(shape)) = kept {
        return Ok(shape);
    }
    found_by(asked, walk)
}

#[cold]
#[inline(never)]
fn found_by<E>(
    asked: &Description<'_>,
    walk: impl FnOnce() -> Result<Shape, E>,
) -> Result<Arc<Shape>, E> {
    let shape = Arc::new(walk()?);
    let _ = KEPT.try_with(|kept| kept.borrow_mut().keep(asked, &shape));
    Ok(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of blocks of `length` elements, at a distance of `stride` bytes.
    fn blocks(count: u32, length: usize, stride: isize, disp: isize) -> ffi::dt_elem_desc {
        ffi::dt_elem_desc {
            elem: ffi::ddt_elem_desc {
                common: ffi::ddt_elem_id_description {
                    flags: 0x100,
                    type_: ffi::OPAL_DATATYPE_FLOAT8 as u16,
                },
                count: count as _,
                blocklen: length as _,
                extent: stride as _,
                disp: disp as _,
            },
        }
    }

    fn described(entries: &[ffi::dt_elem_desc]) -> Description<'_> {
        Description {
            entries,
            extent: 800,
            count: 1,
        }
    }

    fn shape(runs: &[(isize, usize)]) -> Shape {
        let runs = runs.iter().map(|(offset, len)| Bytes {
            offset: *offset,
            len: *len,
        });
        Shape::new(runs.collect()).expect("a shape")
    }

    /// The number of walks over the runs of these types.
    fn walks<'a>(asked: impl IntoIterator<Item = Description<'a>>) -> usize {
        let mut walks = 0;
        for asked in asked {
            let found = of(&asked, || {
                walks += 1;
                Ok::<_, ()>(shape(&[(0, 8), (16, 8)]))
            });
            assert_eq!(found.expect("a shape").len(), 16);
        }
        walks
    }

    #[test]
    fn a_type_that_says_the_same_is_walked_once() {
        let first = [blocks(2, 1, 16, 0)];
        let again = first;
        assert_eq!(
            walks([described(&first), described(&again), described(&first)]),
            1
        );
    }

    #[test]
    fn a_type_at_the_place_of_another_is_walked_itself() {
        let mut place = [blocks(2, 1, 16, 0), blocks(1, 1, 8, 64)];
        assert_eq!(walks([described(&place)]), 1);
        for (at, other) in [
            (1, blocks(1, 1, 8, 72)),
            (1, blocks(1, 2, 8, 64)),
            (0, blocks(3, 1, 16, 0)),
            (0, blocks(2, 1, 24, 0)),
        ] {
            place[at] = other;
            assert_eq!(walks([described(&place)]), 1);
        }
        let asked = described(&place);
        assert_eq!(walks([asked]), 0);
        assert_eq!(walks([Description { count: 2, ..asked }]), 1);
        assert_eq!(
            walks([Description {
                extent: 808,
                ..asked
            }]),
            1
        );
    }

    #[test]
    fn loops_are_compared_without_what_nobody_wrote() {
        let common = ffi::ddt_elem_id_description {
            flags: 0,
            type_: ffi::OPAL_DATATYPE_LOOP as u16,
        };
        let of_loop = |loops: u32, unused: usize| ffi::dt_elem_desc {
            loop_: ffi::ddt_loop_desc {
                common,
                items: 2,
                loops,
                unused: unused as _,
                extent: 64,
            },
        };
        assert!(are_alike(&of_loop(3, 0), &of_loop(3, 1)));
        assert!(!are_alike(&of_loop(3, 0), &of_loop(4, 0)));
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_goes_first() {
        let all: Vec<_> = (0..=MOST)
            .map(|at| [blocks(2, 1, 16, at as isize)])
            .collect();
        assert_eq!(walks(all[..MOST].iter().map(|one| described(one))), MOST);
        assert_eq!(walks([described(&all[0])]), 0);
        assert_eq!(walks([described(&all[MOST])]), 1);
        assert_eq!(walks([described(&all[0])]), 0, "used after the second");
        assert_eq!(walks([described(&all[1])]), 1);
    }

    #[test]
    fn bytes_are_bounded() {
        let mut kept = Kept::new();
        let runs = |count: isize| (0..count).map(|at| (at * 16, 8)).collect::<Vec<_>>();
        let large = Arc::new(shape(&runs(10_000)));
        let entries: Vec<_> = (0..4).map(|at| [blocks(10_000, 1, 16, at)]).collect();
        for entries in &entries {
            kept.keep(&described(entries), &large);
            let bytes: usize = kept.entries.iter().map(Entry::size).sum();
            assert!(bytes == kept.bytes && bytes <= MOST_BYTES, "{bytes}");
        }
        assert_eq!(kept.entries.len(), 2);
        assert!(kept.find(&described(&entries[3])).is_some());
        let too_large = Arc::new(shape(&runs(30_000)));
        kept.keep(&described(&entries[0]), &too_large);
        kept.keep(&described(&[]), &large);
        assert_eq!(kept.entries.len(), 2, "nothing went for what is not kept");
    }

    #[test]
    fn a_shape_has_a_layout_of_each_type_whose_elements_fit() {
        let shape = shape(&[(-8, 8), (4, 4)]);
        assert_eq!((shape.begin(), shape.len()), (-8, 12));
        for _ in 0..2 {
            for (datatype, count) in [
                (Datatype::Int32, Some(3)),
                (Datatype::Double, None),
                (Datatype::Uint8, Some(12)),
            ] {
                let layout = shape.layout(datatype).expect("no error");
                assert_eq!(layout.map(|layout| layout.count()), count);
            }
        }
    }
}

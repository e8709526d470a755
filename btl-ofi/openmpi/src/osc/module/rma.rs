//! Puts and gets.

use std::ffi::{c_int, c_void};

use osc_engine::door::is_looked_for;
use osc_engine::win::{Datatype, Layout, Run, Target, WinResult};

use super::Module;
use super::rows::rows;
use crate::bindings as ffi;
use crate::osc::convert::{Runs, plain};
use crate::osc::error;
use crate::osc::shape::{Bytes, Shape};
use crate::series::Count;

/// A buffer of the program: address, count, type.
#[derive(Clone, Copy)]
pub(super) struct Buffer {
    pub(super) address: *mut c_void,
    pub(super) count: Count,
    pub(super) datatype: *mut ffi::ompi_datatype_t,
}

/// The target's side of a call.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) rank: usize,
    /// In units of the target.
    pub(super) displacement: isize,
    pub(super) count: Count,
    pub(super) datatype: *mut ffi::ompi_datatype_t,
}

/// One side of a call to the engine: its beginning, from the buffer's address or the displacement on, and its layout.
#[derive(Clone)]
pub(super) struct Side {
    pub(super) begin: isize,
    pub(super) layout: Layout,
}

/// Runs of bytes as elements of a type, if their distances are multiples of the element size.
pub(super) fn side(runs: &Runs, datatype: Datatype) -> WinResult<Option<Side>> {
    match runs {
        Runs::One(Bytes { offset, len }) => {
            let fits = len.is_multiple_of(datatype.size());
            Ok(fits.then(|| Side {
                begin: *offset,
                layout: Layout::contiguous(datatype, len / datatype.size()),
            }))
        }
        Runs::Many(shape) => side_of_many(shape, datatype),
    }
}

fn side_of_many(shape: &Shape, datatype: Datatype) -> WinResult<Option<Side>> {
    let layout = shape.layout(datatype)?;
    Ok(layout.map(|layout| Side {
        begin: shape.begin(),
        layout,
    }))
}

/// As [`side`], for the runs of a buffer of the program. The addresses in a type (MPI_BOTTOM) may lie in part on the host
/// and in part on devices. Then each run is looked up separately.
pub(super) fn local_side(
    address: *mut c_void,
    runs: &Runs,
    datatype: Datatype,
) -> WinResult<Option<Side>> {
    let Runs::Many(shape) = runs else {
        return side(runs, datatype);
    };
    if !address.is_null() || !is_looked_for() {
        return side_of_many(shape, datatype);
    }
    let (runs, size) = (shape.runs(), datatype.size());
    if runs.iter().any(|run| !run.len.is_multiple_of(size)) {
        return Ok(None);
    }
    let named = runs.iter().map(|run| Run {
        pointer: std::ptr::with_exposed_provenance_mut(run.offset as usize),
        length: run.len / size,
    });
    let layout = Layout::absolute(datatype, &named.collect::<Vec<_>>())?;
    Ok(Some(Side { begin: 0, layout }))
}

/// Runs at the target as bytes.
pub(super) fn bytes(runs: &Runs) -> Result<Side, c_int> {
    whole(side(runs, Datatype::Uint8))
}

/// Runs of a buffer of the program as bytes.
pub(super) fn local_bytes(address: *mut c_void, runs: &Runs) -> Result<Side, c_int> {
    whole(local_side(address, runs, Datatype::Uint8))
}

fn whole(side: WinResult<Option<Side>>) -> Result<Side, c_int> {
    let side = side.map_err(|error| error::code(&error))?;
    side.ok_or(ffi::OMPI_ERROR)
}

/// Both sides of a put or get of equal contiguous elements, at least one: most calls have this form, and it is found without a
/// look at type maps.
#[inline(always)]
fn row(origin: &Buffer, place: &Place) -> Option<Side> {
    if origin.datatype != place.datatype || origin.count != place.count {
        return None;
    }
    let (datatype, count) = plain(place.datatype, place.count)?;
    (count > 0).then(|| Side {
        begin: 0,
        layout: Layout::contiguous(Datatype::Uint8, count * datatype.size()),
    })
}

/// Both sides of a put or get for the engine; `None` without bytes to move.
pub(super) fn converted(origin: Buffer, place: Place) -> Result<Option<(Side, Side)>, c_int> {
    match row(&origin, &place) {
        Some(side) => Ok(Some((side.clone(), side))),
        None => converted_by_maps(origin, place),
    }
}

fn converted_by_maps(origin: Buffer, place: Place) -> Result<Option<(Side, Side)>, c_int> {
    let theirs = Runs::of(place.datatype, place.count)?;
    let mine = match origin.datatype == place.datatype && origin.count == place.count {
        true => theirs.clone(),
        false => Runs::of(origin.datatype, origin.count)?,
    };
    let (theirs, mine) = (bytes(&theirs)?, local_bytes(origin.address, &mine)?);
    if theirs.layout.bytes() != mine.layout.bytes() {
        return Err(ffi::MPI_ERR_TRUNCATE as c_int);
    }
    Ok((mine.layout.bytes() > 0).then_some((mine, theirs)))
}

impl Module {
    #[inline]
    pub(super) fn put(&self, origin: Buffer, place: Place) -> error::Code {
        self.move_bytes::<true>(origin, place)
    }

    #[inline]
    pub(super) fn get(&self, origin: Buffer, place: Place) -> error::Code {
        self.move_bytes::<false>(origin, place)
    }

    #[inline(always)]
    fn move_bytes<const PUT: bool>(&self, origin: Buffer, place: Place) -> error::Code {
        match row(&origin, &place) {
            Some(side) => self.move_between::<PUT>(origin, place, (&side, &side)),
            None => self.move_by_maps::<PUT>(origin, place),
        }
    }

    #[inline(never)]
    fn move_by_maps<const PUT: bool>(&self, origin: Buffer, place: Place) -> error::Code {
        match converted_by_maps(origin, place)? {
            Some((mine, theirs)) => self.move_between::<PUT>(origin, place, (&mine, &theirs)),
            None => Ok(()),
        }
    }

    #[inline(always)]
    fn move_between<const PUT: bool>(
        &self,
        origin: Buffer,
        place: Place,
        (mine, theirs): (&Side, &Side),
    ) -> error::Code {
        let at = origin.address.cast::<u8>().wrapping_offset(mine.begin);
        let target = self.target(place, theirs)?;
        let window = self.window()?;
        // SAFETY: MPI binds the program's buffer until the operation is complete.
        let outcome = unsafe {
            match PUT {
                true => window.put(at, &mine.layout, target),
                false => window.get(at, &mine.layout, target),
            }
        };
        match outcome {
            Err(error) if self.may_span_regions(&error) => self.move_rows::<PUT>(origin, place),
            outcome => outcome.map_err(|error| error::code(&error)),
        }
    }

    /// A put or get whose target lies in several attached regions.
    #[cold]
    pub(super) fn move_rows<const PUT: bool>(&self, origin: Buffer, place: Place) -> error::Code {
        let theirs = Runs::of(place.datatype, place.count)?;
        let mine = Runs::of(origin.datatype, origin.count)?;
        let window = self.window()?;
        for row in self.in_regions(place, rows(&theirs, Some(&mine), None), 1)? {
            let layout = Layout::contiguous(Datatype::Uint8, row.len);
            let target = Target {
                rank: place.rank,
                displacement: self.displacement(place.rank, place.displacement, row.target)?,
                layout: &layout,
            };
            let at = origin.address.cast::<u8>().wrapping_offset(row.origin);
            // SAFETY: MPI binds the program's buffer until the operation is complete.
            let outcome = unsafe {
                match PUT {
                    true => window.put(at, &layout, target),
                    false => window.get(at, &layout, target),
                }
            };
            outcome.map_err(|error| error::code(&error))?;
        }
        Ok(())
    }

    /// The target's side for the engine.
    #[inline]
    pub(super) fn target<'a>(&self, place: Place, side: &'a Side) -> Result<Target<'a>, c_int> {
        Ok(Target {
            rank: place.rank,
            displacement: self.displacement(place.rank, place.displacement, side.begin)?,
            layout: &side.layout,
        })
    }
}

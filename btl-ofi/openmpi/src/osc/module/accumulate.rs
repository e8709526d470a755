//! Accumulates. The element type alone decides the arithmetic: the engine computes types that it knows, and Open MPI's
//! function for operation and type computes all other types.

use std::ffi::{c_int, c_void};

use osc_engine::win::{Custom, CustomOp, Datatype, Layout, Op, Target, WinResult};

use super::Module;
use super::requests::Theirs;
use super::rma::{Buffer, Place, Side, bytes, local_bytes, local_side, side};
use super::rows::{Row, rows};
use crate::bindings as ffi;
use crate::osc::convert::{Element, Runs, plain};
use crate::osc::error::{self, Code};
use crate::osc::ops::{self, Operation, operation};
use crate::osc::request;

/// The arguments of an accumulate from Open MPI.
#[derive(Clone, Copy)]
pub(super) struct Update {
    pub(super) origin: Buffer,
    /// The buffer for the target's previous elements; none for a call that fetches nothing.
    pub(super) result: Option<Buffer>,
    pub(super) place: Place,
    pub(super) op: *mut ffi::ompi_op_t,
}

/// The runs of an accumulate's sides.
struct Parts {
    element: Element,
    operation: Operation,
    target: Runs,
    /// `None` if the operation takes no operand.
    origin: Option<Runs>,
    result: Option<Runs>,
}

impl Update {
    /// The shape of most calls, found without a look at type maps: elements of a type that the engine knows, contiguous on all
    /// sides.
    #[inline]
    fn plain(&self) -> Option<(Layout, Op)> {
        let Place {
            datatype, count, ..
        } = self.place;
        let is_alike = |buffer: &Buffer| buffer.datatype == datatype && buffer.count == count;
        let Ok(Operation::Known(op)) = operation(self.op) else {
            return None;
        };
        if !(op == Op::NoOp || is_alike(&self.origin)) || !self.result.as_ref().is_none_or(is_alike)
        {
            return None;
        }
        let (datatype, count) = plain(datatype, count)?;
        Some((Layout::contiguous(datatype, count), op))
    }

    /// `None` if the target has no element.
    fn parts(&self) -> Result<Option<Parts>, c_int> {
        let operation = operation(self.op)?;
        let target = Runs::of(self.place.datatype, self.place.count)?;
        let bytes = target.len();
        if bytes == 0 {
            return Ok(None);
        }
        let element = Element::of(self.place.datatype).ok_or(ffi::MPI_ERR_TYPE as c_int)?;
        let takes_operand = operation != Operation::Known(Op::NoOp);
        let runs = |buffer: Buffer| Runs::of(buffer.datatype, buffer.count);
        let origin = takes_operand.then(|| runs(self.origin)).transpose()?;
        let result = self.result.map(runs).transpose()?;
        let equal = |runs: &Option<Runs>| runs.as_ref().is_none_or(|runs| runs.len() == bytes);
        if !equal(&origin) || !equal(&result) {
            return Err(ffi::MPI_ERR_TRUNCATE as c_int);
        }
        Ok(Some(Parts {
            element,
            operation,
            target,
            origin,
            result,
        }))
    }
}

/// The sides of an accumulate of a type that the engine knows.
struct Sides {
    target: Side,
    origin: Side,
    result: Option<Side>,
}

impl Parts {
    /// The element type and the operation, if the engine knows this type and this operation.
    fn known(&self) -> Option<(Datatype, Op)> {
        match self.operation {
            Operation::Known(op) => self.element.known.map(|datatype| (datatype, op)),
            Operation::Other => None,
        }
    }

    /// The sides, if the distances of elements on each side are multiples of the element size.
    fn sides(&self, update: &Update, datatype: Datatype) -> WinResult<Option<Sides>> {
        let Some(target) = side(&self.target, datatype)? else {
            return Ok(None);
        };
        let origin = match &self.origin {
            Some(runs) => local_side(update.origin.address, runs, datatype)?,
            None => Some(Side {
                begin: 0,
                layout: Layout::contiguous(datatype, target.layout.count()),
            }),
        };
        let result = match self.result.as_ref().zip(update.result) {
            Some((runs, buffer)) => local_side(buffer.address, runs, datatype)?.map(Some),
            None => Some(None),
        };
        Ok(origin.zip(result).map(|(origin, result)| Sides {
            target,
            origin,
            result,
        }))
    }

    fn rows(&self) -> Vec<Row> {
        rows(&self.target, self.origin.as_ref(), self.result.as_ref())
    }
}

fn at(buffer: Option<Buffer>, offset: isize) -> *mut u8 {
    match buffer {
        Some(buffer) => buffer.address.cast::<u8>().wrapping_offset(offset),
        None => std::ptr::null_mut(),
    }
}

impl Module {
    pub(super) fn update(&self, update: &Update) -> Code {
        match update.plain() {
            Some((layout, op)) => self.update_plain(update, &layout, op),
            None => self.update_any(update),
        }
    }

    #[inline(always)]
    fn update_plain(&self, update: &Update, layout: &Layout, op: Op) -> Code {
        // Without elements, the displacement means nothing.
        if layout.bytes() == 0 {
            return Ok(());
        }
        let Place {
            rank, displacement, ..
        } = update.place;
        let target = Target {
            rank,
            displacement: self.displacement(rank, displacement, 0)?,
            layout,
        };
        let window = self.window()?;
        let origin = match op {
            Op::NoOp => std::ptr::null(),
            _ => update.origin.address.cast::<u8>().cast_const(),
        };
        // SAFETY: MPI binds the program's buffers until the operation is complete.
        let outcome = unsafe {
            match update.result {
                None => window.accumulate(origin, layout, target, op),
                Some(result) => {
                    let result = result.address.cast();
                    window.get_accumulate(origin, layout, result, layout, target, op)
                }
            }
        };
        match outcome {
            Err(error) if self.may_span_regions(&error) => self.update_any(update),
            outcome => outcome.map_err(|error| error::code(&error)),
        }
    }

    #[inline(never)]
    fn update_any(&self, update: &Update) -> Code {
        let Some(parts) = update.parts()? else {
            return Ok(());
        };
        let Some((datatype, op)) = parts.known() else {
            return self.update_by_function(update, &parts);
        };
        let sides = parts.sides(update, datatype);
        let sides = sides.map_err(|error| error::code(&error))?;
        let Some(sides) = sides else {
            return self.update_in_rows(update, &parts, (datatype, op));
        };
        let target = self.target(update.place, &sides.target)?;
        let origin = parts.origin.as_ref().map(|_| update.origin);
        let origin = at(origin, sides.origin.begin).cast_const();
        let window = self.window()?;
        // SAFETY: MPI binds the program's buffers until the operation is complete.
        let outcome = unsafe {
            match (&sides.result, update.result) {
                (Some(result), Some(buffer)) => window.get_accumulate(
                    origin,
                    &sides.origin.layout,
                    at(Some(buffer), result.begin),
                    &result.layout,
                    target,
                    op,
                ),
                _ => window.accumulate(origin, &sides.origin.layout, target, op),
            }
        };
        match outcome {
            Err(error) if self.may_span_regions(&error) => {
                self.update_in_rows(update, &parts, (datatype, op))
            }
            outcome => outcome.map_err(|error| error::code(&error)),
        }
    }

    /// An accumulate with a request.
    pub(super) fn request_update(&self, update: &Update, win: *mut ffi::ompi_win_t) -> Theirs {
        let Some(parts) = update.parts()? else {
            return Ok(request::over());
        };
        let sides = match parts.known() {
            Some((datatype, op)) => {
                let sides = parts.sides(update, datatype);
                let sides = sides.map_err(|error| error::code(&error))?;
                sides.map(|sides| (sides, op))
            }
            None => None,
        };
        let Some((sides, op)) = sides else {
            self.update(update)?;
            return self.over_after_flush(update.place);
        };
        let target = self.target(update.place, &sides.target)?;
        let origin = parts.origin.as_ref().map(|_| update.origin);
        let origin = at(origin, sides.origin.begin).cast_const();
        let window = self.window()?;
        // SAFETY: MPI binds the program's buffers until the operation is complete.
        let issued = unsafe {
            match (&sides.result, update.result) {
                (Some(result), Some(buffer)) => window.rget_accumulate(
                    origin,
                    &sides.origin.layout,
                    at(Some(buffer), result.begin),
                    &result.layout,
                    target,
                    op,
                ),
                _ => window.raccumulate(origin, &sides.origin.layout, target, op),
            }
        };
        if let Err(error) = &issued
            && self.may_span_regions(error)
        {
            self.update(update)?;
            return self.over_after_flush(update.place);
        }
        self.request(issued, win)
    }

    /// Updates elements at any places, row by row.
    #[cold]
    fn update_in_rows(
        &self,
        update: &Update,
        parts: &Parts,
        (datatype, op): (Datatype, Op),
    ) -> Code {
        let window = self.window()?;
        for row in self.in_regions(update.place, parts.rows(), datatype.size())? {
            let layout = Layout::contiguous(datatype, row.len / datatype.size());
            let target = Target {
                rank: update.place.rank,
                displacement: self.displacement(
                    update.place.rank,
                    update.place.displacement,
                    row.target,
                )?,
                layout: &layout,
            };
            let from = at(parts.origin.as_ref().map(|_| update.origin), row.origin);
            // SAFETY: MPI binds the program's buffers until the operation is complete.
            let outcome = unsafe {
                match update.result {
                    Some(buffer) => {
                        let to = at(Some(buffer), row.result);
                        window.get_accumulate(from, &layout, to, &layout, target, op)
                    }
                    None => window.accumulate(from, &layout, target, op),
                }
            };
            outcome.map_err(|error| error::code(&error))?;
        }
        Ok(())
    }

    /// Makes updates that the engine cannot compute, by Open MPI's function.
    #[cold]
    fn update_by_function(&self, update: &Update, parts: &Parts) -> Code {
        let op = match parts.operation {
            Operation::Known(Op::NoOp) => CustomOp::NoOp,
            Operation::Known(Op::Replace) => CustomOp::Replace,
            _ => CustomOp::Combine(ops::code(update.op, parts.element.datatype)?),
        };
        let custom = Custom {
            size: parts.element.size,
            op,
        };
        let target = bytes(&parts.target)?;
        let side = |runs: &Option<Runs>, buffer: Option<Buffer>| {
            let sides = runs.as_ref().zip(buffer);
            let side = sides.map(|(runs, buffer)| local_bytes(buffer.address, runs));
            side.transpose()
        };
        let origin = side(&parts.origin, Some(update.origin))?;
        let result = side(&parts.result, update.result)?;
        let origin = match &origin {
            Some(side) => (
                at(Some(update.origin), side.begin).cast_const(),
                &side.layout,
            ),
            None => (std::ptr::null(), &target.layout),
        };
        let result = result
            .as_ref()
            .map(|side| (at(update.result, side.begin), &side.layout));
        let place = self.target(update.place, &target)?;
        // SAFETY: MPI binds the program's buffers until the operation is complete.
        let issued = unsafe {
            self.window()?
                .accumulate_custom(custom, origin, result, place)
        };
        issued.map_err(|error| error::code(&error))
    }

    pub(super) fn compare_and_swap(
        &self,
        (origin, compare, result): (*const c_void, *const c_void, *mut c_void),
        place: Place,
    ) -> Code {
        let element = Element::of(place.datatype).ok_or(ffi::MPI_ERR_TYPE as c_int)?;
        let Some(datatype) = element.known.filter(|known| !known.is_float()) else {
            return Err(ffi::MPI_ERR_TYPE as c_int);
        };
        let at = self.displacement(place.rank, place.displacement, 0)?;
        // SAFETY: MPI binds the program's buffers, of one element each, until the operation is complete.
        let outcome = unsafe {
            self.window()?.compare_and_swap(
                origin.cast(),
                compare.cast(),
                result.cast(),
                datatype,
                place.rank,
                at,
            )
        };
        outcome.map_err(|error| error::code(&error))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::osc::shape::{Bytes, Shape};

    fn runs(of: &[(isize, usize)]) -> Runs {
        let runs = of.iter().map(|(offset, len)| Bytes {
            offset: *offset,
            len: *len,
        });
        Runs::Many(Arc::new(Shape::new(runs.collect()).expect("a shape")))
    }

    #[test]
    fn elements_lie_at_whole_elements_or_apart() {
        let parts = Parts {
            element: Element {
                datatype: std::ptr::null_mut(),
                known: Some(Datatype::Int32),
                size: 4,
            },
            operation: Operation::Known(Op::Sum),
            target: runs(&[(0, 8), (21, 4)]),
            origin: Some(runs(&[(-3, 4), (5, 8)])),
            result: None,
        };
        let datatype = std::ptr::null_mut();
        let origin = Buffer {
            address: std::ptr::dangling_mut::<u32>().cast(),
            count: 1,
            datatype,
        };
        let place = Place {
            rank: 0,
            displacement: 0,
            count: 1,
            datatype,
        };
        let update = Update {
            origin,
            result: None,
            place,
            op: std::ptr::null_mut(),
        };
        let sides = parts.sides(&update, Datatype::Int32).expect("no error");
        assert!(sides.is_none(), "21 is not a whole element from 0");
    }
}

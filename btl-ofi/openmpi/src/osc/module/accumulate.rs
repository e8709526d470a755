//! Accumulates. The element type alone decides who changes an element: the engine, of types that it knows, each element by one
//! atomic or under the target's lock; of all others Open MPI's own function for operation and type, under the target's lock.

use std::ffi::{c_int, c_void};

use osc_engine::win::{Datatype, Layout, Op, Target, WinResult};

use super::Module;
use super::requests::Theirs;
use super::rma::{Buffer, Place, Side, bytes as in_bytes, side};
use super::rows::{Row, rows};
use crate::bindings as ffi;
use crate::osc::convert::{Element, Runs};
use crate::osc::error::{self, Code};
use crate::osc::ops::{Operation, operation};
use crate::osc::request;

/// An accumulate as Open MPI passes it.
#[derive(Clone, Copy)]
pub(super) struct Update {
    pub(super) origin: Buffer,
    /// Where what was at the target goes; none for a call that fetches nothing.
    pub(super) result: Option<Buffer>,
    pub(super) place: Place,
    pub(super) op: *mut ffi::ompi_op_t,
}

/// An accumulate, looked at.
struct Parts {
    element: Element,
    operation: Operation,
    target: Runs,
    /// None where the operation takes no operand.
    origin: Option<Runs>,
    result: Option<Runs>,
}

impl Update {
    /// Nothing where no element is at the target.
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
    /// The element type and the operation, if the engine knows both.
    fn known(&self) -> Option<(Datatype, Op)> {
        match self.operation {
            Operation::Known(op) => self.element.known.map(|datatype| (datatype, op)),
            Operation::Other => None,
        }
    }

    /// The sides, if on each of them elements lie at whole elements from each other.
    fn sides(&self, datatype: Datatype) -> WinResult<Option<Sides>> {
        let Some(target) = side(&self.target, datatype)? else {
            return Ok(None);
        };
        let origin = match &self.origin {
            Some(runs) => side(runs, datatype)?,
            None => Some(Side {
                begin: 0,
                layout: Layout::contiguous(datatype, target.layout.count()),
            }),
        };
        let result = match &self.result {
            Some(runs) => side(runs, datatype)?.map(Some),
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
        let Some(parts) = update.parts()? else {
            return Ok(());
        };
        let Some((datatype, op)) = parts.known() else {
            return self.update_by_function(update, &parts);
        };
        let sides = parts.sides(datatype).map_err(|error| error::code(&error))?;
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
                let sides = parts.sides(datatype).map_err(|error| error::code(&error))?;
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

    /// Elements that lie anywhere, row by row.
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

    /// What the engine cannot compute: read, computed by Open MPI's function, and written under the target's lock. Complete when
    /// it returns.
    #[cold]
    fn update_by_function(&self, update: &Update, parts: &Parts) -> Code {
        let bytes = parts.target.len();
        let target = in_bytes(&parts.target)?;
        let mut operand = Aligned::new(bytes);
        if let Some(runs) = &parts.origin {
            // SAFETY: MPI binds the program's buffer through the call.
            unsafe { gather(update.origin.address, runs, operand.bytes()) };
        }
        let mut code = ffi::OMPI_SUCCESS;
        let count = bytes / parts.element.size;
        let mut change = |target: &mut [u8]| -> bool {
            if let (Some(buffer), Some(runs)) = (update.result, &parts.result) {
                // SAFETY: MPI binds the program's buffer through the call.
                unsafe { scatter(target, runs, buffer.address) };
            }
            match parts.operation {
                Operation::Known(Op::NoOp) => return false,
                Operation::Known(Op::Replace) => target.copy_from_slice(operand.bytes()),
                _ => {
                    let mut computed = Aligned::new(bytes);
                    computed.bytes().copy_from_slice(target);
                    // SAFETY: operation and type live through the call; both buffers hold so many elements.
                    code = unsafe {
                        ffi::mca_osc_ofi_host_reduce(
                            update.op,
                            parts.element.datatype,
                            count,
                            operand.bytes().as_ptr().cast(),
                            computed.bytes().as_mut_ptr().cast(),
                        )
                    };
                    target.copy_from_slice(computed.bytes());
                }
            }
            code == ffi::OMPI_SUCCESS
        };
        let place = self.target(update.place, &target)?;
        let changed = self.window()?.change(place, &mut change);
        changed.map_err(|error| error::code(&error))?;
        if code == ffi::OMPI_SUCCESS {
            Ok(())
        } else {
            Err(code)
        }
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

/// Bytes that are aligned for every type.
struct Aligned {
    words: Vec<u128>,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Aligned {
        Aligned {
            words: vec![0; len.div_ceil(size_of::<u128>())],
            len,
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the words have at least so many bytes, of which every pattern is valid.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.len) }
    }
}

/// Copies runs of a buffer to bytes in a row.
///
/// # Safety
/// The buffer is readable there.
unsafe fn gather(buffer: *const c_void, runs: &Runs, mut to: &mut [u8]) {
    for run in runs.as_slice() {
        let (here, rest) = to.split_at_mut(run.len.min(to.len()));
        // SAFETY: the caller's contract.
        unsafe {
            std::ptr::copy_nonoverlapping(
                buffer.cast::<u8>().wrapping_offset(run.offset),
                here.as_mut_ptr(),
                here.len(),
            );
        }
        to = rest;
    }
}

/// Copies bytes in a row to runs of a buffer.
///
/// # Safety
/// The buffer is writable there.
unsafe fn scatter(mut from: &[u8], runs: &Runs, buffer: *mut c_void) {
    for run in runs.as_slice() {
        let (here, rest) = from.split_at(run.len.min(from.len()));
        // SAFETY: the caller's contract.
        unsafe {
            std::ptr::copy_nonoverlapping(
                here.as_ptr(),
                buffer.cast::<u8>().wrapping_offset(run.offset),
                here.len(),
            );
        }
        from = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osc::convert::Bytes;

    fn runs(of: &[(isize, usize)]) -> Runs {
        let runs = of.iter().map(|(offset, len)| Bytes {
            offset: *offset,
            len: *len,
        });
        Runs::Many(runs.collect())
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
        let sides = parts.sides(Datatype::Int32).expect("no error");
        assert!(sides.is_none(), "21 is not a whole element from 0");
    }

    #[test]
    fn gathered_bytes_are_scattered_back() {
        let from: Vec<u8> = (0..12).collect();
        let places = runs(&[(8, 2), (1, 3)]);
        let mut packed = [0; 5];
        // SAFETY: the runs lie inside the buffer.
        unsafe { gather(from.as_ptr().cast(), &places, &mut packed) };
        assert_eq!(packed, [8, 9, 1, 2, 3]);
        let mut back = [0xffu8; 12];
        // SAFETY: the runs lie inside the buffer.
        unsafe { scatter(&packed, &places, back.as_mut_ptr().cast()) };
        assert_eq!(back, [255, 1, 2, 3, 255, 255, 255, 255, 8, 9, 255, 255]);
    }
}

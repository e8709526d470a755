//! Divides transfers into rows. The bytes of a row are contiguous in every buffer and lie in one region of the
//! target.

use std::ffi::c_int;

use osc_engine::win::WinError;

use super::Module;
use super::requests::Theirs;
use super::rma::Place;
use crate::bindings as ffi;
use crate::osc::convert::Runs;
use crate::osc::shape::Bytes;
use crate::osc::{error, request};

/// A row: its offsets from the displacement and from the buffers' addresses, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) target: isize,
    pub(super) origin: isize,
    pub(super) result: isize,
    pub(super) len: usize,
}

/// Returns the rows of a transfer, in the order of the type map. A buffer that the transfer does
/// not use is `None`.
pub(super) fn rows(target: &Runs, origin: Option<&Runs>, result: Option<&Runs>) -> Vec<Row> {
    let mut rows = Vec::new();
    let (mut origin, mut result) = (Walk::new(origin), Walk::new(result));
    for run in target.as_slice() {
        let mut done = 0;
        while done < run.len {
            let len = (run.len - done).min(origin.left()).min(result.left());
            if len == 0 {
                return rows;
            }
            rows.push(Row {
                target: run.offset + done as isize,
                origin: origin.take(len),
                result: result.take(len),
                len,
            });
            done += len;
        }
    }
    rows
}

/// A place in runs.
struct Walk<'a> {
    runs: &'a [Bytes],
    done: usize,
}

impl<'a> Walk<'a> {
    fn new(runs: Option<&'a Runs>) -> Walk<'a> {
        Walk {
            runs: runs.map(Runs::as_slice).unwrap_or_default(),
            done: 0,
        }
    }

    /// Bytes to the end of the run; any number if there are no runs.
    fn left(&self) -> usize {
        self.runs
            .first()
            .map_or(usize::MAX, |run| run.len - self.done)
    }

    /// Takes the next bytes; returns their offset.
    fn take(&mut self, len: usize) -> isize {
        let Some((first, rest)) = self.runs.split_first() else {
            return 0;
        };
        let at = first.offset + self.done as isize;
        self.done += len;
        if self.done == first.len {
            self.done = 0;
            // The last run is kept as the end.
            if !rest.is_empty() {
                self.runs = rest;
            }
        }
        at
    }
}

impl Module {
    /// Whether a call was refused because its target may lie in several attached regions.
    pub(super) fn may_span_regions(&self, error: &WinError) -> bool {
        self.is_dynamic && matches!(error, WinError::NotAttached { .. })
    }

    /// The rows, divided at the ends of attached regions, if the window has any. The error is Open MPI's code: bytes are not
    /// attached, or an element of `size` bytes lies in two regions.
    pub(super) fn in_regions(
        &self,
        place: Place,
        whole: Vec<Row>,
        size: usize,
    ) -> Result<Vec<Row>, c_int> {
        if !self.is_dynamic {
            return Ok(whole);
        }
        let window = self.window()?;
        let mut rows = Vec::with_capacity(whole.len());
        for mut row in whole {
            while row.len > 0 {
                let address = self.displacement(place.rank, place.displacement, row.target)?;
                let rest = window.attached(place.rank, address);
                let rest = rest.map_err(|error| error::code(&error))?;
                let len = row.len.min(usize::try_from(rest).unwrap_or(usize::MAX));
                if len % size != 0 {
                    return Err(ffi::OMPI_ERR_RMA_RANGE);
                }
                rows.push(Row { len, ..row });
                row = Row {
                    target: row.target + len as isize,
                    origin: row.origin + len as isize,
                    result: row.result + len as isize,
                    len: row.len - len,
                };
            }
        }
        Ok(rows)
    }

    /// The request of a call that was divided into several operations. The request is complete when all of these
    /// operations are complete at the origin.
    pub(super) fn over_after_flush(&self, place: Place) -> Theirs {
        let flushed = self.window()?.flush_local(place.rank);
        flushed.map_err(|error| error::code(&error))?;
        Ok(request::over())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::osc::shape::Shape;

    fn runs(of: &[(isize, usize)]) -> Runs {
        let runs = of.iter().map(|(offset, len)| Bytes {
            offset: *offset,
            len: *len,
        });
        Runs::Many(Arc::new(Shape::new(runs.collect()).expect("a shape")))
    }

    #[test]
    fn rows_end_where_a_run_of_any_side_ends() {
        let row = |target, origin, len| Row {
            target,
            origin,
            result: 0,
            len,
        };
        let target = runs(&[(0, 8), (21, 4)]);
        let origin = runs(&[(-3, 4), (5, 8)]);
        let found = rows(&target, Some(&origin), None);
        assert_eq!(found, [row(0, -3, 4), row(4, 5, 4), row(21, 9, 4)]);
    }
}

//! Converts datatypes of MPI to runs of bytes, and to runs of elements of types that the engine knows.

use std::ffi::{c_int, c_void};
use std::ptr::null;
use std::sync::Arc;

use plugin_api::Datatype;

use crate::bindings as ffi;
use crate::osc::error;
use crate::osc::shape::{self, Bytes, Description, Shape};
use crate::series::Count;

/// The places of the bytes of `count` items of a type, in the order of the type map.
#[derive(Clone, Debug)]
pub(crate) enum Runs {
    /// Contiguous.
    One(Bytes),
    /// In several runs.
    Many(Arc<Shape>),
}

impl Runs {
    /// The runs of `count` items of a type. An error is Open MPI's code.
    pub(crate) fn of(datatype: *mut ffi::ompi_datatype_t, count: Count) -> Result<Runs, c_int> {
        let count = counted(count)?;
        let mut items = ffi::mca_osc_ofi_host_items {
            begin: 0,
            bytes: 0,
            in_a_row: false,
            entries: null(),
            entry_count: 0,
            extent: 0,
        };
        // SAFETY: Open MPI passes types that live through the call; `items` is writable.
        unsafe { ffi::mca_osc_ofi_host_items(datatype, count, &mut items) };
        if items.bytes == 0 || items.in_a_row {
            return Ok(Runs::One(Bytes {
                offset: items.begin,
                len: items.bytes,
            }));
        }
        let entries = match items.entries.is_null() {
            true => &[],
            // SAFETY: these are the entries of the type's description, which live and do not change as long as the type, and so
            // through the call.
            false => unsafe { std::slice::from_raw_parts(items.entries, items.entry_count) },
        };
        let description = Description {
            entries,
            extent: items.extent,
            count,
        };
        let shape = shape::of(&description, || {
            Shape::new(visited(datatype, count)?).map_err(|error| error::code(&error))
        })?;
        Ok(match *shape.runs() {
            [one] => Runs::One(one),
            _ => Runs::Many(shape),
        })
    }

    /// The runs.
    pub(crate) fn as_slice(&self) -> &[Bytes] {
        match self {
            Runs::One(run) => std::slice::from_ref(run),
            Runs::Many(shape) => shape.runs(),
        }
    }

    /// Bytes of all runs.
    pub(crate) fn len(&self) -> usize {
        match self {
            Runs::One(run) => run.len,
            Runs::Many(shape) => shape.len(),
        }
    }
}

/// The runs that Open MPI's walk finds.
fn visited(datatype: *mut ffi::ompi_datatype_t, count: usize) -> Result<Vec<Bytes>, c_int> {
    let mut runs: Vec<Bytes> = Vec::new();
    let context: *mut Vec<Bytes> = &mut runs;
    // SAFETY: the type lives through the call; `visit` takes this context.
    let rc = unsafe {
        ffi::mca_osc_ofi_host_runs(datatype, count, Some(visit), context.cast::<c_void>())
    };
    match rc {
        ffi::OMPI_SUCCESS => Ok(runs),
        code => Err(code),
    }
}

/// The elements of `count` items of a predefined type that the engine knows, contiguous from the buffer's address on.
/// `None` for any other type, and for an impossible count.
#[inline]
pub(crate) fn plain(
    datatype: *mut ffi::ompi_datatype_t,
    count: Count,
) -> Option<(Datatype, usize)> {
    // SAFETY: Open MPI passes types that live through the call.
    let id = unsafe { ffi::mca_osc_ofi_host_plain(datatype) };
    let (datatype, count) = known(id).zip(counted(count).ok())?;
    count
        .checked_mul(datatype.size())
        .map(|_| (datatype, count))
}

/// A count of any series.
fn counted(count: impl TryInto<usize>) -> Result<usize, c_int> {
    let counted = count.try_into();
    counted.map_err(|_| ffi::MPI_ERR_COUNT as c_int)
}

unsafe extern "C" fn visit(context: *mut c_void, offset: isize, len: usize) {
    // SAFETY: `visited` passes its vector, which no other code uses meanwhile.
    let runs = unsafe { &mut *context.cast::<Vec<Bytes>>() };
    match runs.last_mut() {
        Some(last) if last.offset + last.len as isize == offset => last.len += len,
        _ if len == 0 => {}
        _ => runs.push(Bytes { offset, len }),
    }
}

/// The predefined type that a type is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    pub(crate) datatype: *mut ffi::ompi_datatype_t,
    /// The engine's type, if the engine has this type.
    pub(crate) known: Option<Datatype>,
    /// Bytes of its values.
    pub(crate) size: usize,
}

impl Element {
    /// The element of a type; `None` if it is made of several predefined types.
    pub(crate) fn of(datatype: *mut ffi::ompi_datatype_t) -> Option<Element> {
        let mut found = ffi::mca_osc_ofi_host_element {
            type_: std::ptr::null_mut(),
            id: -1,
            size: 0,
            extent: 0,
        };
        // SAFETY: Open MPI passes types that live through the call; `found` is writable.
        unsafe { ffi::mca_osc_ofi_host_element(datatype, &mut found) }.then(|| Element {
            datatype: found.type_,
            known: known(found.id).filter(|known| known.size() == found.size),
            size: found.size,
        })
    }
}

/// The engine's type for a number type of Open MPI.
fn known(id: c_int) -> Option<Datatype> {
    Some(match u32::try_from(id).ok()? {
        ffi::OPAL_DATATYPE_INT1 => Datatype::Int8,
        ffi::OPAL_DATATYPE_INT2 => Datatype::Int16,
        ffi::OPAL_DATATYPE_INT4 | ffi::OPAL_DATATYPE_WCHAR => Datatype::Int32,
        ffi::OPAL_DATATYPE_INT8 | ffi::OPAL_DATATYPE_LONG => Datatype::Int64,
        ffi::OPAL_DATATYPE_UINT1 | ffi::OPAL_DATATYPE_BOOL => Datatype::Uint8,
        ffi::OPAL_DATATYPE_UINT2 => Datatype::Uint16,
        ffi::OPAL_DATATYPE_UINT4 => Datatype::Uint32,
        ffi::OPAL_DATATYPE_UINT8 | ffi::OPAL_DATATYPE_UNSIGNED_LONG => Datatype::Uint64,
        ffi::OPAL_DATATYPE_FLOAT4 => Datatype::Float,
        ffi::OPAL_DATATYPE_FLOAT8 => Datatype::Double,
        _ => return None,
    })
}

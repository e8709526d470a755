//! Converts errors of the engine to codes of Open MPI.

use std::ffi::c_int;

use osc_engine::win::WinError;

use crate::bindings as ffi;
use crate::osc::log;

/// The result of a function that Open MPI calls.
pub(crate) type Code = Result<(), c_int>;

/// The code of an error: Open MPI's own are negative, error classes of MPI positive.
#[cold]
#[inline(never)]
pub(crate) fn code(error: &WinError) -> c_int {
    log::verbose(1, || error.to_string());
    match error {
        WinError::OutOfBounds { .. } | WinError::NotAttached { .. } => ffi::OMPI_ERR_RMA_RANGE,
        WinError::NoSuchRank { .. } => ffi::MPI_ERR_RANK as c_int,
        WinError::OutsideEpoch { .. }
        | WinError::WrongTarget { .. }
        | WinError::EpochMisuse { .. }
        | WinError::NotPassive { .. }
        | WinError::LockState { .. } => ffi::OMPI_ERR_RMA_SYNC,
        WinError::InvalidOperation { .. } => ffi::MPI_ERR_OP as c_int,
        WinError::LayoutMismatch { .. } | WinError::InvalidLayout { .. } => {
            ffi::MPI_ERR_ARG as c_int
        }
        WinError::BadArgument { .. } => ffi::MPI_ERR_ARG as c_int,
        WinError::Registration { .. } => ffi::OMPI_ERR_RMA_ATTACH,
        _ => ffi::OMPI_ERROR,
    }
}

/// Converts an outcome to Open MPI's code.
#[inline]
pub(crate) fn outcome(outcome: Code) -> c_int {
    match outcome {
        Ok(()) => ffi::OMPI_SUCCESS,
        Err(code) => code,
    }
}

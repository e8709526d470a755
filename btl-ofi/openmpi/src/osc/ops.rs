//! Operations of MPI as the engine's.

use std::ffi::c_int;

use osc_engine::win::Op;

use crate::bindings as ffi;

/// An operation that accumulates may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// One that the engine computes on types that it knows.
    Known(Op),
    /// Another that MPI predefines: minimum or maximum with its place.
    Other,
}

/// The operation behind Open MPI's pointer; an error for one that a program defined.
pub(crate) fn operation(op: *mut ffi::ompi_op_t) -> Result<Operation, c_int> {
    // SAFETY: Open MPI passes an operation that lives through the call.
    let code = unsafe { ffi::mca_osc_ofi_host_op(op) };
    let known = match u32::try_from(code) {
        Ok(ffi::OMPI_OP_MAX) => Op::Max,
        Ok(ffi::OMPI_OP_MIN) => Op::Min,
        Ok(ffi::OMPI_OP_SUM) => Op::Sum,
        Ok(ffi::OMPI_OP_PROD) => Op::Prod,
        Ok(ffi::OMPI_OP_LAND) => Op::Land,
        Ok(ffi::OMPI_OP_BAND) => Op::Band,
        Ok(ffi::OMPI_OP_LOR) => Op::Lor,
        Ok(ffi::OMPI_OP_BOR) => Op::Bor,
        Ok(ffi::OMPI_OP_LXOR) => Op::Lxor,
        Ok(ffi::OMPI_OP_BXOR) => Op::Bxor,
        Ok(ffi::OMPI_OP_REPLACE) => Op::Replace,
        Ok(ffi::OMPI_OP_NUM_OF_TYPES) => Op::NoOp,
        Ok(ffi::OMPI_OP_MAXLOC | ffi::OMPI_OP_MINLOC) => return Ok(Operation::Other),
        _ => return Err(ffi::MPI_ERR_OP as c_int),
    };
    Ok(Operation::Known(known))
}

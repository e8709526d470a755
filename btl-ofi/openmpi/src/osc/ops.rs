//! Converts operations of MPI to operations of the engine.

use std::ffi::c_int;

use osc_engine::win::Op;
use plugin_api::Status;

use crate::bindings as ffi;

/// The operation of an accumulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// An operation that the engine computes on types that it knows.
    Known(Op),
    /// Another predefined operation of MPI: minimum or maximum with its place.
    Other,
}

/// The operation behind Open MPI's pointer; an error for an operation that a program defined.
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

/// The code of an operation on a predefined type for [`combine`], the same in all processes; an error if it is not defined.
pub(crate) fn code(
    op: *mut ffi::ompi_op_t,
    datatype: *mut ffi::ompi_datatype_t,
) -> Result<u32, c_int> {
    // SAFETY: Open MPI passes objects that live through the call.
    let code = unsafe { ffi::mca_osc_ofi_host_code(op, datatype) };
    u32::try_from(code).map_err(|_| ffi::MPI_ERR_OP as c_int)
}

/// Open MPI's functions as the engine's [`CombineFn`](osc_engine::base::CombineFn).
///
/// # Safety
/// As for [`CombineFn`](osc_engine::base::CombineFn).
pub(crate) unsafe fn combine(
    code: u32,
    size: usize,
    elements: *mut u8,
    operands: *const u8,
    count: usize,
) -> Status {
    let Ok(code) = c_int::try_from(code) else {
        return Status::NOT_SUPPORTED;
    };
    // SAFETY: the caller guarantees both buffers; the function refuses codes without an operation of this
    // size.
    let rc = unsafe {
        ffi::mca_osc_ofi_host_reduce(code, size, count, operands.cast(), elements.cast())
    };
    match rc {
        ffi::OMPI_SUCCESS => Status::SUCCESS,
        ffi::OMPI_ERR_OUT_OF_RESOURCE => Status::OUT_OF_RESOURCE,
        _ => Status::NOT_SUPPORTED,
    }
}

//! Operations that a C program defines for its reductions.

use std::ffi::{c_int, c_void};

use host::coll::{ReduceOp, UserOp};

use crate::base::codes::{reduce_op, reduce_op_code};
use crate::base::error::{Error, guarded};
use crate::base::handles::place;

/// Combines elements: right[i] = left[i] op right[i] for `count` elements of `size` bytes each. The operation is
/// associative. Any thread that makes progress calls it; it calls nothing of the host. Elements lie in memory of
/// the host, whatever the program's buffers are, at addresses that are multiples of their size if the size is a power of
/// two up to 8 and the buffers of the program are aligned so.
pub type host_op_fn = Option<
    unsafe extern "C" fn(
        left: *const c_void,
        right: *mut c_void,
        count: usize,
        size: usize,
        data: *mut c_void,
    ),
>;

/// Defines an operation for reductions, on elements of any type. `commutes` is not 0 where operands may be combined in any
/// order; otherwise they are combined in the order of the ranks. Every rank creates its own: what is compared among ranks
/// is that all reduce by an operation of the program. The same function with the same data is the same operation, and
/// is freed as often as it was created.
///
/// # Safety
/// The function can be called with `data`, by any thread, until the operation is freed and every collective that uses
/// it is done. `op` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_op_create(
    function: host_op_fn,
    data: *mut c_void,
    commutes: c_int,
    op: *mut c_int,
) -> c_int {
    guarded(|| {
        let call = "host_op_create";
        // SAFETY: passed on.
        let op = unsafe { place(call, op) }?;
        let function = function.ok_or_else(|| Error::argument(call, "the function is NULL"))?;
        // SAFETY: the caller guarantees the function.
        let created = unsafe { UserOp::create(function, data, commutes != 0) };
        *op = reduce_op_code(created.into());
        Ok(())
    })
}

/// Frees an operation and sets the number to -1. New collectives refuse it; those under way go on.
///
/// # Safety
/// `op` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_op_free(op: *mut c_int) -> c_int {
    guarded(|| {
        let call = "host_op_free";
        // SAFETY: passed on.
        let op = unsafe { place(call, op) }?;
        match reduce_op(call, *op)? {
            ReduceOp::User(user) if user.free() => {
                *op = -1;
                Ok(())
            }
            ReduceOp::User(_) => Err(Error::argument(
                call,
                &format!("operation {op} was freed before"),
            )),
            _ => Err(Error::argument(
                call,
                &format!("operation {op} is the host's own"),
            )),
        }
    })
}

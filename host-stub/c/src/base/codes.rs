//! Element types and operations.

use std::ffi::c_int;

use host::win::{Datatype, Op};

use crate::base::error::{Error, Result};

/// Elements: 8-bit signed integers.
pub const HOST_INT8: c_int = 0;
/// Elements: 8-bit unsigned integers.
pub const HOST_UINT8: c_int = 1;
/// Elements: 16-bit signed integers.
pub const HOST_INT16: c_int = 2;
/// Elements: 16-bit unsigned integers.
pub const HOST_UINT16: c_int = 3;
/// Elements: 32-bit signed integers.
pub const HOST_INT32: c_int = 4;
/// Elements: 32-bit unsigned integers.
pub const HOST_UINT32: c_int = 5;
/// Elements: 64-bit signed integers.
pub const HOST_INT64: c_int = 6;
/// Elements: 64-bit unsigned integers.
pub const HOST_UINT64: c_int = 7;
/// Elements: float.
pub const HOST_FLOAT: c_int = 8;
/// Elements: double.
pub const HOST_DOUBLE: c_int = 9;
/// No rank. Transfers and atomic updates of windows with this target do
/// nothing and succeed, and their requests are complete.
pub const HOST_PROC_NULL: c_int = -2;
/// Added to a type: the buffers of the call are device memory, or mapped on a device; host memory then is
/// refused.
pub const HOST_ON_DEVICE: c_int = 0x100;
/// Sum; integers wrap.
pub const HOST_SUM: c_int = 0;
/// Product; integers wrap.
pub const HOST_PROD: c_int = 1;
/// Minimum.
pub const HOST_MIN: c_int = 2;
/// Maximum.
pub const HOST_MAX: c_int = 3;
/// Logical and; integers.
pub const HOST_LAND: c_int = 4;
/// Logical or; integers.
pub const HOST_LOR: c_int = 5;
/// Logical exclusive or; integers.
pub const HOST_LXOR: c_int = 6;
/// Bitwise and; integers.
pub const HOST_BAND: c_int = 7;
/// Bitwise or; integers.
pub const HOST_BOR: c_int = 8;
/// Bitwise exclusive or; integers.
pub const HOST_BXOR: c_int = 9;
/// The operand; accumulates only.
pub const HOST_REPLACE: c_int = 10;
/// The target's value; fetching accumulates only.
pub const HOST_NO_OP: c_int = 11;

// The codes are the places of types and operations in their lists.
const _: () = assert!(
    Datatype::ALL.len() == 10 && matches!(Datatype::ALL[HOST_DOUBLE as usize], Datatype::Double)
);
const _: () = assert!(Op::ALL.len() == 12 && matches!(Op::ALL[HOST_NO_OP as usize], Op::NoOp));

fn of<T: Copy>(call: &str, what: &str, all: &[T], code: c_int) -> Result<T> {
    let found = usize::try_from(code).ok().and_then(|code| all.get(code));
    found.copied().ok_or_else(|| {
        let last = all.len() - 1;
        Error::argument(call, &format!("no {what} {code}; they are 0 to {last}"))
    })
}

/// The type of a code.
pub(crate) fn datatype(call: &str, code: c_int) -> Result<Datatype> {
    of(call, "element type", Datatype::ALL, code)
}

/// The type of a code, and whether the code has HOST_ON_DEVICE.
pub(crate) fn marked(call: &str, code: c_int) -> Result<(Datatype, bool)> {
    let on_device = code & HOST_ON_DEVICE != 0;
    Ok((datatype(call, code & !HOST_ON_DEVICE)?, on_device))
}

/// The operation of a code.
pub(crate) fn op(call: &str, code: c_int) -> Result<Op> {
    of(call, "operation", &Op::ALL, code)
}

fn code<T: PartialEq>(all: &[T], of: T) -> c_int {
    all.iter()
        .position(|other| *other == of)
        .map_or(-1, |at| at as c_int)
}

/// The code of a type.
pub(crate) fn type_code(datatype: Datatype) -> c_int {
    code(Datatype::ALL, datatype)
}

/// The code of an operation.
pub(crate) fn op_code(op: Op) -> c_int {
    code(&Op::ALL, op)
}

/// A rank, which is no negative number.
pub(crate) fn rank(call: &str, rank: c_int) -> Result<usize> {
    usize::try_from(rank).map_err(|_| Error::argument(call, &format!("no rank {rank}")))
}

/// The root of a collective.
pub(crate) fn root(call: &str, root: c_int) -> Result<usize> {
    rank(call, root)
}

/// The code of a root.
pub(crate) fn root_code(root: usize) -> c_int {
    c_int::try_from(root).unwrap_or(c_int::MAX)
}

/// Numbers from C. A count beyond the range of `int` was negative; it is refused before anything is
/// read.
///
/// # Safety
/// `list` is NULL or `count` numbers, which stay unchanged.
pub(crate) unsafe fn numbers<'a>(
    call: &str,
    what: &str,
    list: *const c_int,
    count: usize,
) -> Result<&'a [c_int]> {
    if c_int::try_from(count).is_err() {
        let text = format!("{count} {what}, more than an int can count");
        return Err(Error::argument(call, &text));
    }
    match (list.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Error::argument(call, &format!("the {what} are NULL"))),
        // SAFETY: the caller guarantees `count` values.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(list, count) }),
    }
}

/// Ranks from C.
///
/// # Safety
/// As for [`numbers`].
pub(crate) unsafe fn ranks(call: &str, ranks: *const c_int, count: usize) -> Result<Vec<usize>> {
    // SAFETY: the caller guarantees the list.
    let ranks = unsafe { numbers(call, "ranks", ranks, count) }?;
    ranks.iter().map(|given| rank(call, *given)).collect()
}

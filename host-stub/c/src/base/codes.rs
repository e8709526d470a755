//! Element types and operations.

use std::ffi::c_int;

use host::coll::{ElementType, ReduceOp, UserOp};
use host::win::{Datatype, Op};

use crate::base::error::{Error, Result, guarded};

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
/// Elements of collectives: C's float complex.
pub const HOST_FLOAT_COMPLEX: c_int = 10;
/// Elements of collectives: C's double complex.
pub const HOST_DOUBLE_COMPLEX: c_int = 11;
/// Elements of collectives: struct { float value; int index; }, for HOST_MINLOC and HOST_MAXLOC.
pub const HOST_FLOAT_INT: c_int = 12;
/// Elements of collectives: struct { double value; int index; }.
pub const HOST_DOUBLE_INT: c_int = 13;
/// Elements of collectives: struct { long value; int index; }.
pub const HOST_LONG_INT: c_int = 14;
/// Elements of collectives: struct { int value; int index; }.
pub const HOST_2INT: c_int = 15;
/// Elements of collectives: struct { short value; int index; }.
pub const HOST_SHORT_INT: c_int = 16;
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

/// The lesser value and its index; of equal values the lesser index. Reductions of pairs only.
pub const HOST_MINLOC: c_int = 12;
/// The greater value and its index; of equal values the lesser index. Reductions of pairs only.
pub const HOST_MAXLOC: c_int = 13;

/// The code of the first operation of a program; those below are the host's.
const FIRST_USER_OP: usize = 0x100;
/// The low bits of the type of elements of a size, which stands above bit 8, HOST_ON_DEVICE.
const OF_SIZE: c_int = 0xff;
/// Where the size stands.
const SIZE_SHIFT: u32 = 9;
/// The largest size of an element.
const MOST_BYTES: usize = 1 << 20;

/// The types in the order of their codes.
const TYPES: [Datatype; 10] = [
    Datatype::Int8,
    Datatype::Uint8,
    Datatype::Int16,
    Datatype::Uint16,
    Datatype::Int32,
    Datatype::Uint32,
    Datatype::Int64,
    Datatype::Uint64,
    Datatype::Float,
    Datatype::Double,
];

/// The operations in the order of their codes.
const OPS: [Op; 12] = [
    Op::Sum,
    Op::Prod,
    Op::Min,
    Op::Max,
    Op::Land,
    Op::Lor,
    Op::Lxor,
    Op::Band,
    Op::Bor,
    Op::Bxor,
    Op::Replace,
    Op::NoOp,
];

fn of<T: Copy>(call: &str, what: &str, all: &[T], code: c_int) -> Result<T> {
    let found = usize::try_from(code).ok().and_then(|code| all.get(code));
    found.copied().ok_or_else(|| {
        let last = all.len() - 1;
        Error::argument(call, &format!("no {what} {code}; they are 0 to {last}"))
    })
}

/// The type of a code.
pub(crate) fn datatype(call: &str, code: c_int) -> Result<Datatype> {
    of(call, "element type", &TYPES, code)
}

/// The type of a code, and whether it says that buffers are on a device.
pub(crate) fn marked(call: &str, code: c_int) -> Result<(Datatype, bool)> {
    let on_device = code & HOST_ON_DEVICE != 0;
    Ok((datatype(call, code & !HOST_ON_DEVICE)?, on_device))
}

/// The operation of a code.
pub(crate) fn op(call: &str, code: c_int) -> Result<Op> {
    of(call, "operation", &OPS, code)
}

/// The type of a collective's elements, and whether it says that buffers are on a device.
pub(crate) fn element(call: &str, code: c_int) -> Result<(ElementType, bool)> {
    let on_device = code & HOST_ON_DEVICE != 0;
    let code = code & !HOST_ON_DEVICE;
    if code & OF_SIZE == OF_SIZE && code > OF_SIZE {
        return Ok((ElementType::Bytes((code >> SIZE_SHIFT) as u32), on_device));
    }
    let named = usize::try_from(code).ok();
    let named = named.and_then(|code| ElementType::NAMED.get(code.checked_sub(TYPES.len())?));
    match named {
        Some(element) => Ok((*element, on_device)),
        None => Ok((datatype(call, code)?.into(), on_device)),
    }
}

/// The code of a type of a collective's elements.
pub(crate) fn element_code(element: ElementType) -> c_int {
    match element {
        ElementType::Basic(datatype) => type_code(datatype),
        ElementType::Bytes(size) => OF_SIZE | (size as c_int) << SIZE_SHIFT,
        named => TYPES.len() as c_int + code(&ElementType::NAMED, named),
    }
}

/// The type of elements of so many bytes, which only operations of programs combine; a code, or a negative error.
///
/// # Safety
/// Any thread may call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn host_type_of_size(size: usize) -> c_int {
    let mut found = 0;
    let rc = guarded(|| {
        if size == 0 || size > MOST_BYTES {
            let text = format!("no element of {size} B; they have 1 B to {MOST_BYTES} B");
            return Err(Error::argument("host_type_of_size", &text));
        }
        found = element_code(ElementType::Bytes(size as u32));
        Ok(())
    });
    if rc == 0 { found } else { rc }
}

/// The operation of a reduction.
pub(crate) fn reduce_op(call: &str, code: c_int) -> Result<ReduceOp> {
    match code {
        HOST_MINLOC => return Ok(ReduceOp::MinLoc),
        HOST_MAXLOC => return Ok(ReduceOp::MaxLoc),
        _ => {}
    }
    let user = usize::try_from(code).ok();
    match user.and_then(|code| code.checked_sub(FIRST_USER_OP)) {
        Some(number) => match UserOp::numbered(number) {
            Some(op) => Ok(op.into()),
            None => Err(Error::argument(
                call,
                &format!("no operation {code} was created"),
            )),
        },
        None => Ok(op(call, code)?.into()),
    }
}

/// The code of the operation of a reduction.
pub(crate) fn reduce_op_code(op: ReduceOp) -> c_int {
    match op {
        ReduceOp::Basic(op) => op_code(op),
        ReduceOp::MinLoc => HOST_MINLOC,
        ReduceOp::MaxLoc => HOST_MAXLOC,
        ReduceOp::User(op) => (FIRST_USER_OP + op.number()) as c_int,
    }
}

fn code<T: PartialEq>(all: &[T], of: T) -> c_int {
    all.iter()
        .position(|other| *other == of)
        .map_or(-1, |at| at as c_int)
}

/// The code of a type.
pub(crate) fn type_code(datatype: Datatype) -> c_int {
    code(&TYPES, datatype)
}

/// The code of an operation.
pub(crate) fn op_code(op: Op) -> c_int {
    code(&OPS, op)
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

/// Numbers from C. A count that no `int` holds is refused before anything is read: it was negative.
///
/// # Safety
/// `list` is NULL or `count` numbers, which stay as they are.
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
        // SAFETY: the caller guarantees so many.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(list, count) }),
    }
}

/// Ranks from C.
///
/// # Safety
/// As for [`numbers`].
pub(crate) unsafe fn ranks(call: &str, ranks: *const c_int, count: usize) -> Result<Vec<usize>> {
    // SAFETY: passed on.
    let ranks = unsafe { numbers(call, "ranks", ranks, count) }?;
    ranks.iter().map(|given| rank(call, *given)).collect()
}

//! The arithmetic of accumulates that a transport brings as commands.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use plugin_api::{AtomicOp, Datatype, Status};

use super::{Op, combine};

/// The code of an operation on a type for the target's [`combine_elements`].
pub fn apply_code(datatype: Datatype, op: AtomicOp) -> u32 {
    (datatype as u32) << 8 | op as u32
}

/// A door's arithmetic on elements of types that the engine does not know: `count` elements of `size` bytes become the results
/// of the operation `code` on the elements and their operands. Code and size may come from another process: the function
/// refuses an unknown code, or a code for elements of another size, with [`Status::NOT_SUPPORTED`].
///
/// # Safety
/// The caller passes `count` elements and as many operands of this size, both aligned for every type of that size. The function
/// runs on any thread that makes progress, under locks of the transport: it calls no function of a window or of the transport,
/// and does not wait.
pub type CombineFn = unsafe fn(
    code: u32,
    size: usize,
    elements: *mut u8,
    operands: *const u8,
    count: usize,
) -> Status;

/// Marks the codes of a door among the codes that a transport brings. The codes that a door uses
/// itself are less.
pub(crate) const OF_DOOR: u32 = 1 << 31;

/// Combines elements by a door's function, which may panic.
///
/// # Safety
/// As for [`CombineFn`].
pub(crate) unsafe fn combine_by_door(
    door: Option<CombineFn>,
    (code, size): (u32, usize),
    elements: *mut u8,
    operands: *const u8,
    count: usize,
) -> Status {
    let Some(combine) = door else {
        return Status::NOT_SUPPORTED;
    };
    // SAFETY: the caller guarantees elements and operands, and the thread on which this runs.
    let combine = || unsafe { combine(code, size, elements, operands, count) };
    catch_unwind(AssertUnwindSafe(combine)).unwrap_or(Status::FATAL)
}

/// The arithmetic by which this process executes accumulates of peers. `door` is a [`CombineFn`] or
/// NULL.
///
/// # Safety
/// There are `count` elements of `size` bytes and as many operands, both aligned for every type of that size.
pub unsafe extern "C" fn combine_elements(
    door: *mut c_void,
    code: u32,
    size: usize,
    elements: *mut c_void,
    operands: *const c_void,
    count: usize,
) -> Status {
    if code & OF_DOOR != 0 {
        // SAFETY: the context comes from `Context`, which registers a function of this type, or NULL for no
        // function.
        let door = unsafe { std::mem::transmute::<*mut c_void, Option<CombineFn>>(door) };
        let code = (code & !OF_DOOR, size);
        // SAFETY: the caller guarantees elements and operands.
        return unsafe { combine_by_door(door, code, elements.cast(), operands.cast(), count) };
    }
    let op = Op::ALL.iter().find(|op| op.atomic() as u32 == code & 0xff);
    let (Ok(datatype), Some(op)) = (Datatype::try_from(code >> 8), op) else {
        return Status::NOT_SUPPORTED;
    };
    if !op.is_defined_on(datatype) || datatype.size() != size {
        return Status::NOT_SUPPORTED;
    }
    let bytes = count * size;
    // SAFETY: the transport passes this number of elements and operands.
    let (elements, operands) = unsafe {
        (
            std::slice::from_raw_parts_mut(elements.cast::<u8>(), bytes),
            std::slice::from_raw_parts(operands.cast::<u8>(), bytes),
        )
    };
    // The transport ignores the elements of a refused operation.
    let combined = catch_unwind(AssertUnwindSafe(|| {
        combine(datatype, *op, elements, operands)
    }));
    combined.map_or(Status::FATAL, |()| Status::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code 5 adds the first bytes of elements of 16 bytes.
    unsafe fn of_door(
        code: u32,
        size: usize,
        elements: *mut u8,
        operands: *const u8,
        _: usize,
    ) -> Status {
        match (code, size) {
            (5, 16) => {
                // SAFETY: the tests pass one element of this size.
                unsafe { *elements += *operands };
                Status::SUCCESS
            }
            (6, 16) => panic!("a function may"),
            _ => Status::NOT_SUPPORTED,
        }
    }

    /// Combines 7 and 3; returns the status and the first word of the element.
    fn combined(door: Option<CombineFn>, code: u32, size: usize) -> (Status, u64) {
        let mut elements = [7u64, 0];
        let operands = [3u64, 0];
        let door = door.map_or(std::ptr::null_mut(), |door| door as *mut c_void);
        // SAFETY: one element of at most 16 bytes.
        let status = unsafe {
            combine_elements(
                door,
                code,
                size,
                elements.as_mut_ptr().cast(),
                operands.as_ptr().cast(),
                1,
            )
        };
        (status, elements[0])
    }

    #[test]
    fn codes_that_name_nothing_are_refused() {
        let sum = apply_code(Datatype::Uint64, AtomicOp::Sum);
        assert_eq!(combined(None, sum, 8), (Status::SUCCESS, 10));
        for (unknown, size) in [
            (u32::MAX, 8),
            (apply_code(Datatype::Uint64, AtomicOp::Cswap), 8),
            (apply_code(Datatype::Double, AtomicOp::Band), 8),
            (11 << 8 | AtomicOp::Sum as u32, 8),
            // Elements of another size, for which there would be too few bytes.
            (sum, 1),
            (sum, 16),
        ] {
            assert_eq!(
                combined(None, unknown, size),
                (Status::NOT_SUPPORTED, 7),
                "{unknown:#x}, {size}"
            );
        }
    }

    #[test]
    fn codes_of_the_door_reach_its_function() {
        let added = combined(Some(of_door), OF_DOOR | 5, 16);
        assert_eq!(added, (Status::SUCCESS, 10));
        assert_eq!(combined(Some(of_door), OF_DOOR | 6, 16).0, Status::FATAL);
        let refused = (Status::NOT_SUPPORTED, 7);
        assert_eq!(combined(None, OF_DOOR | 5, 16), refused);
        assert_eq!(combined(Some(of_door), OF_DOOR | 5, 8), refused);
        assert_eq!(combined(Some(of_door), 5, 16), refused);
    }
}

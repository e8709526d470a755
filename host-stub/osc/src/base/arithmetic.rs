//! The arithmetic of accumulates that a transport brings as commands.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use plugin_api::{AtomicOp, Datatype, Status};

use super::op::{Op, combine};

/// The code by which the target's [`combine_elements`] knows an operation on a type.
pub fn apply_code(datatype: Datatype, op: AtomicOp) -> u32 {
    (datatype as u32) << 8 | op as u32
}

/// The arithmetic by which this process makes accumulates of peers.
///
/// # Safety
/// There are `count` elements and as many operands of the type in the code.
pub unsafe extern "C" fn combine_elements(
    _: *mut c_void,
    code: u32,
    elements: *mut c_void,
    operands: *const c_void,
    count: usize,
) -> Status {
    let op = Op::ALL.iter().find(|op| op.atomic() as u32 == code & 0xff);
    let (Ok(datatype), Some(op)) = (Datatype::try_from(code >> 8), op) else {
        return Status::NOT_SUPPORTED;
    };
    if !op.is_defined_on(datatype) {
        return Status::NOT_SUPPORTED;
    }
    let bytes = count * datatype.size();
    // SAFETY: the transport passes as many elements and operands.
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

    #[test]
    fn codes_that_name_nothing_are_refused() {
        let mut elements = [7u64];
        let operands = [3u64];
        let mut combined = |code| {
            // SAFETY: one element of each size.
            let status = unsafe {
                combine_elements(
                    std::ptr::null_mut(),
                    code,
                    elements.as_mut_ptr().cast(),
                    operands.as_ptr().cast(),
                    1,
                )
            };
            (status, elements[0])
        };
        let sum = apply_code(Datatype::Uint64, AtomicOp::Sum);
        assert_eq!(combined(sum), (Status::SUCCESS, 10));
        for unknown in [
            u32::MAX,
            apply_code(Datatype::Uint64, AtomicOp::Cswap),
            apply_code(Datatype::Double, AtomicOp::Band),
            11 << 8 | AtomicOp::Sum as u32,
        ] {
            assert_eq!(
                combined(unknown),
                (Status::NOT_SUPPORTED, 10),
                "{unknown:#x}"
            );
        }
    }
}
